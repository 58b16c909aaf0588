"""A plan, as text for a terminal and as a page."""

from __future__ import annotations

from typing import Final

from analyst_server.pages.chart import break_even_chart
from analyst_server.pages.elements import (
    comparison_cells,
    exact,
    heading,
    page,
    paragraph,
    ratio,
    size,
    table,
)
from analyst_server.pages.predicted import predicted_lines, predicted_parts
from analyst_server.services.planning import Comparison, FederatedAveraging, Plan, Scenario, SumsScenario
from analyst_server.services.predicting import Prediction

_SYMBOLS: Final = {
    "rows X_i F_i": "c n l q/8",
    "anchor A F_i": "c a l q/8",
    "change of basis G_i": "c l^2 q/8",
    "model h": "c N q/8",
    "anchor A; ours: its seed": "a m q/8",
    "the whole round": "(3) + (4) + (5)",
    "sums over all rows": "c 4 p (p + 1)",
    "sums by class": "c k 4 p (p + 1)",
    "their total": "c 4 p (p + 1)",
}
_MEASURED_LATER: Final = (
    "HTTP, TLS and control traffic are not planned: the report of a collaboration measures them."
)


def plan_text(plan: Plan, prediction: Prediction | None) -> str:
    """Return formulas (3) to (8), term by term, and what is predicted of a round of rows."""
    total = plan.total
    lines = [
        _scenario(plan.scenario),
        _ours(plan.scenario),
        "",
        f"{'bytes':<34} {'':<16} {'formula':>20} {'ours':>20} {'ratio':>9}",
        *map(_line, plan.terms),
        _line(total),
        f"{'':<51} {size(total.formula_bytes):>20} {size(total.ours_bytes):>20}",
        "",
        "(7) federated averaging, 2 R p c N q/8",
    ]
    lines += [
        f"    p = {one.participation:g}: {size(one.one_round_bytes)} a round,"
        f" {size(one.bytes)} in R = {one.rounds}"
        for one in plan.federated_averaging
    ]
    lines += ["", "(8) R*, the rounds of federated averaging that cost as much as (6)"]
    for one in plan.federated_averaging:
        terms = one.break_even_terms
        lines.append(
            f"    p = {one.participation:g}: {one.break_even_rounds:.3f}"
            f" = {terms.uplink_rounds:.4g} uplink + {terms.downlink_rounds:.4g} downlink"
            f" + {terms.anchor_rounds:.4g} anchor; with ours {one.our_break_even_rounds:.3f}"
        )
    return "\n".join([*lines, "", *predicted_lines(prediction), "", _kept(plan), _MEASURED_LATER])


def plan_page(plan: Plan, prediction: Prediction | None) -> str:
    """Return the plan as a whole document."""
    return page(
        "What a round would cost",
        paragraph(f"{_scenario(plan.scenario)}; {_ours(plan.scenario)}."),
        break_even_chart(plan),
        heading("One round, term by term"),
        table(
            "Bytes of the whole round: formulas (3) to (6) of arXiv 2403.02780, section II-C, and ours",
            ["term", "formula", "bytes by the formula", "ours", "ratio"],
            map(comparison_cells, plan.terms),
            comparison_cells(plan.total),
        ),
        paragraph(
            f"{_kept(plan)} Ours are the bytes in the bodies of our messages. {_MEASURED_LATER}", quiet=True
        ),
        heading("Federated averaging"),
        table(
            "Formula (7), and R* of formula (8): the rounds that cost as much as (6)",
            [
                "participation",
                "one round",
                "rounds",
                "in all",
                "uplink",
                "downlink",
                "anchor",
                "R*",
                "with ours",
            ],
            map(_federated_cells, plan.federated_averaging),
        ),
        heading("Time and memory, predicted"),
        *predicted_parts(prediction),
    )


def _kept(plan: Plan) -> str:
    return f"The analyst keeps {size(plan.disk_bytes)} of arrays until the collaboration is closed."


def _scenario(scenario: Scenario | SumsScenario) -> str:
    """Return the symbols of the formulas with their values, in one line."""
    if isinstance(scenario, SumsScenario):
        return (
            f"c = {exact(scenario.parties)} parties, any number of rows, m = {exact(scenario.features)},"
            f" {exact(scenario.random_features)} random features, k = {exact(scenario.outputs)},"
            f" p = {exact(scenario.order)}, N = {exact(scenario.model_parameters)}, q = {scenario.bits} bits"
        )
    return (
        f"c = {exact(scenario.parties)} parties, n = {exact(scenario.rows)} rows each,"
        f" a = {exact(scenario.anchor_rows)}, m = {exact(scenario.features)},"
        f" l = {exact(scenario.latent_dim)}, N = {exact(scenario.model_parameters)},"
        f" q = {scenario.bits} bits"
    )


def _ours(scenario: Scenario | SumsScenario) -> str:
    if isinstance(scenario, SumsScenario):
        returned = "and their total come back" if scenario.cohort else "comes back"
        model = "a quadratic discriminant" if scenario.by_class else "a ridge regression"
        return (
            f"ours: masked sums of 64 bits, {model} {returned};"
            f" federated averaging of {exact(scenario.compared_parameters)} parameters"
        )
    return f"ours: {scenario.anchor_kind} anchor, {scenario.rep_dtype}, {scenario.classes} classes"


def _line(row: Comparison) -> str:
    return (
        f"{row.formula:<3} {row.what:<30} {_SYMBOLS.get(row.what, ''):<16}"
        f" {exact(row.formula_bytes):>20} {exact(row.ours_bytes):>20} {ratio(row.ratio):>9}"
    )


def _federated_cells(one: FederatedAveraging) -> list[str]:
    terms = one.break_even_terms
    return [
        f"p = {one.participation:g}",
        size(one.one_round_bytes),
        str(one.rounds),
        size(one.bytes),
        *(f"{value:.4g}" for value in (terms.uplink_rounds, terms.downlink_rounds, terms.anchor_rounds)),
        f"{one.break_even_rounds:.3f}",
        f"{one.our_break_even_rounds:.3f}",
    ]
