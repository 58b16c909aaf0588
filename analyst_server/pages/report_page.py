"""What a round cost, as a page."""

from __future__ import annotations

from typing import Any

from analyst_server.pages.findings import in_words
from analyst_server.pages.html import heading, page, paragraph, table
from analyst_server.pages.numbers import exact, ratio
from analyst_server.pages.report_text import by_party, compared, done_to_rows, where_it_went


def report_page(report: dict[str, Any]) -> str:
    """Return the whole document."""
    anchor, wire = report["anchor"], report["wire"]
    parts = [
        paragraph(
            f"Collaboration {report['collaboration_id']} is {report['state']}."
            f" Alignment {report['alignment']}, {anchor['kind']} anchor of {exact(anchor['rows'])} rows,"
            f" {exact(report['features'])} features, latent dimension {exact(report['latent_dim'])}."
        ),
        *([paragraph(f"It failed: {report['failure']}.")] if report["failure"] else []),
        *(_scores(report["results"]) if report["results"] else []),
        heading("Bytes on the wire"),
        *(_wire(wire, report["downlink"]) if wire else [paragraph("Nothing was measured yet.")]),
        heading("Parties"),
        table(
            "What each party sent: rows, the arrays of its uplink, formula (3)",
            ["party", "rows", "uplink payload", "formula (3)"],
            [
                [
                    party["party"],
                    exact(party["rows"]),
                    exact(party["uplink_payload_bytes"]),
                    exact(party["uplink_formula_bytes"]),
                ]
                for party in report["parties"]
            ],
        ),
        *[paragraph(f"{party} says of its rows: {words}.") for party, words in done_to_rows(report)],
    ]
    return page(report["title"], *parts)


def _scores(results: dict[str, Any]) -> list[str]:
    scores = results["hold_out_scores"] or {}
    said = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
    found = [paragraph(f"{line.strip()}.") for line in in_words(results["alignment"])]
    return [paragraph(f"On held-out rows: {said or 'too few to score'}."), *found]


def _wire(wire: dict[str, Any], downlink: str) -> list[str]:
    *rows, total = compared(wire, downlink)
    *went, measured = where_it_went(wire)
    return [
        table(
            "Formulas (3) to (6) of arXiv 2403.02780 at 32 bits, and what was measured",
            ["transfer", "formula", "bytes by the formula", "ours", "ratio"],
            [_cells(row) for row in rows],
            _cells(total),
        ),
        table(
            "The same by party, all its transfers and its control traffic",
            ["party", "", "bytes by the formula", "ours", "ratio"],
            [_cells(row) for row in by_party(wire)],
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
            else "Counted by the transport below TLS, as this system's kernel does not tell; what TCP sent"
            " again is not in any figure.",
            quiet=True,
        ),
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    formula, ours = exact(row["formula_bytes"]), exact(row["ours_bytes"])
    return [row["what"], row["formula"], formula, ours, ratio(row["ratio"])]
