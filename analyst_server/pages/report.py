"""The report of a collaboration, as text for a terminal and as a page.

Both show formula, ours and ratio of every transfer, the explanation of every byte, the scores of the model,
and what the alignment found: which party is suspected of what, and what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final, Literal

from analyst_server.pages.averaging import compared_with_averaging
from analyst_server.pages.curves import curve_parts
from analyst_server.pages.drawn import WAYS, alignment_charts, bytes_chart, score_charts
from analyst_server.pages.elements import (
    comparison_cells,
    exact,
    figures,
    heading,
    page,
    paragraph,
    ratio,
    table,
)
from analyst_server.pages.scores import score_lines, score_parts
from analyst_server.services.planning import Comparison, compare
from analyst_server.services.report_answers import (
    AlignmentReport,
    JoinedReport,
    PartyReport,
    Report,
    Results,
    Suspicion,
)
from metering.explanation import WORDS, Parts, RoundBytes
from protocol.answers import ReportedScore
from protocol.messages import PrivacyRecord
from protocol.suspicions import LIKELY_CAUSE
from runtime.terminal import (
    fewer_numbers,
    joined_rows_in_words,
    own_maps_in_words,
    privacy_in_words,
    score_in_words,
)

_Transfer = Literal["uplink", "downlink", "anchor"]
TRANSFERS: Final[Mapping[_Transfer, str]] = {"uplink": "(3)", "downlink": "(4)", "anchor": "(5)"}
"""The parts of a party's round that have a formula, and its number."""
ANCHOR_PREDICTIONS: Final = "a k q / 8"
"""What stands for formula (4) under NRI-DC (docs/nri.md)."""
SUMS_FORMULA: Final = "4 p (p + 1)"
"""What stands for formula (3) under sums (docs/sums.md)."""
_EXCLUDED: Final = "excluded by the operator, before the model was trained"
_WITHOUT_FORMULA: Final[Mapping[Literal["control", "membership"], str]] = {
    "control": "control",
    "membership": "joining and listing",
}


def report_text(report: Report) -> str:
    """Return the report for a terminal: its parties, its scores, and its bytes."""
    are_sums = report["uplink"] == "sums"
    how = "masked sums" if are_sums else f"alignment {report['alignment']}"
    lines = [f"{report['title']}: {report['state']}, {how}, l = {report['latent_dim']}"]
    lines += [
        f"  {party['party']:<24} {_rows_of(party):>13}  uplink {party['uplink_payload_bytes']:>12,} B"
        f"  formula {_formula_of_uplink(report['uplink'])} {party['uplink_formula_bytes']:>14,.0f} B"
        + ("  late consumer" if party["late_consumer"] else "")
        for party in report["parties"]
    ]
    lines += [f"  {party}: {_EXCLUDED}" for party in report.get("excluded", [])]
    lines += [f"  {party} {words}" for party, words in fewer_numbers(report)]
    lines += [f"  {words}" for words in (*own_maps_in_words(report), *joined_rows_in_words(report))]
    lines += [f"  {party}: {words}" for party, words in _privacy(report)]
    lines += [f"  warning: {party} {words}" for party, words in _absent(report)]
    if report["results"]:
        lines += score_lines(report["results"])
        lines += _findings(report["results"]) if "alignment" in report["results"] else []
    lines += [f"{score['party']} has measured: {score_in_words(score)}" for score in report["member_scores"]]
    if report["wire"]:
        lines += _wire_lines(report["wire"], report["downlink"], report["uplink"])
    return "\n".join(lines)


def report_page(report: Report) -> str:
    """Return the report as a whole document."""
    return page(report["title"], *(part for section in report_sections(report) for part in section))


def report_sections(report: Report) -> list[list[str]]:
    """Return the parts of the report: how it was held and how it scores, its bytes, and its parties."""
    wire, formula = report["wire"], _formula_of_uplink(report["uplink"])
    held = [
        paragraph(
            f"Collaboration {report['collaboration_id']} is {report['state']}."
            f" {_how(report)}, {exact(report['features'])} features, latent dimension"
            f" {exact(report['latent_dim'])}."
        ),
        *([paragraph(f"It failed: {report['failure']}.")] if report["failure"] else []),
        *(_results(report["results"]) if report["results"] else []),
        *_member_scores(report["member_scores"]),
    ]
    sent = [
        heading("Bytes on the wire"),
        *(
            [bytes_chart(_charted(wire, report)), *_wire_tables(wire, report["downlink"], report["uplink"])]
            if wire
            else [paragraph("Nothing was measured yet.")]
        ),
        *compared_with_averaging(report),
    ]
    parties = [
        heading("Parties"),
        table(
            f"What each party sent: rows, the arrays of its uplink, formula {formula}",
            ["party", "rows", "uplink payload", f"formula {formula}"],
            [
                [
                    party["party"] + (", late consumer" if party["late_consumer"] else ""),
                    "unknown" if party["rows"] is None else exact(party["rows"]),
                    exact(party["uplink_payload_bytes"]),
                    exact(party["uplink_formula_bytes"]),
                ]
                for party in report["parties"]
            ],
        ),
        *[paragraph(f"{party} was {_EXCLUDED}.") for party in report.get("excluded", [])],
        *[paragraph(f"{party} {words}.") for party, words in fewer_numbers(report)],
        *[paragraph(f"{words[0].upper()}{words[1:]}.") for words in own_maps_in_words(report)],
        *[paragraph(f"{words}.") for words in joined_rows_in_words(report)],
        *[paragraph(f"{party} says of its rows: {words}.") for party, words in _privacy(report)],
        *[paragraph(f"Warning: {party} {words}.") for party, words in _absent(report)],
    ]
    return [held, sent, parties]


def _charted(wire: RoundBytes, report: Report) -> list[Comparison]:
    """Return what the chart of bytes shows: every kind of transfer, without their sum."""
    return compared(wire, report["downlink"], report["uplink"])[:-1]


def _how(report: Report) -> str:
    """Return how the round was held, as the beginning of a sentence."""
    if report["uplink"] == "sums":
        return "Masked sums"
    anchor = report["anchor"]
    return f"Alignment {report['alignment']}, {anchor['kind']} anchor of {exact(anchor['rows'])} rows"


def _formula_of_uplink(uplink: str) -> str:
    """Return the number of the formula, or what stands for it."""
    return SUMS_FORMULA if uplink == "sums" else TRANSFERS["uplink"]


def _rows_of(party: PartyReport) -> str:
    """Return how many rows a party sent, or that nobody knows."""
    return "unknown rows" if party["rows"] is None else f"{party['rows']} rows"


def compared(wire: RoundBytes, downlink: str, uplink: str = "rows") -> list[Comparison]:
    """Return formula, ours and ratio of each kind of transfer over all parties, of the rest, and in all.

    The formulas are at 32 bits. Ours are the measured bytes, so the ratio includes everything: labels, TLS,
    what was sent again. ``downlink`` is what the terms send back, ``uplink`` what institutions send.
    """
    formulas = {**TRANSFERS, "downlink": ANCHOR_PREDICTIONS if downlink == "anchor-predictions" else "(4)"}
    formulas["uplink"] = _formula_of_uplink(uplink)
    rows = [_compared(kind, formulas[kind], [party[kind] for party in wire["parties"]]) for kind in TRANSFERS]
    rows += [
        _compared(words, "", [party[kind] for party in wire["parties"]])
        for kind, words in _WITHOUT_FORMULA.items()
    ]
    return [*rows, _compared("the whole round", "(6)", [wire["total"]])]


def by_party(wire: RoundBytes) -> list[Comparison]:
    """Return formula, ours and ratio of each party's whole round."""
    return [_compared(party["party"], "", [party["total"]]) for party in wire["parties"]]


def where_it_went(wire: RoundBytes) -> list[tuple[str, list[int]]]:
    """Return each term of the explanation in words, with its bytes for every kind and in all."""
    kinds = [[party[kind] for party in wire["parties"]] for kind in TRANSFERS]
    columns = [*kinds, [wire["total"]]]
    names = {**WORDS, "measured_bytes": "measured"}
    return [(words, [_sum(parts, name) for parts in columns]) for name, words in names.items()]


def _findings(results: Results) -> list[str]:
    return findings(results["alignment"], results.get("joined_rows", []))


def findings(alignment: AlignmentReport, joined: Sequence[JoinedReport] = ()) -> list[str]:
    """Return what the alignment found, in lines: how well the parties agree, and who is suspected."""
    lines = [_agreement(alignment)]
    for suspicion in alignment.get("suspicions", []):
        lines.append(
            f"suspected: {_suspected(suspicion['party'], joined)}: its anchor representation"
            f" {suspicion['evidence']}; {LIKELY_CAUSE[suspicion['assumption']]}"
        )
        lines.append(f"  {_cost(suspicion, alignment['left_out'])}")
    return lines


def _suspected(party: str, joined: Sequence[JoinedReport]) -> str:
    """Return a suspected party, with those whose rows were joined with its: it may be any of them."""
    others = [each for group in joined if group["labels"] == party for each in group["sent"] if each != party]
    return f"{party}, or {' or '.join(others)} whose rows are joined with its" if others else party


def _absent(report: Report) -> list[tuple[str, str]]:
    """Return which columns each party lacks, and how far from the others that leaves it.

    Where its rows are joined, others have these columns.
    """
    joined = [party["party"] for party in report["parties"] if party.get("joined_with")]
    found = [(party["party"], party.get("absent_columns", [])) for party in report["parties"]]
    return [
        (party, f"takes part without {', '.join(columns)}{_distance(party, report['results'])}")
        for party, columns in found
        if columns and party not in joined
    ]


def _distance(party: str, results: Results | None) -> str:
    gaps = results["alignment"]["party_gaps"] if results and "alignment" in results else {}
    if party not in gaps:  # not aligned yet, or after the release
        return ""
    usual = median([gap for other, gap in gaps.items() if other != party] or [0.0])
    return (
        f", and is aligned approximately: its anchor is {gaps[party]:.2f} from the common one, relative to"
        f" the size of that; the median of the others is {usual:.2f}"
    )


def _agreement(alignment: AlignmentReport) -> str:
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


def _cost(suspicion: Suspicion, left_out: Sequence[str]) -> str:
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


def _privacy(report: Report) -> list[tuple[str, str]]:
    """Return what each party says it did to its rows before they left, if it did anything."""
    records = [
        (party["party"], PrivacyRecord(**party["privacy"])) for party in report["parties"] if party["privacy"]
    ]
    return [(party, "; ".join(words)) for party, record in records if (words := privacy_in_words(record))]


def _results(results: Results) -> list[str]:
    found: list[str] = []
    if "alignment" in results:
        lines = _findings(results)
        found = [
            heading("Alignment"),
            *(paragraph(f"{line.strip()}.") for line in lines),
            *figures(alignment_charts(results["alignment"])),
        ]
    return [*score_parts(results), *figures(score_charts(results)), *_curves(results), *found]


def _curves(results: Results) -> list[str]:
    """Return the curves of both ways to hold rows out, each with its table."""
    judgement = results.get("judgement")
    if judgement is None or judgement.get("is_pending"):
        return []
    parts: list[str] = []
    for way, words in WAYS:
        if (estimate := judgement[way]) is not None:
            charts, points = curve_parts(words, estimate)
            parts += [*figures(charts), *points] if charts else []
    return parts


def _member_scores(found: Sequence[ReportedScore]) -> list[str]:
    """Return what the institutions have measured themselves, on rows that they have not sent."""
    if not found:
        return []
    return [
        heading("What the institutions have measured"),
        *[paragraph(f"{score['party']}: {score_in_words(score)}.") for score in found],
        paragraph("Each on rows that it has not sent, beside a model of its own rows alone.", quiet=True),
    ]


def _wire_lines(wire: RoundBytes, downlink: str, uplink: str) -> list[str]:
    lines = ["", f"{'bytes on the wire':<42} {'formula':>18} {'ours':>18} {'ratio':>9}"]
    for row in [*by_party(wire), *compared(wire, downlink, uplink)]:
        what = f"{row.what} {row.formula}"
        numbers = f"{exact(row.formula_bytes):>18} {exact(row.ours_bytes):>18} {ratio(row.ratio):>9}"
        lines.append(f"  {what:<40} {numbers}")
    heads = " ".join(f"{head:>15}" for head in ("uplink", "downlink", "anchor", "in all"))
    lines += ["", f"{'where they went':<46} {heads}"]
    for words, counts in where_it_went(wire):
        if any(counts):
            lines.append(f"  {words:<44} {' '.join(f'{count:>15,}' for count in counts)}")
    return [*lines, f"counted by the {wire['counter']}"]


def _wire_tables(wire: RoundBytes, downlink: str, uplink: str) -> list[str]:
    *rows, total = compared(wire, downlink, uplink)
    *went, measured = where_it_went(wire)
    return [
        table(
            "Formulas (3) to (6) of arXiv 2403.02780 at 32 bits, and what was measured",
            ["transfer", "formula", "bytes by the formula", "ours", "ratio"],
            map(comparison_cells, rows),
            comparison_cells(total),
        ),
        table(
            "The same by party, with all its transfers and its control traffic",
            ["party", "", "bytes by the formula", "ours", "ratio"],
            map(comparison_cells, by_party(wire)),
        ),
        heading("Where every byte went"),
        table(
            "From the formula to what was measured; the lines add up",
            ["", "uplink", "downlink", "anchor", "in all"],
            [[words, *map(exact, counts)] for words, counts in went if any(counts)],
            [measured[0], *map(exact, measured[1])],
        ),
        paragraph(
            "Counted by the kernel (TCP_INFO), TLS included; IP and TCP headers are not in any figure."
            if wire["counter"] == "kernel"
            else "Counted by the transport below TLS, because the kernel of this system does not tell;"
            " what TCP sent again is not in any figure.",
            quiet=True,
        ),
    ]


def _compared(what: str, formula: str, parts: Sequence[Parts]) -> Comparison:
    return compare(formula, what, _sum(parts, "formula_bytes"), _sum(parts, "measured_bytes"))


def _sum(parts: Sequence[Parts], name: str) -> int:
    return sum(part.get(name, 0) for part in parts)
