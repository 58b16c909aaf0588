"""What all columns of numbers together tell in bands, and how much of that a model of the rows finds.

Several columns that each tell a little along a curve are named by nobody who looks at one at a time. A ridge
regression on the bands of all of them finds their curves, and a model that draws none does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.bands import FEWEST_ROWS, bands_of, errors_of
from user_client.secret.expansion import Matrix64
from user_client.secret.signal import Ridge

BANDS: Final = 10
"""Bands of each column, with as many rows each: together they are many features."""
MOST_COLUMNS: Final = 60
"""Of more columns the bands would be too many features."""
FOLDS: Final = 4
LEAST_MORE: Final = 0.05
"""Least share of the variance of the label (R squared) by which the bands have to tell more.

A normal number has a correlation of 0.977 with its rank: of a label that is a sum of such numbers, ranks
alone lose 0.045.
"""
SURE: Final = 4.0
"""Standard errors of the rows by which the bands have to tell more."""
Fit = Callable[[NDArray[np.bool_]], Matrix64 | None]
"""Fits the model on the rows of a mask, and returns what it says of the others, (held, k)."""


@dataclass(frozen=True)
class Together:
    """Shares of the variance of the label (R squared) that are told of rows that were left out.

    Attributes
    ----------
    in_bands : float
        By the rows and the bands of all columns of numbers.
    by_model : float
        By the model, or by a line, if that tells more.
    errors_more : float
        By how many standard errors the bands tell more.
    """

    in_bands: float
    by_model: float
    errors_more: float

    @property
    def is_lost(self) -> bool:
        """Return whether the model misses what the bands tell."""
        return self.in_bands > max(self.by_model, 0.0) + LEAST_MORE and self.errors_more > SURE


def told_together(rows: Matrix64, numbers: Sequence[int], targets: Matrix64, fit: Fit) -> Together | None:
    """Return what all columns tell in bands, and what the model finds; None if that cannot be told.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Encoded.
    numbers : sequence of int
        Which of the features are numbers.
    targets : (n, k) ndarray of float64
    fit : callable
        Fits the model: see `Fit`.
    """
    if len(rows) < FEWEST_ROWS or not 0 < len(numbers) <= MOST_COLUMNS:
        return None
    with_bands = np.column_stack([rows, *(_as_features(rows[:, place]) for place in numbers)])
    fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    left = np.zeros((4, len(rows)))  # by the mean, a line, the model and the bands, of each row's targets
    for number in range(FOLDS):
        held = fold == number
        modelled = fit(~held)
        if modelled is None:
            return None
        found = (
            targets[~held].mean(axis=0),
            _ridge(rows, targets, held),
            modelled,
            _ridge(with_bands, targets, held),
        )
        for line, one in zip(left, found, strict=True):
            line[held] = np.square(targets[held] - one).sum(axis=1)
    whole, by_bands = left[0].sum(), left[3].sum()
    if not whole:
        return None
    best = left[left[:3].sum(axis=1).argmin()]
    return Together(float(1 - by_bands / whole), float(1 - best.sum() / whole), errors_of(best - left[3]))


def _as_features(values: NDArray[np.float64]) -> Matrix64:
    """Return one feature for each band, 1 in its rows."""
    bands = bands_of(values, BANDS)
    return np.asarray(bands[:, None] == np.unique(bands), np.float64)


def _ridge(rows: Matrix64, targets: Matrix64, held: NDArray[np.bool_]) -> Matrix64:
    """Return what a ridge regression on the other rows says of those that are held, (held, k)."""
    known, told = rows[~held], targets[~held]
    row_mean, mean = known.mean(axis=0), told.mean(axis=0)
    known, told = known - row_mean, told - mean
    energy = float(np.square(told).sum())
    weights, _ = Ridge(known.T @ known, known.T @ told, energy, len(known)).solve()
    return np.asarray((rows[held] - row_mean) @ weights + mean)
