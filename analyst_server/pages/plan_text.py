"""A plan for the terminal."""

from __future__ import annotations

from typing import Any

from analyst_server.pages.numbers import exact, ratio, size

_SYMBOLS = {
    "rows X_i F_i": "c n l q/8",
    "anchor A F_i": "c a l q/8",
    "change of basis G_i": "c l^2 q/8",
    "model h": "c N q/8",
    "anchor A; ours: its seed": "a m q/8",
    "the whole round": "(3) + (4) + (5)",
}


def scenario_text(scenario: dict[str, Any]) -> str:
    """The symbols of the formulas with their values, in one line."""
    return (
        f"c = {exact(scenario['parties'])} parties, n = {exact(scenario['rows'])} rows each,"
        f" a = {exact(scenario['anchor_rows'])}, m = {exact(scenario['features'])},"
        f" l = {exact(scenario['latent_dim'])}, N = {exact(scenario['model_parameters'])},"
        f" q = {scenario['bits']} bits"
    )


def ours_text(scenario: dict[str, Any]) -> str:
    return f"ours: {scenario['anchor_kind']} anchor, {scenario['rep_dtype']}, {scenario['classes']} classes"


def plan_text(plan: dict[str, Any]) -> str:
    """Formulas (3) to (8), term by term."""
    scenario = plan["scenario"]
    lines = [
        scenario_text(scenario),
        ours_text(scenario),
        "",
        f"{'bytes':<34} {'':<16} {'formula':>20} {'ours':>20} {'ratio':>9}",
        *(_line(row) for row in plan["terms"]),
        _line(plan["total"]),
        f"{'':<51} {size(plan['total']['formula_bytes']):>20} {size(plan['total']['ours_bytes']):>20}",
        "",
        "(7) federated averaging, 2 R p c N q/8",
    ]
    lines += [
        f"    p = {one['participation']:g}: {size(one['one_round_bytes'])} a round,"
        f" {size(one['bytes'])} in R = {one['rounds']}"
        for one in plan["federated_averaging"]
    ]
    lines += ["", "(8) R*, the rounds of federated averaging that cost as much as (6)"]
    for one in plan["federated_averaging"]:
        terms = one["break_even_terms"]
        lines.append(
            f"    p = {one['participation']:g}: {one['break_even_rounds']:.3f}"
            f" = {terms['uplink_rounds']:.4g} uplink + {terms['downlink_rounds']:.4g} downlink"
            f" + {terms['anchor_rounds']:.4g} anchor; with ours {one['our_break_even_rounds']:.3f}"
        )
    lines += [
        "",
        "HTTP, TLS and control traffic are not planned: the report of a collaboration measures them.",
    ]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['formula']:<3} {row['what']:<30} {_SYMBOLS.get(row['what'], ''):<16}"
        f" {exact(row['formula_bytes']):>20} {exact(row['ours_bytes']):>20} {ratio(row['ratio']):>9}"
    )
