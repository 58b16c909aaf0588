"""The charts of a report: bytes beside the formulas, scores with intervals, what the alignment found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, cast

from analyst_server.services.planning import Comparison
from analyst_server.services.report_answers import AlignmentReport, EstimateReport, PartyScoreReport, Results
from pages.charts import Bar, Curve, Interval, bars, calibration, curves, intervals
from pages.numbers import size
from runtime.terminal import FIGURES, figure

WAYS: Final[tuple[tuple[Literal["within", "across"], str], ...]] = (
    ("within", "rows held out inside the parties"),
    ("across", "whole parties held out"),
)
_SHARES: Final = ("roc_auc", "pr_auc", "accuracy", "c_index", "r2")
"""The scores on a scale that ends at 1."""
_RIGHT_ANGLE: Final = 90
_MOST_CURVES: Final = 10
_CURVE_COLOURS: Final = ("--ours", "--two", "--three", "--formula")


def bytes_chart(rows: Sequence[Comparison]) -> str:
    """Return the measured bytes of each kind of transfer, beside its formula."""
    shown = [
        (
            f"{row.what} {row.formula}".strip(),
            [
                *(
                    [Bar(row.formula_bytes, "--formula", size(row.formula_bytes))]
                    if row.formula_bytes
                    else []
                ),
                Bar(row.ours_bytes, "--ours", size(row.ours_bytes)),
            ],
        )
        for row in rows
    ]
    said = "; ".join(f"{label} {', '.join(bar.words for bar in group)}" for label, group in shown)
    return bars(
        "Bytes by kind of transfer", said, shown, [("--formula", "by the formula"), ("--ours", "measured")]
    )


def score_charts(results: Results) -> list[str]:
    """Return each figure of the model with its interval and every party's own, and the calibration."""
    judgement = results.get("judgement")
    if judgement is None or judgement.get("is_pending"):
        return []
    charts: list[str] = []
    estimates = [(words, found) for way, words in WAYS if (found := judgement[way]) is not None]
    for name, words in FIGURES.items():
        if rows := [row for _, estimate in estimates[:1] for row in _scored(estimate, name)]:
            charts.append(_score_chart(f"{words}, {estimates[0][0]}", name, rows))
    for words, estimate in estimates:
        if table := estimate.get("calibration"):
            bins = [(one["predicted"], one["observed"], one["rows"]) for one in table["bins"]]
            said = "; ".join(f"predicted {p:.2f}, observed {o:.2f}, {n} rows" for p, o, n in bins)
            charts.append(calibration(f"Calibration, {words}", said, bins))
    return charts


def _scored(estimate: EstimateReport, name: str) -> list[Interval]:
    """Return the mean of a figure, and of each party that has one its own."""
    mean = cast("Mapping[str, Mapping[str, float] | None]", estimate).get(name)
    if mean is None:
        return []
    rows = [Interval("mean", mean["mean"], mean["low"], mean["high"], figure(name, mean["mean"]))]
    for party, score in estimate["by_party"].items():
        own = _own(score, name)
        if own is not None:
            rows.append(Interval(party, own, None, None, figure(name, own), "--formula"))
    return rows


def _own(score: PartyScoreReport, name: str) -> float | None:
    return cast("Mapping[str, float | None]", score).get(name)


def _score_chart(title: str, name: str, rows: Sequence[Interval]) -> str:
    values = [value for row in rows for value in (row.value, row.low, row.high) if value is not None]
    ends = (min(0.5, *values), 1.0) if name in _SHARES else (0.0, 1.05 * max(values) or 1.0)
    said = "; ".join(f"{row.label} {row.words}" for row in rows)
    return intervals(
        title, said, rows, ends, lambda value: figure(name, value) if name in _SHARES else f"{value:.2g}"
    )


def alignment_charts(alignment: AlignmentReport) -> list[str]:
    """Return how far each party is from the others, its singular values, and its angles."""
    suspected = {one["party"] for one in alignment.get("suspicions", [])}

    def colour(party: str) -> str:
        return "--one" if party in suspected else "--ours"

    legend = [("--ours", "no suspicion"), ("--one", "suspected")] if suspected else []
    gaps = [
        (party, [Bar(gap, colour(party), f"{gap:.2e}")]) for party, gap in alignment["party_gaps"].items()
    ]
    charts: list[str] = [_by_party("Concordance gap of each party", gaps, legend)]
    if "singular_values" in alignment:
        rows = [
            (party, [Bar(largest, colour(party), f"{largest:.3g}"), Bar(least, "--formula", f"{least:.3g}")])
            for party, (largest, least) in alignment["singular_values"].items()
        ]
        both = [("--ours", "largest"), ("--formula", "smallest")]
        charts.append(_by_party("Singular values of each anchor representation", rows, both))
    if spectra := alignment.get("spectra"):
        charts.append(_spectra(spectra, suspected))
    if "span_angles" in alignment:
        angles = [
            Interval(party, median, median, largest, f"{median:.0f} to {largest:.0f}°", colour(party))
            for party, (median, largest) in alignment["span_angles"].items()
        ]
        said = "; ".join(f"{one.label} {one.words}" for one in angles)
        title = "Principal angles to the common span: median (dot) to largest, in degrees"
        charts.append(intervals(title, said, angles, (0, _RIGHT_ANGLE), lambda value: f"{value:g}"))
    return charts


def _spectra(spectra: Mapping[str, Sequence[float]], suspected: Collection[str]) -> str:
    """Return a curve of each party's singular values; of many parties, of those that are suspected first."""
    shown = sorted(spectra, key=lambda party: party not in suspected)[:_MOST_CURVES]
    top = max((values[0] for values in spectra.values()), default=0) or 1.0
    lines = [
        Curve(
            party,
            [(k / max(len(spectra[party]) - 1, 1), value / top) for k, value in enumerate(spectra[party])],
            "--one" if party in suspected else _CURVE_COLOURS[number % len(_CURVE_COLOURS)],
            "5 4" if party in suspected else "",
            is_main=party in suspected,
        )
        for number, party in enumerate(shown)
    ]
    said = "; ".join(f"{party} from {spectra[party][0]:.3g} to {spectra[party][-1]:.3g}" for party in shown)
    title = "Spectrum of each anchor representation: its singular values in their order"
    if rest := len(spectra) - len(shown):
        title += f"; {rest} more parties are not drawn"
    return curves(title, said, lines, ("place, from the first to the last", f"share of {top:.3g}"))


def _by_party(
    title: str, rows: Sequence[tuple[str, Sequence[Bar]]], legend: Sequence[tuple[str, str]]
) -> str:
    said = "; ".join(f"{label} {', '.join(bar.words for bar in group)}" for label, group in rows)
    return bars(title, said, rows, legend)
