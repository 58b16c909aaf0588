"""Does one column carry the variance? Then the first numbers that leave of a row are that column.

A secret basis turns the leading axes of the rows. Where one column varies far more than all others together,
the first axis is that column: along the direction in which the projections vary most, the analyst reads its
values off, up to a scale, without the basis. Ranges that are far too wide for all columns but one do that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
DOMINANT: Final = 2 / 3
"""Share of the variance from which a column is said to carry it: twice what all others have together."""
CLOSE: Final = 0.95
"""Correlation with the first axis from which the axis is said to be the column."""
_STEPS: Final = 50


@dataclass(frozen=True)
class Isolated:
    """A column that the leading axis tells.

    Attributes
    ----------
    column : str
    share : float
        Of the variance of the encoded features.
    correlation : float
        Of the column with the rows along their first principal axis, as an absolute value.
    """

    column: str
    share: float
    correlation: float


def isolated(rows: Matrix64, names: Sequence[str], widths: Sequence[int]) -> Isolated | None:
    """Return the column that carries the variance of the rows, or None if none does.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Encoded.
    names, widths : sequence of str, of int
        Each column, and how many features it has; their sum is m.
    """
    if len(rows) < 2 or len(names) < 2:
        return None
    centred = rows - rows.mean(axis=0)
    begins = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
    variances = np.add.reduceat(np.square(centred).sum(axis=0), begins)
    most = int(variances.argmax())
    share = float(variances[most] / (variances.sum() or 1.0))
    if share < DOMINANT:
        return None
    features = slice(int(begins[most]), int(begins[most]) + widths[most])
    axis = _first_axis(centred, features)
    along, of_column = centred @ axis, centred[:, features] @ axis[features]
    length = float(np.linalg.norm(along) * np.linalg.norm(of_column))
    correlation = float(abs(along @ of_column) / length) if length else 0.0
    return Isolated(names[most], share, correlation) if correlation >= CLOSE else None


def _first_axis(centred: Matrix64, features: slice) -> Matrix64:
    """Return the direction in which centred rows vary most, (m,), by power iteration from a column's own.

    That column has two thirds of the variance, so that few steps are enough unless its features share it
    evenly; then any direction among them will do.
    """
    own = centred[:, features]
    axis = np.zeros(centred.shape[1])
    axis[features] = own[np.square(own).sum(axis=1).argmax()]
    for _ in range(_STEPS):
        axis = centred.T @ (centred @ axis)
        axis /= np.linalg.norm(axis) or 1.0
    return axis
