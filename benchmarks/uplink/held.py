"""What the analyst holds of one member, and what all attacks on it compute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Labels, Matrix
from benchmarks.uplink.tables import Member, decoded
from user_client.privacy.noise import add_dither
from user_client.secret.expansion import gaussian

Indices = NDArray[np.intp]


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

    rep: Matrix
    anchor_rep: Matrix
    labels: Labels
    dither: float = 0.0

    @property
    def noise(self) -> Matrix:
        """The second moments of the noise in ``rep``, (l, l), as the analyst computes them."""
        share = self.dither**2 / (1 + self.dither**2)
        return np.asarray(share * self.rep.T @ self.rep / len(self.rep))


def uplink_of(member: Member, dither: float, rep_dtype: str, rng: np.random.Generator) -> Uplink:
    """Return what the analyst gets of a member whose rows were not rounded yet, with noise."""
    rep = add_dither(member.rep, dither, partial(gaussian, rng.bytes))
    return Uplink(decoded(rep, rep_dtype), decoded(member.anchor_rep, rep_dtype), member.labels, dither)


def leading_axes(rows: Matrix, count: int) -> Matrix:
    """Return the leading principal axes of rows about 0, (m, count)."""
    return np.asarray(np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :count])


def polar(matrix: Matrix) -> Matrix:
    """Return the orthogonal matrix nearest to a square one."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


def squared_distances(rows: Matrix, others: Matrix) -> Matrix:
    """Return the squared distance of each row to each of the others, (n, k)."""
    squares = np.sum(rows**2, axis=1)[:, None] + np.sum(others**2, axis=1)
    return np.asarray((squares - 2 * rows @ others.T).clip(0))
