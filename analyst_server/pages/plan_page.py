"""A plan as a page."""

from __future__ import annotations

from typing import Any

from analyst_server.pages.chart import break_even_chart
from analyst_server.pages.html import heading, page, paragraph, table
from analyst_server.pages.numbers import exact, ratio, size
from analyst_server.pages.plan_text import ours_text, scenario_text


def plan_page(plan: dict[str, Any]) -> str:
    """Return the whole document."""
    scenario, total = plan["scenario"], plan["total"]
    return page(
        "What a round would cost",
        paragraph(f"{scenario_text(scenario)}; {ours_text(scenario)}."),
        break_even_chart(plan),
        heading("One round, term by term"),
        table(
            "Bytes of the whole round: formulas (3) to (6) of arXiv 2403.02780, section II-C, and ours",
            ["term", "formula", "bytes by the formula", "ours", "ratio"],
            [_cells(row) for row in plan["terms"]],
            _cells(total),
        ),
        paragraph(
            "Ours is what stands in the bodies of messages. HTTP, TLS and control traffic are measured, not"
            " planned: the report of a collaboration has them.",
            quiet=True,
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
            [_compared(one) for one in plan["federated_averaging"]],
        ),
    )


def _cells(row: dict[str, Any]) -> list[str]:
    ours, formula = exact(row["ours_bytes"]), exact(row["formula_bytes"])
    return [row["what"], row["formula"], formula, ours, ratio(row["ratio"])]


def _compared(one: dict[str, Any]) -> list[str]:
    terms = one["break_even_terms"]
    return [
        f"p = {one['participation']:g}",
        size(one["one_round_bytes"]),
        str(one["rounds"]),
        size(one["bytes"]),
        *(f"{terms[name]:.4g}" for name in ("uplink_rounds", "downlink_rounds", "anchor_rounds")),
        f"{one['break_even_rounds']:.3f}",
        f"{one['our_break_even_rounds']:.3f}",
    ]
