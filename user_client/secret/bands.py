"""Numbers that tell the label in bands, up and down again and again, and hardly along a smooth curve.

An example is the hour of a shift that repeats, or a code. Models of projected rows see mixtures of columns: a
curve of few bends is left in them, and one of many is not. Whoever has the column can tell beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import Matrix64

BANDS: Final = 20
"""Bands with as many rows each, for a column of more different numbers."""
MOST_NUMBERS: Final = 30
"""Up to so many different numbers, each is a band."""
BENDS: Final = 4
"""Degree of the polynomial of a row's rank that stands for a smooth curve."""
LEAST_MORE: Final = 0.03
"""Least share of the variance of the label (R squared) by which bands have to tell more."""
SURE: Final = 5.0
"""Standard errors of the rows by which they have to tell more: of hundreds of columns, chance finds none."""
TIMES_MORE: Final = 1.5
"""And how many times as much: a step is told by both, and somewhat better by bands."""
FEWEST_ROWS: Final = 200
"""With fewer, bands tell nothing that chance does not."""


@dataclass(frozen=True)
class Told:
    """Shares of the variance of the label (R squared) that a column tells of rows that were left out.

    Attributes
    ----------
    in_bands, smoothly : float
    errors_more : float
        By how many standard errors the bands tell more.
    numbers : int
        How many different ones the column has.
    """

    in_bands: float
    smoothly: float
    errors_more: float
    numbers: int

    def in_words(self) -> str:
        """Return it for people, after the name of the column."""
        return (
            f"predicts the label by bands of its values (R squared {self.in_bands:.2f}), and hardly along a"
            f" smooth curve ({max(self.smoothly, 0.0):.2f}), which models of projected rows miss"
        )

    @property
    def is_lost(self) -> bool:
        """Return whether the bands tell so much more that a model without them misses the column."""
        is_much_more = self.in_bands > TIMES_MORE * max(self.smoothly, 0.0) + LEAST_MORE
        return is_much_more and self.errors_more > SURE


def told_by(values: NDArray[np.float64], targets: Matrix64) -> Told | None:
    """Return what a column tells in bands and along a smooth curve; None if there are too few rows.

    Parameters
    ----------
    values : (n,) ndarray of float64
    targets : (n, k) ndarray of float64
        What is to be told, such as one column of 0 and 1 for each class.
    """
    if len(values) < FEWEST_ROWS or not np.ptp(values):
        return None
    distinct, rank = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_NUMBERS:
        bands = rank
    else:
        bands = np.searchsorted(np.quantile(values, np.arange(1, BANDS) / BANDS), values, side="right")
    # a rank among different numbers would be bent by those that come often
    at = np.searchsorted(np.sort(values), values) / len(values) * 2 - 1
    curve = np.polynomial.legendre.legvander(at, BENDS)
    fold = np.random.default_rng(0).permutation(len(values)) % 2
    left = np.zeros((3, len(values)))  # what the mean, its band and the curve leave of each row's targets
    for held in (fold == 0, fold == 1):
        known, wanted = targets[~held], targets[held]
        weights = np.linalg.lstsq(curve[~held], known, rcond=None)[0]
        means = _means(bands[~held], known, int(bands.max()) + 1)
        for line, found in zip(
            left, (known.mean(axis=0), means[bands[held]], curve[held] @ weights), strict=True
        ):
            line[held] = np.square(wanted - found).sum(axis=1)
    whole, by_bands, by_curve = left.sum(axis=1)
    if not whole:
        return None
    more = left[2] - left[1]
    error = float(more.std()) * len(more) ** 0.5
    return Told(
        float(1 - by_bands / whole),
        float(1 - by_curve / whole),
        float(more.sum()) / error if error else 0.0,
        len(distinct),
    )


def _means(bands: NDArray[np.intp], targets: Matrix64, count: int) -> Matrix64:
    """Return the mean of the targets in each band, (count, k); of all rows in one without any."""
    rows = np.bincount(bands, minlength=count)
    sums = np.column_stack([np.bincount(bands, each, minlength=count) for each in targets.T])
    return np.where(rows[:, None] > 0, sums / np.maximum(rows, 1)[:, None], targets.mean(axis=0))
