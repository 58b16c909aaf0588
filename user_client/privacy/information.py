"""The bits rule: what a row holds, and how much of it its projection can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
_LARGEST_I1 = 127


@dataclass(frozen=True)
class Information:
    """Bits of one row, the mean over the rows.

    Attributes
    ----------
    row_bits : float
        The entropies of its columns, summed. Columns that depend on one another hold less together, and n
        rows show at most log2 n bits of a column.
    sent_bits : float
        What a projection can carry at most, with its dither and its rounding.
    """

    row_bits: float
    sent_bits: float

    @property
    def is_enough(self) -> bool:
        """Whether who knows the basis can in principle rebuild every value."""
        return self.sent_bits >= self.row_bits


def information(
    rows: Matrix64, widths: Sequence[int], rep: Matrix64, *, number_type: str, dither: float
) -> Information | None:
    """Return how many bits a row holds and how many leave, or None if there are no rows.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Encoded.
    widths : sequence of int
        How many features each column has; their sum is m.
    rep : (n, l) ndarray of float64
        The rows' projection, without dither.
    number_type : {"i1", "f2", "f4", "f8"}
        What the projection is rounded to.
    dither : float
        As for `add_dither`.
    """
    if len(rows) == 0:
        return None
    return Information(row_bits(rows, widths), sent_bits(rep, number_type, dither))


def row_bits(rows: Matrix64, widths: Sequence[int]) -> float:
    """Return the sum of the columns' entropies, each from the shares of its values."""
    starts = np.cumsum([0, *widths])
    rng = np.random.default_rng(0)  # two different values of a column never get the same key
    total = 0.0
    for start, end in pairwise(starts):
        keys = rows[:, start:end] @ rng.standard_normal(end - start)
        shares = np.unique(keys, return_counts=True)[1] / len(rows)
        total -= float(shares @ np.log2(shares))
    return total


def sent_bits(rep: Matrix64, number_type: str, dither: float) -> float:
    """Return the capacity of the channel from a row's projection to what leaves of it.

    A row of second moments M with noise of covariance N tells at most ``log2 det(I + M N^-1) / 2`` bits
    [1]_. Here N is that of the dither, ``dither**2 * M``, plus that of rounding to a grid in every column,
    ``step**2 / 12``.

    References
    ----------
    .. [1] Cover and Thomas, Elements of Information Theory, 2nd edition, Section 9.5.
    """
    steps = _rounding_steps(rep, number_type)
    used = steps > 0  # a column of zeros tells nothing
    scaled = rep[:, used] * (np.sqrt(12) / steps[used])
    ratios = np.linalg.eigvalsh(scaled.T @ scaled / len(rep))
    ratios = ratios[ratios > np.finfo(np.float64).eps * len(ratios) * ratios.max(initial=0)]
    return float(np.log2((1 + (1 + dither**2) * ratios) / (1 + dither**2 * ratios)).sum() / 2)


def _rounding_steps(rep: Matrix64, number_type: str) -> Matrix64:
    if number_type == "i1":
        return np.asarray(np.abs(rep).max(axis=0) / _LARGEST_I1)
    return np.asarray(np.finfo(number_type).eps * np.sqrt(np.square(rep).mean(axis=0)))
