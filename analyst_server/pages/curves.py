"""ROC, precision-recall and calibration curves, of all scored rows and of each party's.

They are drawn from the calibration tables alone, whose bins have at least 20 rows each: a curve has a point
at the edge of each bin, where it is exact, and none between. No rank of a row can be read off it
(docs/adr/0054).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from analyst_server.pages.elements import paragraph, table
from analyst_server.services.report_answers import BinReport, EstimateReport
from pages.charts import Curve, curves

_COLOURS: Final = ("--formula", "--one", "--two", "--three")
_DASHES: Final = ("", "7 4", "2 3")
_MOST_PARTIES: Final = len(_COLOURS) * len(_DASHES)
"""More lines could not be told apart."""
_ALL: Final = "all scored rows"


@dataclass(frozen=True)
class Edge:
    """What it means to call the rows of the upper bins positive.

    Attributes
    ----------
    false_positives, recall : float
        Shares of the rows without the event, and of those with it, that are called positive.
    precision : float
        The share of the rows called positive that have the event.
    """

    false_positives: float
    recall: float
    precision: float


def edges(bins: Sequence[BinReport]) -> list[Edge]:
    """Return one edge for each bin, from the highest probability down; nothing if one class has no row."""
    rows = sum(one["rows"] for one in bins)
    events = sum(one["rows"] * one["observed"] for one in bins)
    # shares times rows are whole numbers but for their last digits
    if round(events) in (0, rows):
        return []
    found, called, hits = [], 0, 0.0
    for one in sorted(bins, key=lambda one: -one["predicted"]):
        called, hits = called + one["rows"], hits + one["rows"] * one["observed"]
        found.append(Edge((called - hits) / (rows - events), hits / events, hits / called))
    return found


def curve_parts(words: str, estimate: EstimateReport) -> tuple[list[str], list[str]]:
    """Return the figures of an estimate of two classes, and the table beside them; nothing of another.

    A member is shown none of it: its report has no bins.
    """
    whole = estimate.get("calibration")
    # only two classes have these; a slope is missing where the model separates them
    has_two = any(estimate.get(name) is not None for name in ("calibration_slope", "calibration_intercept"))
    if whole is None or not has_two:
        return [], []
    bins = {
        party: own["bins"]
        for party, score in estimate["by_party"].items()
        if (own := score.get("calibration")) is not None
    }
    lines = {_ALL: edges(whole["bins"]), **{party: edges(own) for party, own in bins.items()}}
    shown = dict(islice(((name, found) for name, found in lines.items() if found), 1 + _MOST_PARTIES))
    if _ALL not in shown:
        return [], []
    roc = {
        name: [(0.0, 0.0), *((one.false_positives, one.recall) for one in found)]
        for name, found in shown.items()
    }
    precise = {name: [(one.recall, one.precision) for one in found] for name, found in shown.items()}
    fits = {
        name: [(one["predicted"], one["observed"]) for one in own]
        for name, own in bins.items()
        if name in shown
    }
    charts = [
        _drawn(f"ROC, {words}", roc, ("share of the others called positive", "recall"), up=True),
        _drawn(f"Precision and recall, {words}", precise, ("recall", "precision")),
    ]
    if fits:
        charts.append(
            _drawn(
                f"Calibration by institution, {words}", fits, ("predicted share", "observed share"), up=True
            )
        )
    return charts, _table(words, shown)


def _drawn(
    title: str,
    lines: dict[str, list[tuple[float, float]]],
    axes: tuple[str, str],
    *,
    up: bool = False,
) -> str:
    styles = cycle((colour, dash) for dash in _DASHES for colour in _COLOURS)
    found = []
    for name, points in lines.items():
        colour, dash = ("--ours", "") if name == _ALL else next(styles)
        found.append(Curve(name, points, colour, dash, is_main=name == _ALL))
    said = "; ".join(
        f"{name}: {', '.join(f'{x:.2f} and {y:.2f}' for x, y in points)}" for name, points in lines.items()
    )
    return curves(title, f"{axes[0]} and {axes[1]}; {said}", found, axes, diagonal="up" if up else "none")


def _table(words: str, lines: dict[str, list[Edge]]) -> list[str]:
    rows = [
        [f"{name}, {number}", *(f"{value:.3f}" for value in (one.recall, one.false_positives, one.precision))]
        for name, found in lines.items()
        for number, one in enumerate(found, 1)
    ]
    head = ["the upper bins, so many", "recall", "share of the others called positive", "precision"]
    caption = f"{words.capitalize()}: the points of the curves; the members are not shown this table"
    return [
        "<details><summary>The points of these curves</summary>",
        table(caption, head, rows),
        "</details>",
        paragraph(
            "Each point calls the rows of the upper bins of a calibration table positive. A bin has at least"
            " 20 rows, so that no curve tells of single rows; between two points nothing is known. All rows"
            " together are ranked across institutions: the ROC-AUC above is the mean of theirs.",
            quiet=True,
        ),
    ]
