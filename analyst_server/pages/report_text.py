"""What a round cost, for the terminal: formula, ours, ratio, and where the rest went."""

from __future__ import annotations

from typing import Any, Final

from analyst_server.pages.findings import in_words
from analyst_server.pages.numbers import exact, ratio
from metering.explanation import WORDS
from protocol.messages import PrivacyRecord
from runtime.terminal import privacy_in_words

TRANSFERS: Final = (("uplink", "(3)"), ("downlink", "(4)"), ("anchor", "(5)"))
"""The parts of a party's round that have a formula, and which."""
ANCHOR_PREDICTIONS: Final = "a k q / 8"
"""What stands for formula (4) under NRI-DC (docs/nri.md)."""
WITHOUT_FORMULA: Final = (("control", "control"), ("membership", "joining and listing"))


def compared(wire: dict[str, Any], downlink: str) -> list[dict[str, Any]]:
    """Return formula, ours and ratio of each kind of transfer over all parties, of all else, and in all.

    The formulas stand at 32 bits. Ours is what was measured, so the ratio holds everything: labels, TLS, what
    was sent again. ``downlink`` is what comes back by the terms.
    """
    formulas = dict(TRANSFERS)
    if downlink == "anchor-predictions":
        formulas["downlink"] = ANCHOR_PREDICTIONS
    rows = [
        _compared(kind, formula, [party[kind] for party in wire["parties"]])
        for kind, formula in formulas.items()
    ]
    rows += [
        _compared(words, "", [party[kind] for party in wire["parties"]]) for kind, words in WITHOUT_FORMULA
    ]
    return [*rows, _compared("the whole round", "(6)", [wire["total"]])]


def by_party(wire: dict[str, Any]) -> list[dict[str, Any]]:
    """Return formula, ours and ratio of each party's whole round."""
    return [_compared(party["party"], "", [party["total"]]) for party in wire["parties"]]


def where_it_went(wire: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """Return each term of the explanation in words, with its bytes for every kind and in all."""
    kinds = [[party[kind] for party in wire["parties"]] for kind, _ in TRANSFERS]
    columns = [*kinds, [wire["total"]]]
    names = {**WORDS, "measured_bytes": "measured"}
    return [(words, [_sum(parts, name) for parts in columns]) for name, words in names.items()]


def report_text(report: dict[str, Any]) -> str:
    """Return the report of a collaboration: its parties, its scores, and its bytes."""
    lines = [
        f"{report['title']}: {report['state']}, alignment {report['alignment']}, l = {report['latent_dim']}"
    ]
    lines += [
        f"  {party['party']:<24} {party['rows']:>8} rows  uplink {party['uplink_payload_bytes']:>12,} B"
        f"  formula (3) {party['uplink_formula_bytes']:>14,.0f} B"
        for party in report["parties"]
    ]
    lines += [f"  {party}: {words}" for party, words in done_to_rows(report)]
    if report["results"]:
        lines.append(f"scores on held-out rows: {report['results']['hold_out_scores']}")
        lines += in_words(report["results"]["alignment"])
    return "\n".join(lines + (_wire_lines(report["wire"], report["downlink"]) if report["wire"] else []))


def done_to_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what each party that did anything says it did to its rows before they left."""
    records = [
        (party["party"], PrivacyRecord(**party["privacy"])) for party in report["parties"] if party["privacy"]
    ]
    return [(party, "; ".join(words)) for party, record in records if (words := privacy_in_words(record))]


def _wire_lines(wire: dict[str, Any], downlink: str) -> list[str]:
    lines = ["", f"{'bytes on the wire':<42} {'formula':>18} {'ours':>18} {'ratio':>9}"]
    for row in [*by_party(wire), *compared(wire, downlink)]:
        what = f"{row['what']} {row['formula']}"
        numbers = f"{exact(row['formula_bytes']):>18} {exact(row['ours_bytes']):>18} {ratio(row['ratio']):>9}"
        lines.append(f"  {what:<40} {numbers}")
    heads = " ".join(f"{head:>15}" for head in ("uplink", "downlink", "anchor", "in all"))
    lines += ["", f"{'where they went':<46} {heads}"]
    for words, counts in where_it_went(wire):
        if any(counts):
            lines.append(f"  {words:<44} {' '.join(f'{count:>15,}' for count in counts)}")
    return [*lines, f"counted by the {wire['counter']}"]


def _compared(what: str, formula: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    ours, by_formula = _sum(parts, "measured_bytes"), _sum(parts, "formula_bytes")
    return {
        "what": what,
        "formula": formula,
        "formula_bytes": by_formula,
        "ours_bytes": ours,
        "ratio": ours / by_formula if by_formula else None,
    }


def _sum(parts: list[dict[str, Any]], name: str) -> int:
    return sum(part.get(name, 0) for part in parts)
