"""The scores of one party's held-out rows, with what their sampling alone makes uncertain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from analyst_server.training.calibration import Calibration, calibration_figures, calibration_table

Labels = NDArray[np.integer]

LEAST_ROWS_OF_A_CLASS: Final = 5
"""A party is scored if it has as many rows of every class: one for each fold."""
LEAST_ROWS: Final = 10
"""A party is scored if it has so many rows, where the label is a number or survival."""
LEAST_EVENTS: Final = 5
"""Of these, so many have to have had the event."""
ENOUGH_OF_CLASSES: Final = f"{LEAST_ROWS_OF_A_CLASS} held-out rows of every class"
ENOUGH_OF_SEVERAL: Final = f"{LEAST_ROWS_OF_A_CLASS} held-out rows with a label and as many without"
ENOUGH_OF_NUMBERS: Final = f"{LEAST_ROWS} held-out rows with different labels"
ENOUGH_OF_SURVIVAL: Final = f"{LEAST_ROWS} held-out rows with {LEAST_EVENTS} events"
OF_ONE_LABEL: Final = "roc_auc of "
"""Begins the name of a figure of one of several labels; the label's name follows."""
MOST_PAIRED: Final = 3000
"""Rows of a party of which all pairs are compared; of more, so many are, evenly spaced."""


@dataclass(frozen=True)
class Figure:
    """A score with its sampling variance, from the rows alone."""

    value: float
    variance: float


@dataclass(frozen=True)
class PartyScore:
    """The scores of the held-out rows of one party.

    Attributes
    ----------
    rows : int
        How many were scored.
    figures : mapping of str to Figure
        By name: ``roc_auc``, ``pr_auc``, ``accuracy`` and ``brier`` of classes, and those of
        `calibration_figures`; ``r2``, ``rmse`` and ``mae`` of numbers; ``c_index`` and ``ibs`` of survival.
        Of several labels the first four of classes, and one that begins with `OF_ONE_LABEL` for each.
        The first decides whether a headline can be trusted.
    variance_by_numbers : float
        Of the first, as the numbers of rows alone would have it.
    class_rows : tuple of int
        How many rows are of each class, if there are classes.
    calibration : Calibration, optional
        Of probabilities of classes, if there are rows enough.
    """

    rows: int
    figures: Mapping[str, Figure]
    variance_by_numbers: float
    class_rows: tuple[int, ...] = ()
    calibration: Calibration | None = None


def score_classes(
    labels: Labels, probabilities: NDArray[np.floating], *, least_rows: int = LEAST_ROWS_OF_A_CLASS
) -> PartyScore | None:
    """Return the scores of the rows of one party, or None if a class has too few of them.

    The variance of the ROC-AUC is DeLong's [1]_: the mean of squared placement values. With more
    than two classes the placement values of the classes, one against rest, are averaged row by row.
    ``pr_auc`` is the average precision: of the second of two classes, and of more the mean over the classes.
    Its variance is the mean squared influence of a row.

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers.
    probabilities : (n, k) ndarray
        Column j belongs to class j.
    least_rows : int
        The fewest rows of a class, at least 2.

    References
    ----------
    .. [1] DeLong, DeLong, Clarke-Pearson, Biometrics 44 (1988) 837-845, doi:10.2307/2531595.
    """
    classes = probabilities.shape[1]
    class_rows = np.bincount(labels, minlength=classes)
    if class_rows.min() < least_rows:
        return None
    against_rest = [1] if classes == 2 else range(classes)
    found = [_roc_auc(labels == one, probabilities[:, one]) for one in against_rest]
    influence = np.mean([rows for _, rows in found], axis=0)
    precise = [_average_precision(labels == one, probabilities[:, one]) for one in against_rest]
    its_influence = np.mean([rows for _, rows in precise], axis=0)
    accuracy = float(np.mean(probabilities.argmax(axis=1) == labels))
    return PartyScore(
        len(labels),
        {
            "roc_auc": Figure(float(np.mean([value for value, _ in found])), float(influence @ influence)),
            "pr_auc": Figure(
                float(np.mean([value for value, _ in precise])), float(its_influence @ its_influence)
            ),
            "accuracy": Figure(accuracy, accuracy * (1 - accuracy) / (len(labels) - 1)),
            "brier": _mean_of(np.sum((probabilities - np.eye(classes)[labels]) ** 2, axis=1) / 2),
            **{name: Figure(*each) for name, each in calibration_figures(labels, probabilities).items()},
        },
        # of a ROC-AUC of 0.5
        float(np.mean(1 / class_rows + 1 / (len(labels) - class_rows))) / 12,
        tuple(class_rows.tolist()),
        calibration_table(labels, probabilities),
    )


def score_several(
    having: NDArray[np.integer], probabilities: NDArray[np.floating], names: Sequence[str]
) -> PartyScore | None:
    """Return the scores of the rows of one party, or None if no label has enough rows on either side.

    ROC-AUC and average precision are means over the labels that have; accuracy and Brier score are means over
    all labels. Variances are as in `score_classes`. Where all rows are right, that of the ROC-AUC would be 0:
    it is at least what the rarer side of each label asks for.

    Parameters
    ----------
    having : (n, k) ndarray of int
        1 where a row has a label.
    probabilities : (n, k) ndarray
    names : sequence of str
        Of the labels.
    """
    counts = having.sum(axis=0, dtype=np.int64)
    sides = np.array([counts, len(having) - counts])
    able = np.flatnonzero(sides.min(axis=0) >= LEAST_ROWS_OF_A_CLASS).tolist()
    if not able:
        return None
    least = 1 / sides.min(axis=0)[able]
    found = [_roc_auc(having[:, one] == 1, probabilities[:, one]) for one in able]
    precise = [_average_precision(having[:, one] == 1, probabilities[:, one]) for one in able]

    def mean_of(each: Sequence[tuple[float, NDArray[np.float64]]]) -> Figure:
        influence = np.mean([rows for _, rows in each], axis=0)
        variance = max(float(influence @ influence), float(np.square(least).sum()) / len(able) ** 2)
        return Figure(float(np.mean([value for value, _ in each])), variance)

    right = (probabilities >= 0.5) == (having == 1)
    return PartyScore(
        len(having),
        {
            "roc_auc": mean_of(found),
            "pr_auc": mean_of(precise),
            "accuracy": _mean_of(right.mean(axis=1)),
            "brier": _mean_of(np.square(probabilities - having).mean(axis=1)),
            **{
                f"{OF_ONE_LABEL}{names[one]}": Figure(value, max(float(rows @ rows), float(low) ** 2))
                for one, (value, rows), low in zip(able, found, least, strict=True)
            },
        },
        float(np.mean((1 / sides[:, able]).sum(axis=0))) / 12,
    )


def score_numbers(
    labels: NDArray[np.floating], found: NDArray[np.floating], unit: float
) -> PartyScore | None:
    """Return the scores of the rows of one party, or None if they are too few or all have the same label.

    The variance of R squared is that of its linear part: the mean squared influence of a row.

    Parameters
    ----------
    labels, found : (n,) ndarray
        The numbers and their predictions, in units of the wire.
    unit : float
        What 1 on the wire is in the column: RMSE and MAE are in the column's unit.
    """
    spread = np.square(labels - labels.mean())
    if len(labels) < LEAST_ROWS or not spread.any():
        return None
    squared = np.square(labels - found)
    share = float(squared.sum() / spread.sum())
    influence = (squared - share * spread) / spread.sum()
    mean = _mean_of(squared * unit**2)
    root = math.sqrt(mean.value)
    return PartyScore(
        len(labels),
        {
            "r2": Figure(1 - share, float(influence @ influence) * len(labels) / (len(labels) - 1)),
            "rmse": Figure(root, mean.variance / (4 * mean.value) if root else 0.0),
            "mae": _mean_of(np.abs(labels - found) * unit),
        },
        # of normal variables of the correlation r it is 4 r^2 (1 - r^2)^2 / n: the largest of these
        16 / (27 * len(labels)),
    )


def score_survival(
    labels: NDArray[np.floating], found: NDArray[np.floating], times: Sequence[float]
) -> PartyScore | None:
    """Return the scores of the rows of one party, or None if too few of them had the event.

    The concordance index is Harrell's [1]_: the share of pairs, of whom it is known whose event came first,
    that the mean predicted survival puts in this order. The integrated Brier score [2]_ is the mean over the
    times, with rows weighted for those whose observation ended before.

    Parameters
    ----------
    labels : (n,) ndarray
        Times on the wire, negative without the event.
    found : (n, k) ndarray
        Probabilities that the event comes after each time.
    times : sequence of float
        Those times, on the wire.

    References
    ----------
    .. [1] Harrell, Califf, Pryor, Lee and Rosati, JAMA 247 (1982) 2543-2546.
    .. [2] Graf, Schmoor, Sauerbrei and Schumacher, Statistics in Medicine 18 (1999) 2529-2545.
    """
    until, event = np.abs(labels), labels > 0
    if event.sum() < LEAST_EVENTS or len(labels) < LEAST_ROWS:
        return None
    concordance = _concordance(until, event, found.mean(axis=1))
    if concordance is None:
        return None
    brier = np.mean([_brier(until, event, found[:, i], time) for i, time in enumerate(times)], axis=0)
    figures = {"c_index": concordance, "ibs": _mean_of(brier)}
    return PartyScore(len(labels), figures, 1 / (9 * int(event.sum())))  # of an index of 0.5


def _concordance(
    until: NDArray[np.floating], event: NDArray[np.bool_], survival: NDArray[np.floating]
) -> Figure | None:
    """Return the share of pairs in the right order, ties counted half; the variance is its linear part's."""
    if len(until) > MOST_PAIRED:
        chosen = np.linspace(0, len(until) - 1, MOST_PAIRED).astype(np.int64)
        until, event, survival = until[chosen], event[chosen], survival[chosen]
    first = event[:, None] & ((until[:, None] < until) | ((until[:, None] == until) & ~event))
    right = first * (0.5 + np.sign(survival - survival[:, None]) / 2)
    pairs = float(first.sum())
    if not pairs:
        return None
    index = float(right.sum()) / pairs
    influence = (
        (right.sum(axis=0) + right.sum(axis=1)) - index * (first.sum(axis=0) + first.sum(axis=1))
    ) / pairs
    return Figure(index, float(influence @ influence))


def _brier(
    until: NDArray[np.floating], event: NDArray[np.bool_], survival: NDArray[np.floating], time: float
) -> NDArray[np.floating]:
    """Return each row's part of the Brier score at a time."""
    order = np.lexsort((~event, until))  # of rows that end at the same time, those with the event come first
    left = len(until) - np.arange(len(until))
    # Kaplan and Meier's estimate for the end of observation: right before each row's time, and after `time`
    kept = np.cumprod(np.where(event[order], 1.0, 1 - 1 / left))
    first_of_its_time = np.searchsorted(until[order], until, side="left")
    before = np.concatenate([[1.0], kept])[first_of_its_time]
    at_time = float(kept[until[order] <= time][-1]) if (until <= time).any() else 1.0
    had, has_not = event & (until <= time), until > time
    weights = had / np.maximum(before, 1e-9) + has_not / max(at_time, 1e-9)
    return np.asarray(np.square(survival - has_not) * weights)


def _mean_of(values: NDArray[np.floating]) -> Figure:
    return Figure(float(values.mean()), float(values.var(ddof=1)) / len(values))


def _roc_auc(positive: NDArray[np.bool_], found: NDArray[np.floating]) -> tuple[float, NDArray[np.float64]]:
    """Return the area and how much each row moves it."""
    ranks = rankdata(found)
    influence = np.empty(len(found))
    for rows, sign in ((positive, 1), (~positive, -1)):
        others = len(found) - rows.sum()
        below = (ranks[rows] - rankdata(found[rows])) / others
        placed = below if sign > 0 else 1 - below
        number = len(placed)
        influence[rows] = (placed - placed.mean()) / math.sqrt(number * (number - 1))
        area = float(placed.mean())  # the same for both
    return area, influence


def _average_precision(
    positive: NDArray[np.bool_], found: NDArray[np.floating]
) -> tuple[float, NDArray[np.float64]]:
    """Return the mean precision at the probabilities of the positive rows, and each row's influence.

    The precision at a probability is the share of positive rows among those that have at least it.
    """
    _, place = np.unique(-found, return_inverse=True)  # 0 for the most likely rows
    at_each = np.bincount(place)
    positives = np.bincount(place, positive)
    above = np.cumsum(at_each)
    precision = np.cumsum(positives) / above
    value = float(precision[place][positive].mean())
    # a row also moves the precision at every probability that is at most its own
    for_one = np.cumsum((positives / above)[::-1])[::-1][place]
    shared = np.cumsum((positives * precision / above)[::-1])[::-1][place]
    influence = positive * (precision[place] - value) + positive * for_one - shared
    number = int(positive.sum())
    return value, np.asarray(influence / math.sqrt(number * (number - 1)))
