"""What an alignment found, in words: who is suspected of what, what it costs, how well the rest agrees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BROKEN: Final[Mapping[str, str]] = {
    "full-rank": "its basis loses directions, or what it sent is damaged",
    "orthonormal": "its basis is not orthonormal, or what it sent is damaged",
    "same-scale": "its basis or its anchor is scaled, or what it sent is damaged",
    "same-anchor-or-related-span": "it used another anchor or its rows are out of order,"
    " unless its records are unlike everybody else's",
}
"""What may be wrong where `analyst_server.alignment.suspicion.Assumption` does not hold."""


def in_words(alignment: Mapping[str, Any]) -> list[str]:
    """Return the lines of a report for ``results["alignment"]``."""
    suspicions = alignment.get("suspicions", [])
    lines = [_agreement(alignment)]
    for suspicion in suspicions:
        lines.append(
            f"suspected: {suspicion['party']}: its anchor representation {suspicion['evidence']};"
            f" {BROKEN[suspicion['assumption']]}"
        )
        lines.append(f"  {_cost(suspicion, alignment['left_out'])}")
    return lines


def _agreement(alignment: Mapping[str, Any]) -> str:
    gaps = alignment["party_gaps"]
    line = f"concordance gap: {alignment['concordance_gap']:.2e}"
    if not alignment["concordance_gap"] or "span_angles" not in alignment:  # rounds of earlier versions
        return line
    apart = max(gaps, key=lambda party: gaps[party])
    median, largest = alignment["span_angles"][apart]
    return (
        f"{line}; furthest from the others: {apart} ({gaps[apart]:.2e},"
        f" principal angles: median {median:.0f}, largest {largest:.0f} degrees)"
    )


def _cost(suspicion: Mapping[str, Any], left_out: list[str]) -> str:
    target = "it did not shape the common representation"
    if not suspicion["rows"]:
        return f"cost: {target}; it sent no rows; its predictions may be worthless"
    if suspicion["party"] in left_out:
        return (
            f"cost: {target}, its {suspicion['rows']} rows did not train the model,"
            " and its predictions may be worthless"
        )
    return (
        f"cost: {target}, but its {suspicion['rows']} rows trained the model, as the settings allow;"
        " its predictions may be worthless"
    )
