"""What the analyst holds of one member, and what all attacks on it compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from user_client.privacy.grid import Matrix64

Indices = NDArray[np.intp]
Labels = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Uplink:
    """What the analyst has of one member.

    Attributes
    ----------
    rep : (n, l) ndarray
    anchor_rep : (m, l) ndarray
    labels : (n,) ndarray of int
    dither : float
        As the manifest states it: the noise has so many times the standard deviations of the rows.
    """

    rep: Matrix64
    anchor_rep: Matrix64
    labels: Labels
    dither: float = 0.0

    @property
    def noise(self) -> Matrix64:
        """The second moments of the noise in ``rep``, (l, l), as the analyst computes them."""
        share = self.dither**2 / (1 + self.dither**2)
        return np.asarray(share * self.rep.T @ self.rep / len(self.rep))


def leading_axes(rows: Matrix64, count: int) -> Matrix64:
    """Return the leading principal axes of rows about 0, (m, count)."""
    return np.asarray(np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :count])


def polar(matrix: Matrix64) -> Matrix64:
    """Return the orthogonal matrix nearest to a square one."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


def squared_distances(rows: Matrix64, others: Matrix64) -> Matrix64:
    """Return the squared distance of each row to each of the others, (n, k)."""
    squares = np.sum(rows**2, axis=1)[:, None] + np.sum(others**2, axis=1)
    return np.asarray((squares - 2 * rows @ others.T).clip(0))
