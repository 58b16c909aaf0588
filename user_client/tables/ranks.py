"""Ranks of numbers among the quantiles of their columns, for several columns at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.tables.fields import Matrix64

_COUNTED: Final = 99
"""Up to so many quantiles are compared with every number; a search takes less time among more."""


def ranks(numbers: Matrix64, quantiles: Matrix64) -> Matrix64:
    """Return the rank of each number among the quantiles of its column, from -1 to 1; a NaN stays one.

    A number that equals several quantiles has the middle of their ranks, and one between two quantiles is
    placed linearly between them.

    Parameters
    ----------
    numbers : (k, n) ndarray of float64
        Of k columns; not modified.
    quantiles : (k, q) ndarray of float64
        In ascending order.

    Returns
    -------
    (k, n) ndarray of float64
    """
    places = numbers.clip(quantiles[:, :1], quantiles[:, -1:])
    differ = np.diff(quantiles).all(axis=1)
    for column in np.flatnonzero(~differ).tolist():
        places[column] = _among_equal(places[column], quantiles[column])
    if differ.any():
        which = slice(None) if differ.all() else differ  # a slice of an array is no copy
        places[which] = _among(places[which], quantiles[which])
    places *= 2
    places /= quantiles.shape[1] - 1
    places -= 1
    return places


def _among(numbers: Matrix64, quantiles: Matrix64) -> Matrix64:
    """Return the places of numbers, which are overwritten, among quantiles that all differ, from 0 on."""
    columns, count = quantiles.shape
    steps = np.diff(quantiles, append=np.inf)
    below = _how_many_below(numbers, quantiles[:, 1:-1])
    lower = below + count * np.arange(columns)[:, None]
    numbers -= quantiles.reshape(-1).take(lower)
    numbers /= steps.reshape(-1).take(lower)
    numbers += below
    return numbers


def _how_many_below(numbers: Matrix64, few: Matrix64) -> NDArray[Any]:
    """Return how many of a column's few numbers, in ascending order, are below each of its numbers.

    For the 19 of a drafted column, to count them takes a third of the time of a search for each.
    """
    if few.shape[1] > _COUNTED:
        return np.stack([np.searchsorted(*each) for each in zip(few, numbers, strict=True)])
    found, below = np.zeros(numbers.shape, np.uint8), np.empty(numbers.shape, np.bool_)
    one_or_zero = below.view(np.uint8)
    for each in few.T:
        np.less(each[:, None], numbers, out=below)
        found += one_or_zero
    return found


def _among_equal(inside: Matrix64, known: Matrix64) -> Matrix64:
    """Return the place of each number, (n,), among quantiles, (q,), of which some are the same."""
    below, up_to = np.searchsorted(known, inside, "left"), np.searchsorted(known, inside, "right")
    upper = below.clip(1, len(known) - 1)
    step = known[upper] - known[upper - 1]
    # where the step is zero, the number equals quantiles and the quotient is not used
    between = upper - 1 + (inside - known[upper - 1]) / np.where(step > 0, step, 1)
    return np.where(up_to > below, (below + up_to - 1) / 2, between)
