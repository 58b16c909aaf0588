"""Whether probabilities can be taken at their word: of the rows that get 30 %, do 30 % have the event?

Of two classes the event is the second in the order of the terms. Of more, it is that the most likely class is
the true one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Labels = NDArray[np.integer]
Floats = NDArray[np.floating]
WithVariance: TypeAlias = tuple[float, float]

MOST_BINS: Final = 10
"""Lines of a calibration table."""
LEAST_ROWS_OF_A_BIN: Final = 20
"""With fewer, the share that is observed in a bin says little, and might tell of single rows."""
LEAST_BINS: Final = 5
"""Rows for fewer bins than this have no table: a mean over so few bins hides most errors."""
LEAST_ROWS_FOR_A_SLOPE: Final = 20
"""Of either class. With fewer, the interval of the slope contains nearly everything."""
CERTAIN: Final = 1e-4
"""A probability nearer to 0 or 1 counts as this in slope and intercept: its logarithm would decide alone."""
LEAST_INFORMATION: Final = 1e-3
"""Of the rows about slope or intercept: with less, the standard error is above 30."""
MAY_LACK: Final = ("ece", "calibration_slope", "calibration_intercept")
"""The figures of classes that some rows do not have."""
_MOST_STEPS: Final = 100
_ROUNDING: Final = 1e-12
"""Relative error of a likelihood that is summed over thousands of rows, at the most."""


@dataclass(frozen=True)
class Bin:
    """Rows with similar probabilities of the event.

    Attributes
    ----------
    rows : int
        At least `LEAST_ROWS_OF_A_BIN`.
    predicted, observed : float
        The mean probability of the event, and the share of the rows that have it.
    """

    rows: int
    predicted: float
    observed: float


@dataclass(frozen=True)
class Calibration:
    """A calibration table.

    Attributes
    ----------
    bins : tuple of Bin
        By ascending probability, of about equally many rows.
    ece : float
        The expected calibration error: the mean distance of ``predicted`` from ``observed`` over the rows.
    ece_by_chance : float
        About what probabilities that are right would have on as many rows: an ECE of few rows is never 0.
    """

    bins: tuple[Bin, ...]
    ece: float
    ece_by_chance: float


def calibration_table(labels: Labels, probabilities: Floats) -> Calibration | None:
    """Return the calibration table of some rows, or None for fewer than 100 of them.

    The bins divide the rows by their number [1]_, and rows with equal probabilities are never divided: so
    the table does not depend on the order of the rows.

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers.
    probabilities : (n, k) ndarray
        Column j belongs to class j.

    References
    ----------
    .. [1] Naeini, Cooper, Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning,
           AAAI 2015, pp. 2901-2907.
    """
    event, found = _events(labels, probabilities)
    if len(found) < LEAST_BINS * LEAST_ROWS_OF_A_BIN:
        return None
    numbers = _bin_of_each(found)
    rows = np.bincount(numbers)
    predicted = np.bincount(numbers, found) / rows
    observed = np.bincount(numbers, event) / rows
    # the mean size of a normal variable is sqrt(2 / pi) times its standard deviation
    deviations = np.sqrt(np.bincount(numbers, found * (1 - found)))
    return Calibration(
        tuple(map(Bin, rows.tolist(), predicted.tolist(), observed.tolist())),
        float(rows @ np.abs(predicted - observed)) / len(found),
        math.sqrt(2 / math.pi) * float(deviations.sum()) / len(found),
    )


def calibration_figures(labels: Labels, probabilities: Floats) -> Mapping[str, WithVariance]:
    """Return the figures of the calibration with their variances; those without a meaning are absent.

    ``ece`` is that of `calibration_table`; its variance takes the bins and the sign of each bin's error as
    given. Of two classes, ``calibration_slope`` is b in ``logit P(event) = a + b logit(p)``, fitted by
    maximum likelihood, and ``calibration_intercept`` is a with b = 1 [1]_. Right probabilities have 1 and 0.
    A slope below 1 says that the probabilities are too extreme, an intercept below 0 that they are too high.

    Parameters
    ----------
    labels : (n,) ndarray of int
        True class numbers.
    probabilities : (n, k) ndarray
        Column j belongs to class j.

    References
    ----------
    .. [1] Van Calster, McLernon, van Smeden, Wynants, Steyerberg, Calibration: the Achilles heel of
           predictive analytics, BMC Medicine 17 (2019) 230, doi:10.1186/s12916-019-1466-7.
    """
    figures: dict[str, WithVariance] = {}
    event, found = _events(labels, probabilities)
    if len(found) >= LEAST_BINS * LEAST_ROWS_OF_A_BIN:
        numbers = _bin_of_each(found)
        excess = np.sign(np.bincount(numbers, event - found))[numbers] * (event - found)
        figures["ece"] = float(excess.mean()), float(excess.var(ddof=1)) / len(found)
    if probabilities.shape[1] == 2 and min(event.sum(), (1 - event).sum()) >= LEAST_ROWS_FOR_A_SLOPE:
        sure = np.clip(found, CERTAIN, 1 - CERTAIN)
        logits = np.log(sure / (1 - sure))
        if _has_a_slope(event, logits):
            design = np.column_stack([logits, np.ones(len(logits))])
            found_slope = _fitted(design, np.zeros(len(logits)), event)
            figures |= {"calibration_slope": found_slope} if found_slope else {}
        found_intercept = _fitted(np.ones((len(logits), 1)), logits, event)
        figures |= {"calibration_intercept": found_intercept} if found_intercept else {}
    return figures


def _events(labels: Labels, probabilities: Floats) -> tuple[Floats, Floats]:
    """Return whether each row has the event, as 0 or 1, and the probability that it was given."""
    wide = np.clip(np.asarray(probabilities, np.float64), 0, 1)  # a sum of 32-bit floats may be above 1
    if wide.shape[1] == 2:
        return (labels == 1).astype(np.float64), wide[:, 1]
    return (labels == wide.argmax(axis=1)).astype(np.float64), wide.max(axis=1)


def _bin_of_each(found: Floats) -> NDArray[np.int64]:
    """Return the number of each row's bin, (n,)."""
    ascending, rows = np.sort(found), len(found)
    bins = min(MOST_BINS, rows // LEAST_ROWS_OF_A_BIN)
    begins = [0]
    for number in range(1, bins):
        # rows that are as likely as the last one of a bin belong to it
        begin = int(np.searchsorted(ascending, ascending[round(number * rows / bins) - 1], side="right"))
        if min(begin - begins[-1], rows - begin) >= LEAST_ROWS_OF_A_BIN:
            begins.append(begin)
    return np.searchsorted(ascending[begins[1:]], found, side="right")


def _has_a_slope(event: Floats, logits: Floats) -> bool:
    """Return whether the likelihood has a maximum: not if one side of some logit has all the events."""
    others, those = logits[event == 0], logits[event == 1]
    return bool(others.max() > those.min() and those.max() > others.min())


def _fitted(design: Floats, offset: Floats, event: Floats) -> WithVariance | None:
    """Return the first weight of a logistic regression without a penalty, and its variance: Newton's steps.

    The likelihood is concave and has a maximum, so steps that are halved until it rises arrive there. None
    where the rows are so nearly separated that they hardly say how large the weight is.
    """

    def likelihood(weights: Floats) -> float:
        outputs = design @ weights + offset
        return float(event @ outputs - np.logaddexp(0, outputs).sum())

    weights, information = np.zeros(design.shape[1]), np.eye(design.shape[1])
    for _ in range(_MOST_STEPS):
        expected = expit(design @ weights + offset)
        information = design.T @ (design * (expected * (1 - expected))[:, None])
        step = np.linalg.lstsq(information, design.T @ (event - expected), rcond=None)[0]
        # near the maximum the likelihood differs by less than it is rounded, and the whole step is right
        reached = likelihood(weights)
        reached -= _ROUNDING * abs(reached)
        while likelihood(weights + step) < reached and np.abs(step).max() > 1e-12:
            step /= 2
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    if np.linalg.eigvalsh(information)[0] < LEAST_INFORMATION:
        return None
    return float(weights[0]), float(np.linalg.inv(information)[0, 0])
