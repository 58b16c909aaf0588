"""Scores of predictions that an institution computes itself, without the libraries of the analyst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from user_client.rows import are_alike

Numbers = NDArray[np.float64]
Metric = Literal["roc_auc", "accuracy", "r2", "c_index"]
FEWEST_OF_A_CLASS: Final = 5
FEWEST_ROWS: Final = 10
"""With fewer, or fewer events, the spread of the rows says nothing of the interval."""
MOST_PAIRED: Final = 2000
"""Rows of which all pairs are compared at once."""
NORMAL_95: Final = 1.959963984540054
"""Of a normal variable, 95 % lie within so many standard deviations."""


@dataclass(frozen=True)
class Comparison:
    """Scores of two models on the same rows.

    Attributes
    ----------
    metric : {"roc_auc", "accuracy", "r2", "c_index"}
        The mean ROC-AUC of one class against the rest, or of several labels of each; accuracy if all rows are
        of one class, or have the same labels. For numbers R squared, and for survival Harrell's concordance
        index.
    together, alone : float
        ``alone`` is None if there is one model only.
    gain_low, gain_high : float
        The ends of the 95 % interval of ``together - alone``; None if there is one model only, or the rows
        are too few (`too_few`).
    """

    metric: Metric
    together: float
    alone: float | None
    gain_low: float | None
    gain_high: float | None


def roc_auc(scores: Numbers, positive: NDArray[np.bool_]) -> float | None:
    """Return the ROC-AUC of scores, ties counted half; None if all rows are of one class."""
    count = int(positive.sum())
    if not 0 < count < len(positive):
        return None
    return float(
        (_ranks(scores)[positive].sum() - count * (count + 1) / 2) / (count * (len(positive) - count))
    )


def concordance(scores: Numbers, numbers: Numbers) -> float | None:
    """Return the share of pairs of rows that scores put in the order of their numbers, ties counted half.

    Of two numbers, 0 and 1, that is the ROC-AUC. None if all numbers are the same. Of more rows,
    `MOST_PAIRED` are compared, evenly spaced.
    """
    if len(scores) > MOST_PAIRED:
        chosen = np.linspace(0, len(scores) - 1, MOST_PAIRED).astype(np.int64)
        scores, numbers = scores[chosen], numbers[chosen]
    above = numbers[:, None] > numbers
    pairs = int(above.sum())
    if not pairs:
        return None
    difference = (scores[:, None] - scores)[above]
    return float((np.sum(difference > 0) + np.sum(difference == 0) / 2) / pairs)


def c_index(times: NDArray[Any], scores: Numbers) -> float | None:
    """Return Harrell's concordance index of scores, the larger the later the event; ties are counted half.

    None if no row is known to have outlived one with the event. Of more than `MOST_PAIRED` events rows are
    left out, evenly spaced.

    Parameters
    ----------
    times : (n,) ndarray
        Negative without the event.
    """
    step = max(1, math.ceil(np.count_nonzero(times > 0) / MOST_PAIRED))
    times, scores = times[::step], scores[::step]
    return _c_index(times, scores[:, None])[0] if can_be_scored(times, "survival") else None


def can_be_scored(labels: NDArray[Any], task: str) -> bool:
    """Return whether rows with these labels can tell a good model from a bad one."""
    if task == "number":
        return not are_alike(labels)
    if task == "survival":  # some row is known to have outlived one with the event
        first = np.abs(labels[labels > 0]).min(initial=np.inf)
        return bool((np.abs(labels) > first).any() or (labels == -first).any())
    return len(labels) > 0


def compare(
    labels: NDArray[Any],
    together: NDArray[np.floating],
    alone: NDArray[np.floating] | None,
    task: Literal["classes", "number", "survival", "multilabel"] = "classes",
) -> Comparison:
    """Return the scores of two models on the same rows, and the interval of their difference.

    The interval is paired: the same rows make both scores, so what is hard about them cancels. Its width
    comes from the influence of each row on the difference, which for the ROC-AUC is that of DeLong [1]_.
    It is approximate, and there is none where `too_few` says why.

    Parameters
    ----------
    labels : (n,) ndarray
        Class numbers, numbers, times that are negative without the event, or whole numbers with a bit for
        each label: such that `can_be_scored`.
    together, alone : (n, k) ndarray
        Probabilities of the classes, of which those without a row do not count; numbers, (n, 1);
        probabilities of no event until each of k times; or of each of k labels.

    References
    ----------
    .. [1] DeLong, DeLong and Clarke-Pearson, Comparing the areas under two or more correlated receiver
       operating characteristic curves, Biometrics 44 (1988) 837-845, Eqs. (3) to (5).
    """
    metric = _metric_for(labels, task)
    measure = (_MEASURES_OF_SEVERAL if task == "multilabel" else _MEASURES)[metric]
    score, influence = measure(labels, np.asarray(together, dtype=np.float64))
    if alone is None:
        return Comparison(metric, score, None, None, None)
    other, its_influence = measure(labels, np.asarray(alone, dtype=np.float64))
    gained = score - other
    if too_few(labels, task):
        return Comparison(metric, score, other, None, None)
    width = NORMAL_95 * float(np.std(influence - its_influence, ddof=1)) / len(labels) ** 0.5
    low, high = gained - width, gained + width
    if metric != "r2":  # which alone can be as far below 0 as it likes
        low, high = max(-1.0, low), min(1.0, high)
    return Comparison(metric, score, other, low, high)


def too_few(labels: NDArray[Any], task: str, names: Sequence[str] = ()) -> str | None:
    """Return why rows with these labels have no interval, in words; None if they have one.

    There have to be `FEWEST_ROWS` rows, of survival with the event, and `FEWEST_OF_A_CLASS` with and without
    each class or label that the score is a mean over: two models that rank two rows alike are not the same.

    Parameters
    ----------
    names : sequence of str
        Of the classes or labels; by default their numbers.
    """
    rows = int((labels > 0).sum()) if task == "survival" else len(labels)
    if rows < FEWEST_ROWS:
        of_event = " with the event" if task == "survival" else ""
        return f"an interval needs {FEWEST_ROWS} rows{of_event}, got {rows}"
    if task == "classes":
        known, counts = np.unique(labels, return_counts=True)
        if len(known) == 1:
            return "these rows are all of one class"
        few, what = known[counts < FEWEST_OF_A_CLASS], "rows of each class"
    elif task == "multilabel":
        having = _one_by_one(labels, 8 * labels.dtype.itemsize).sum(axis=0)
        fewer = np.minimum(having, len(labels) - having)  # 0 of a label that does not count
        few = np.flatnonzero((fewer > 0) & (fewer < FEWEST_OF_A_CLASS))
        what = "rows with each label and as many without"
    else:
        return None
    if not len(few):
        return None
    which = ", ".join(names[number] if names else str(number) for number in few.tolist())
    return f"an interval needs {FEWEST_OF_A_CLASS} {what}; too few for {which}"


def _metric_for(labels: NDArray[Any], task: str) -> Metric:
    if task in ("number", "survival"):
        return "r2" if task == "number" else "c_index"
    return "roc_auc" if len(np.unique(labels)) > 1 else "accuracy"


def _r_squared(labels: NDArray[Any], found: Numbers) -> tuple[float, Numbers]:
    """Return R squared, and the influence of each row on it."""
    numbers = labels.astype(np.float64)
    squared, spread = np.square(numbers - found[:, 0]), np.square(numbers - numbers.mean())
    share = float(squared.sum() / spread.sum())
    return 1 - share, (share * spread - squared) / spread.mean()


def _accuracy(labels: NDArray[Any], probabilities: Numbers) -> tuple[float, Numbers]:
    """Return the score, and the influence of each row on it: how far it alone would move the score."""
    right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    return float(right.mean()), right - right.mean()


def _mean_roc_auc(labels: NDArray[Any], probabilities: Numbers) -> tuple[float, Numbers]:
    found = [_roc_auc_and_influence(probabilities[:, each], labels == each) for each in np.unique(labels)]
    return float(np.mean([area for area, _ in found])), np.mean([influence for _, influence in found], axis=0)


def label_scores(labels: NDArray[Any], probabilities: NDArray[np.floating]) -> list[float | None]:
    """Return the ROC-AUC of each of several labels; None for one that all rows have, or none."""
    having = _one_by_one(labels, probabilities.shape[1])
    return [roc_auc(told, has) for told, has in zip(probabilities.T, having.T, strict=True)]


def _one_by_one(labels: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return whether each row has each label, (n, count)."""
    return ((labels[:, None] >> np.arange(count)) & 1).astype(np.bool_)


def _mean_over_labels(labels: NDArray[Any], probabilities: Numbers) -> tuple[float, Numbers]:
    """Return the mean ROC-AUC over the labels that some rows have and others do not, and the influences."""
    having = _one_by_one(labels, probabilities.shape[1])
    varying = [number for number, has in enumerate(having.T) if has.any() and not has.all()]
    found = [_roc_auc_and_influence(probabilities[:, each], having[:, each]) for each in varying]
    return float(np.mean([area for area, _ in found])), np.mean([influence for _, influence in found], axis=0)


def _accuracy_over_labels(labels: NDArray[Any], probabilities: Numbers) -> tuple[float, Numbers]:
    right = ((probabilities >= 0.5) == _one_by_one(labels, probabilities.shape[1])).mean(axis=1)
    return float(right.mean()), right - right.mean()


def _roc_auc_and_influence(scores: Numbers, positive: NDArray[np.bool_]) -> tuple[float, Numbers]:
    """Return the ROC-AUC, and the influence of each row on it.

    A row's place is the share of the rows of the other side that it is on the right side of.
    """
    ranks, share = _ranks(scores), float(positive.mean())
    place, negative = np.empty(len(scores)), ~positive
    place[positive] = (ranks[positive] - _ranks(scores[positive])) / negative.sum()
    place[negative] = 1 - (ranks[negative] - _ranks(scores[negative])) / positive.sum()
    area = float(place[positive].mean())
    return area, (place - area) / np.where(positive, share, 1 - share)


def _ranks(scores: Numbers) -> Numbers:
    """Return the rank of each score from 1 on; equal scores have the middle of their ranks."""
    _, place, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[place])


def _c_index(labels: NDArray[Any], survival: Numbers) -> tuple[float, Numbers]:
    """Return the concordance index, and the influence of each row on it."""
    until, event, mean = np.abs(labels), labels > 0, survival.mean(axis=1)
    right, counted = np.zeros(len(labels)), np.zeros(len(labels))
    rows_at_once = max(1, MOST_PAIRED**2 // len(labels))
    with_event = np.flatnonzero(event)
    for start in range(0, len(with_event), rows_at_once):
        some = with_event[start : start + rows_at_once]
        first = (until[some, None] < until) | ((until[some, None] == until) & ~event)
        placed = first * (0.5 + np.sign(mean - mean[some, None]) / 2)
        for sums, pairs in ((counted, first), (right, placed)):
            sums[some] += pairs.sum(axis=1)
            sums += pairs.sum(axis=0)
    index = float(right.sum() / counted.sum())
    return index, 2 * (right - index * counted) / counted.sum() * len(labels)


_MEASURES: Final = {"c_index": _c_index, "roc_auc": _mean_roc_auc, "accuracy": _accuracy, "r2": _r_squared}
_MEASURES_OF_SEVERAL: Final = {"roc_auc": _mean_over_labels, "accuracy": _accuracy_over_labels}
