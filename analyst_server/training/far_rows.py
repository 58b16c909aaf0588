"""Rows far from all others, which would decide a fit by themselves, are brought nearer before it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_FAR: Final = 0.1
"""Largest share of the rows that can be far: the distance of the others is what is compared with."""
FAR: Final = 2.0
"""A row is far if its distance from the centre is more than this times that of the nearest nine tenths."""
_PASSES: Final = 3
"""The far rows move the centre, so that it is computed again without them."""


def bring_nearer(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Shorten the distance of far rows from the centre to the largest that is not far; return which, (n,).

    Lengths and means alone decide, so that a turn of the rows turns the result.

    Parameters
    ----------
    rows : (n, l) ndarray of float
        Modified. Rows of which nine tenths are the same stay as they are.
    """
    far = np.zeros(len(rows), np.bool_)
    for _ in range(_PASSES if len(rows) else 0):
        centre = np.asarray(np.mean(rows, axis=0, where=~far[:, None], dtype=np.float64))
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        # of a difference of large numbers, so not quite 0 where the rows are the centre
        squares += centre @ centre - 2 * (rows @ centre)
        squares[squares < np.finfo(rows.dtype).eps * (centre @ centre)] = 0
        largest = FAR**2 * float(np.quantile(squares, 1 - MOST_FAR))
        if largest == 0:
            return np.zeros(len(rows), np.bool_)
        far = squares > largest
    if far.any():
        shorter = np.sqrt(largest / squares[far])
        rows[far] = centre + (rows[far] - centre) * shorter[:, None]
    return far
