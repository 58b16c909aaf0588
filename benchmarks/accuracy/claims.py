"""The claims about `isotropic`, computed so that a difference in scale cannot explain them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.accuracy.experiment import Cell, Setup
from benchmarks.accuracy.methods import ON_HAAR_ANCHOR, OURS, PAPERS_ODC, PAPERS_WAYS, Way
from benchmarks.accuracy.summary import Scores
from benchmarks.accuracy.tables import HETEROGENEOUS
from benchmarks.data import MOLECULES
from benchmarks.report import Report
from orthonormal_data_collaboration.bases import ORTHONORMAL, Condition

Chosen = Callable[[Cell], bool]


def add_claims(report: Report, scores: Scores) -> None:
    """Add the claims that the data allow; the claims on molecules need ``--data``."""
    gain = least_gain(scores, _heterogeneous_images)
    report.claim("isotropic_gain_heterogeneous_images", gain, "points of accuracy", ">=", 3)
    if any(_molecules_apart(cell) for cell in scores):
        gain = least_gain(scores, _molecules_apart)
        report.claim("isotropic_gain_molecules", gain, "points of ROC-AUC", ">=", 12)
        gap = largest_gap_to_central(scores, _molecules_apart)
        report.claim("isotropic_gap_to_central_molecules", gap, "points of ROC-AUC", "<=", 4)
    for name, rivals in {"papers_method": PAPERS_WAYS, "method_on_haar_anchor": ON_HAAR_ANCHOR}.items():
        losses = [
            loss_to_best(scores, rivals, condition, one_scale=one_scale)
            for condition in ORTHONORMAL
            for one_scale in (False, True)
        ]
        report.rows += [{"table": "loss to best", **asdict(loss)} for loss in losses]
        worst = max(loss.to_method for loss in losses)
        report.claim(f"isotropic_worst_loss_to_one_{name}", worst, "points", "<=", 0.3)


def least_gain(scores: Scores, chosen: Chosen) -> float:
    """Return the mean gain of `isotropic` over the paper's `odc` in the chosen cells.

    It is computed without scaling and with one shift and one scale; the smaller of the two is returned.
    """
    gains = []
    for one_scale in (False, True):
        ours = _of(scores, OURS, chosen, one_scale)
        theirs = _of(scores, PAPERS_ODC, chosen, one_scale)
        gains.append(float(np.mean([value - theirs[place] for place, value in ours.items()])))
    return min(gains)


def largest_gap_to_central(scores: Scores, chosen: Chosen) -> float:
    """Return the mean gap of `isotropic` to Central in the chosen cells; the larger one of both scalings."""
    gaps = []
    for one_scale in (False, True):
        ours = _of(scores, OURS, chosen, one_scale)
        central: dict[tuple[str, str, str], float] = {
            (cell.setup.dataset, cell.model, cell.metric): float(np.mean(values))
            for cell, values in scores.items()
            if cell.method == "central" and cell.one_scale == one_scale
        }
        gaps.append(
            float(
                np.mean(
                    [
                        central[setup.dataset, model, metric] - value
                        for (setup, model, metric), value in ours.items()
                    ]
                )
            )
        )
    return max(gaps)


@dataclass(frozen=True)
class Loss:
    """How far `isotropic` is below its rivals in one basis condition, in points.

    Attributes
    ----------
    one_scale : bool
        Whether all methods, including `isotropic`, had one shift and one scale before the model.
    method : str
        The one with the best mean over all rows.
    anchor : str
        Of all rivals.
    to_method : float
        Mean over the rows of the lead of that method over `isotropic`.
    row_by_row : float
        The same if the best method were chosen separately in every row, after seeing the scores. That also
        counts luck: it is positive even if all methods are equally good.
    """

    condition: str
    one_scale: bool
    method: str
    anchor: str
    to_method: float
    row_by_row: float


def loss_to_best(scores: Scores, rivals: Sequence[Way], condition: Condition, *, one_scale: bool) -> Loss:
    """Return how `isotropic` compares with the best of its rivals over the rows of Table V.

    A row is a data set and a model.
    """

    def chosen(cell: Cell) -> bool:
        return cell.setup.table == "V" and cell.condition == condition and cell.metric != "pr_auc"

    ours = _of(scores, OURS, chosen, one_scale)
    above = {}
    for way in rivals:
        theirs = _of(scores, way, chosen, one_scale)
        above[way.method] = [theirs[place] - value for place, value in ours.items()]
    method = max(above, key=lambda name: float(np.mean(above[name])))
    best_each = np.max(list(above.values()), axis=0)
    return Loss(
        condition,
        one_scale,
        method,
        rivals[0].anchor,
        float(np.mean(above[method])),
        float(np.mean(best_each)),
    )


def _of(scores: Scores, way: Way, chosen: Chosen, one_scale: bool) -> dict[tuple[Setup, str, str], float]:
    return {
        (cell.setup, cell.model, cell.metric): float(np.mean(values))
        for cell, values in scores.items()
        if (cell.method, cell.anchor, cell.centred) == (way.method, way.anchor, way.centred)
        and cell.one_scale == one_scale
        and chosen(cell)
    }


def _heterogeneous_images(cell: Cell) -> bool:
    return cell.setup.table == "anchors" and cell.setup.split in HETEROGENEOUS and cell.metric == "accuracy"


def _molecules_apart(cell: Cell) -> bool:
    return (
        cell.setup.table == "V"
        and cell.setup.dataset in MOLECULES
        and cell.condition == "DiffSpan-Orth"
        and cell.metric == "roc_auc"
    )
