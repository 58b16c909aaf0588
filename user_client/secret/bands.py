"""Numbers that tell the label in bands, and hardly along a curve that a model of projected rows draws.

An example is the hour of a shift that repeats, or a code. Models of projected rows see mixtures of columns: a
curve of few bends is left in them, and one of many is not; a linear model draws no curve at all. Whoever has
the column can tell beforehand.
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
"""Degree of the polynomial of a row's rank that stands for the curves of a model that bends freely."""
LEAST_MORE: Final = 0.03
"""Least share of the variance of the label (R squared) by which bands have to tell more."""
SURE: Final = 5.0
"""Standard errors of the rows by which they have to tell more: of hundreds of columns, chance finds none."""
TIMES_MORE: Final = 1.5
"""And how many times as much: a step is told by both, and somewhat better by bands."""
FEWEST_ROWS: Final = 200
"""With fewer, bands tell nothing that chance does not."""
ROWS_OF_A_NUMBER: Final = 5
"""Fewest rows in the mean for each of more than `MOST_NUMBERS` numbers to be a band of its own, as a code."""
DRAWN: Final = 3.0
"""So many rows of the mean of all count in the mean of each such number."""
_LINES: Final = {1: "a straight line", 2: "a curve of one bend"}


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
    bends : int
        Degree of the polynomial that it tells smoothly by.
    by_number : bool
        Whether each of many numbers is a band of its own.
    errors_told : float
        By how many standard errors the bands tell more than nothing does.
    """

    in_bands: float
    smoothly: float
    errors_more: float
    numbers: int
    bends: int = BENDS
    by_number: bool = False
    errors_told: float = 0.0

    def in_words(self) -> str:
        """Return it for people, after the name of the column."""
        what = "bands of its values" if not self.by_number else "bands of its values, one for each number,"
        who = "models of projected rows miss" if self.bends >= BENDS else "the model of these terms misses"
        return (
            f"predicts the label by {what} (R squared {self.in_bands:.2f}), and hardly along"
            f" {_LINES.get(self.bends, 'a smooth curve')} ({max(self.smoothly, 0.0):.2f}), which {who}"
        )

    @property
    def is_lost(self) -> bool:
        """Return whether the bands tell so much more that a model without them misses the column."""
        is_much_more = self.in_bands > TIMES_MORE * max(self.smoothly, 0.0) + LEAST_MORE
        return is_much_more and self.errors_more > SURE


def told_by(values: NDArray[np.float64], targets: Matrix64, bends: int = BENDS) -> Told | None:
    """Return what a column tells in bands and along a smooth curve; None if there are too few rows.

    Parameters
    ----------
    values : (n,) ndarray of float64
    targets : (n, k) ndarray of float64
        What is to be told, such as one column of 0 and 1 for each class.
    bends : int
        Degree of the polynomial of a row's rank that stands for the curves that the model can draw.
    """
    if len(values) < FEWEST_ROWS or not np.ptp(values):
        return None
    distinct, numbers = np.unique(values, return_inverse=True)
    # a rank among different numbers would be bent by those that come often
    at = np.searchsorted(np.sort(values), values) / len(values) * 2 - 1
    curve = np.polynomial.legendre.legvander(at, bends)
    fold = np.random.default_rng(0).permutation(len(values)) % 2
    may_be_codes = MOST_NUMBERS < len(distinct) <= len(values) / ROWS_OF_A_NUMBER
    # of each row's targets, by the mean, the band, the number and the curve
    left = np.zeros((4, len(values)))
    for held in (fold == 0, fold == 1):
        known, wanted = targets[~held], targets[held]
        weights = np.linalg.lstsq(curve[~held], known, rcond=None)[0]
        found = [known.mean(axis=0), means_of(bands_of(values), ~held, targets), None, curve[held] @ weights]
        if may_be_codes:
            found[2] = means_of(numbers, ~held, targets, DRAWN)
        for line, one in zip(left, found, strict=True):
            line[held] = np.inf if one is None else np.square(wanted - one).sum(axis=1)
    return _told(left, len(distinct), bends)


def _told(left: Matrix64, numbers: int, bends: int) -> Told | None:
    """Return what is told, from what the mean, bands, single numbers and the curve leave of each row."""
    whole, by_bands, by_number, by_curve = left.sum(axis=1)
    if not whole:
        return None
    best = left[2] if by_number < by_bands else left[1]
    return Told(
        float(1 - min(by_bands, by_number) / whole),
        float(1 - by_curve / whole),
        errors_of(left[3] - best),
        numbers,
        bends,
        bool(by_number < by_bands),
        errors_of(left[0] - best),
    )


def bands_of(values: NDArray[np.float64], bands: int = BANDS) -> NDArray[np.intp]:
    """Return the number of each row's band: few different numbers are bands themselves."""
    distinct, numbers = np.unique(values, return_inverse=True)
    if len(distinct) <= max(bands, MOST_NUMBERS if bands == BANDS else 0):
        return numbers
    return np.searchsorted(np.quantile(values, np.arange(1, bands) / bands), values, side="right")


def errors_of(more: Matrix64) -> float:
    """Return the sum of some differences, one for each row, in its standard errors."""
    error = float(more.std()) * len(more) ** 0.5
    return float(more.sum()) / error if error else 0.0


def means_of(
    bands: NDArray[np.intp], known: NDArray[np.bool_], targets: Matrix64, drawn: float = 0.0
) -> Matrix64:
    """Return the mean of the known rows in the band of each row that is not known, (held, k).

    In a band without any it is that of all, of which ``drawn`` rows count in every band.
    """
    count, told = int(bands.max()) + 1, targets[known]
    rows = np.bincount(bands[known], minlength=count)[:, None] + drawn
    overall = told.mean(axis=0)
    sums = np.column_stack([np.bincount(bands[known], each, minlength=count) for each in told.T])
    means = np.where(rows > 0, (sums + drawn * overall) / np.maximum(rows, 1), overall)
    return np.asarray(means[bands[~known]])
