"""What an institution measures of probabilities of classes, beside the score that decides (`scores`).

The definitions are those of docs/scores.md. The code is the institution's own, so that a fault of the
analyst's would show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from runtime.terminal import CALIBRATION_FIGURES, FIGURES, figure, figure_in_words
from user_client.scores import NORMAL_95, Numbers

ROWS_OF_A_BIN: Final = 20
"""Fewest rows of a line of the calibration table."""
FEWEST_BINS, MOST_BINS = 5, 10
"""Lines of the table; rows for fewer have none."""
ROWS_FOR_A_SLOPE: Final = 20
"""Of either class."""
CERTAIN: Final = 1e-4
"""Slope and intercept take a probability nearer to 0 or 1 for this."""
LEAST_INFORMATION: Final = 1e-3
"""Of the rows about slope or intercept: with less, half the width of the interval is above 60."""
_ROUNDING: Final = 1e-12
"""Relative error of a misfit that is summed over thousands of rows, at the most."""
_ITERATIONS: Final = 200


@dataclass(frozen=True)
class Estimated:
    """A figure with its 95 % interval."""

    mean: float
    """Its name in reports, where it is one."""
    low: float
    high: float


@dataclass(frozen=True)
class Bin:
    """A line of the calibration table: the mean probability of some rows, and the share that is observed."""

    rows: int
    predicted: float
    observed: float


@dataclass(frozen=True)
class ClassScores:
    """Figures of a model of classes.

    Attributes
    ----------
    accuracy, brier : float
    pr_auc : float, optional
        The average precision: of the second of two classes, and of more the mean over the classes that have
        rows. None if all rows are of one class.
    ece : float, optional
        The expected calibration error, and ``ece_by_chance`` what right probabilities would have on as many
        rows. None, as ``bins``, with fewer than 100 rows.
    calibration_slope, calibration_intercept : Estimated, optional
        Of two classes with 20 rows of either. There is no slope if the probabilities separate them.
    bins : tuple of Bin, optional
        By ascending probability: of the second of two classes, and of more of the most likely class.
    """

    accuracy: float
    brier: float
    pr_auc: float | None
    ece: float | None
    ece_by_chance: float | None
    calibration_slope: Estimated | None
    calibration_intercept: Estimated | None
    bins: tuple[Bin, ...] | None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ClassScores:
        """Return what `asdict` was given; raises `TypeError` or `KeyError` for another value."""
        estimated = {
            name: Estimated(**value[name]) if value[name] else None
            for name in ("calibration_slope", "calibration_intercept")
        }
        bins = tuple(Bin(**one) for one in value["bins"]) if value["bins"] else None
        return cls(**{**value, **estimated, "bins": bins})


def class_scores(labels: NDArray[Any], probabilities: NDArray[np.floating]) -> ClassScores:
    """Return the figures of a model on some rows.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Class numbers, n > 0.
    probabilities : (n, k) ndarray
        Column j belongs to class j.
    """
    found = np.clip(np.asarray(probabilities, np.float64), 0, 1)
    rows, classes = found.shape
    top, numbers = found.argmax(axis=1), np.arange(rows)
    happened = np.zeros((rows, classes))
    happened[numbers, labels] = 1
    # what the calibration is of
    told, event = (found[:, 1], labels == 1) if classes == 2 else (found[numbers, top], labels == top)
    bins = _bins(told, event)
    slope, intercept = _recalibrated(told, event) if classes == 2 else (None, None)
    return ClassScores(
        accuracy=float(np.mean(top == labels)),
        brier=float(np.square(found - happened).sum() / (2 * rows)),
        pr_auc=_pr_auc(labels, found),
        ece=_distance(bins) if bins else None,
        ece_by_chance=_chance(told, bins) if bins else None,
        calibration_slope=slope,
        calibration_intercept=intercept,
        bins=bins,
    )


@dataclass(frozen=True)
class OfClass:
    """How a model does on one class.

    Attributes
    ----------
    rows : int
        How many rows have it.
    predicted, right : int
        Of how many rows it is the likeliest class, and how many of these have it.
    pr_auc : float, optional
        The average precision of its probability; None if no row has it, or all have.
    """

    rows: int
    predicted: int
    right: int
    pr_auc: float | None


def of_each_class(labels: NDArray[Any], probabilities: NDArray[np.floating]) -> list[OfClass]:
    """Return how a model does on each class; the arguments are those of `class_scores`."""
    found = np.clip(np.asarray(probabilities, np.float64), 0, 1)
    top = found.argmax(axis=1)
    return [
        OfClass(
            rows=int(has.sum()),
            predicted=int((top == number).sum()),
            right=int((has & (top == number)).sum()),
            pr_auc=_average_precision(found[:, number], has) if 0 < has.sum() < len(has) else None,
        )
        for number, has in enumerate(labels == number for number in range(found.shape[1]))
    ]


def of_class_in_words(name: str, found: OfClass) -> str:
    """Return how a model does on one class, as people write it."""
    pr_auc = "" if found.pr_auc is None else f", {FIGURES['pr_auc']} {figure('pr_auc', found.pr_auc)}"
    words = (
        f"class {name}: rows with it {found.rows:,}, predicted {found.predicted:,}, of these right"
        f" {found.right:,}{pr_auc}"
    )
    if found.rows and not found.predicted:
        words += (
            f"; it is never the likeliest class: `odc predict --threshold {quote(name)}=P` predicts it from a"
            " probability of P on"
        )
    return words


def class_scores_in_words(scores: ClassScores) -> str:
    """Return the figures that there are, as people write them."""
    words = []
    for name, said in (FIGURES | CALIBRATION_FIGURES).items():
        value = getattr(scores, name, None)  # the report has more figures
        if isinstance(value, Estimated):
            words.append(f"{said} {figure_in_words(name, vars(value))}")
        elif value is not None:
            words.append(f"{said} {figure(name, value)}")
        if name == "ece" and scores.ece_by_chance is not None:
            words[-1] += f" ({scores.ece_by_chance:.3f} by chance alone)"
    return ", ".join(words)


def label_score_in_words(found: Mapping[str, float | None]) -> str:
    """Return the ROC-AUC of one of several labels, by `Evaluation.by_label`."""
    together, alone = found["together"], found["alone"]
    if together is None:
        return "not scored, because of these rows all have this label or none"
    words = f"{FIGURES['roc_auc']} together {figure('roc_auc', together)}"
    return words if alone is None else f"{words}, alone {figure('roc_auc', alone)}"


def bins_in_words(bins: tuple[Bin, ...]) -> str:
    """Return the lines of a calibration table: the mean probability, and the observed share."""
    return ", ".join(f"{one.predicted:.3f} ({one.observed:.3f})" for one in bins)


def _pr_auc(labels: NDArray[Any], found: Numbers) -> float | None:
    present = np.unique(labels)
    if len(present) < 2:
        return None
    against_rest = [1] if found.shape[1] == 2 else present
    return float(np.mean([_average_precision(found[:, one], labels == one) for one in against_rest]))


def _average_precision(told: Numbers, positive: NDArray[np.bool_]) -> float:
    """Return the sum over thresholds of the precision times what the recall rises there."""
    order = np.argsort(-told, kind="stable")
    last_of_ties = np.append(np.flatnonzero(np.diff(told[order])), len(told) - 1)
    found = np.cumsum(positive[order])[last_of_ties]
    return float(np.diff(found, prepend=0) @ (found / (last_of_ties + 1)) / found[-1])


def _bins(told: Numbers, event: NDArray[np.bool_]) -> tuple[Bin, ...] | None:
    """Return the calibration table: about equally many rows in each bin, and equal probabilities in one."""
    rows = len(told)
    wanted = min(MOST_BINS, rows // ROWS_OF_A_BIN)
    if wanted < FEWEST_BINS:
        return None
    order = np.argsort(told, kind="stable")
    told, event = told[order], event[order]
    found, begin = [], 0
    for number in range(1, wanted + 1):
        end = round(number * rows / wanted)
        end += int(np.count_nonzero(told[end:] == told[end - 1]))
        if number == wanted or min(end - begin, rows - end) >= ROWS_OF_A_BIN:
            found.append(Bin(end - begin, float(told[begin:end].mean()), float(event[begin:end].mean())))
            begin = end
    return tuple(found)


def _distance(bins: tuple[Bin, ...]) -> float:
    """Return the mean distance of what is predicted from what is observed, over the rows."""
    return sum(one.rows * abs(one.predicted - one.observed) for one in bins) / sum(one.rows for one in bins)


def _chance(told: Numbers, bins: tuple[Bin, ...]) -> float:
    """Return about the mean distance if every probability is right.

    The sum over a bin is then nearly normal, and the mean size of a normal variable is sqrt(2 / pi) times its
    standard deviation.
    """
    variances = np.append(0.0, np.cumsum(np.sort(told) * (1 - np.sort(told))))
    ends = np.cumsum([0, *(one.rows for one in bins)])
    return float(np.sqrt(2 / np.pi) * np.sqrt(np.diff(variances[ends])).sum() / len(told))


def _recalibrated(told: Numbers, event: NDArray[np.bool_]) -> tuple[Estimated | None, Estimated | None]:
    """Return slope and intercept of a logistic recalibration; None for too few rows, or separated ones."""
    if min(event.sum(), (~event).sum()) < ROWS_FOR_A_SLOPE:
        return None, None
    log_odds = np.log(np.clip(told, CERTAIN, 1 - CERTAIN)) - np.log(np.clip(1 - told, CERTAIN, 1 - CERTAIN))
    ones = np.ones((len(told), 1))
    intercept = _most_likely(ones, log_odds, event)
    with_event, without = log_odds[event], log_odds[~event]
    if with_event.min() >= without.max() or with_event.max() <= without.min():
        return None, intercept
    return _most_likely(np.column_stack([log_odds, ones]), np.zeros(len(told)), event), intercept


def _most_likely(columns: Numbers, given: Numbers, event: NDArray[np.bool_]) -> Estimated | None:
    """Return the first coefficient of a logistic regression, by Newton's steps.

    None where the rows are so nearly separated that they hardly say how large it is.
    """

    def misfit(outputs: Numbers) -> float:
        return float(np.logaddexp(0, np.where(event, -outputs, outputs)).sum())

    coefficients = np.zeros(columns.shape[1])
    for _ in range(_ITERATIONS):
        outputs = columns @ coefficients + given
        expected = np.exp(-np.logaddexp(0, -outputs))
        information = columns.T @ (columns * (expected * (1 - expected))[:, None])
        change = np.linalg.lstsq(information, columns.T @ (event - expected), rcond=None)[0]
        # near the minimum the misfit differs by less than it is rounded, and the whole change is right
        most = misfit(outputs) * (1 + _ROUNDING)
        while misfit(outputs + columns @ change) > most and np.abs(change).max() > 1e-12:
            change = change / 2
        coefficients = coefficients + change
        if np.abs(change).max() < 1e-10:
            break
    if np.linalg.eigvalsh(information)[0] < LEAST_INFORMATION:
        return None
    value = float(coefficients[0])
    width = NORMAL_95 * float(np.linalg.inv(information)[0, 0]) ** 0.5
    return Estimated(value, value - width, value + width)
