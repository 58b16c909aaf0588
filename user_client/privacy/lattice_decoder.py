"""Rows on a grid from their representation: lattice reduction, and rounding along the reduced basis."""

from __future__ import annotations

from typing import Final

import numpy as np

from user_client.privacy import lattices
from user_client.privacy.grid import Matrix64
from user_client.privacy.row_prior import RowPrior

_PRECISION: Final = 2.0**8
"""Steps of the lattice's integers for one standard deviation of the noise."""


class LatticeDecoder:
    """Finds rows on a grid from their representation.

    The coordinates (z, r) are taken as jointly normal with the moments of known rows. Given z, r is normal
    too, so that the likeliest z minimises a sum of squares: it is the vector of a lattice closest to a point.

    Parameters
    ----------
    prior : RowPrior
        What rows like those to be found are like; its grid has m features and at least one column.
    basis : (m, l) ndarray
    sigma : (l,) ndarray
        Standard deviation of rounding and noise in each column of the representation.
    """

    def __init__(self, prior: RowPrior, basis: Matrix64, sigma: Matrix64) -> None:
        self._grid = grid = prior.grid
        count = grid.integers
        self._mean, self._real_mean = prior.mean[:count], prior.mean[count:]
        moments = prior.moments
        inner, cross, outer = moments[:count, :count], moments[:count, count:], moments[count:, count:]
        self._slope = np.linalg.solve(inner, cross)
        self._step_rep, self._real_rep = grid.steps @ basis, grid.directions @ basis
        self._offset_rep = grid.offset @ basis
        whiten, self._gain = _marginal(outer - cross.T @ self._slope, self._real_rep, sigma)
        values, vectors = np.linalg.eigh(inner)
        self._prior, self._whiten = vectors / np.sqrt(values), whiten
        rows = np.hstack([self._prior, (self._step_rep + self._slope @ self._real_rep) @ whiten])
        self._transform = np.zeros((0, 0))
        if count:
            transform = lattices.reducing(np.rint(rows * _PRECISION).astype(np.int64))
            self._transform = transform.astype(np.float64)
        self._orthogonal, self._triangle = np.linalg.qr((self._transform @ rows).T)

    def candidates(self, rep: Matrix64, width: int) -> Matrix64:
        """Return for each row of ``rep`` the states next to at most ``width`` close vectors, (n, k, m)."""
        inside = rep - self._offset_rep
        constant = self._real_mean - self._mean @ self._slope
        target = (inside - constant @ self._real_rep) @ self._whiten
        prior = np.tile(self._mean @ self._prior, (len(rep), 1))
        steps = _nearest_planes(np.hstack([prior, target]) @ self._orthogonal, self._triangle, width)
        integers = np.rint(steps @ self._transform)
        expected = constant + integers @ self._slope
        left = inside[:, None] - integers @ self._step_rep - expected @ self._real_rep
        reals = expected + left @ self._gain
        rows = self._grid.offset + integers @ self._grid.steps + reals @ self._grid.directions
        return np.asarray(self._grid.snapped(rows.reshape(-1, rows.shape[2])).reshape(rows.shape))


def _marginal(inner: Matrix64, real_rep: Matrix64, sigma: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return how r is left out of the equations y = r R + noise, and how it is estimated from them.

    Parameters
    ----------
    inner : (r, r) ndarray
        Covariance of r.
    real_rep : (r, l) ndarray
        R.
    sigma : (l,) ndarray
        Standard deviation of the noise: far smaller than R, so that the covariance of y is never formed.

    Returns
    -------
    whiten : (l, l) ndarray
        W with ``Cov(y) = (W W^T)^-1``.
    gain : (l, r) ndarray
        The mean of r given y is ``y @ gain``.
    """
    values, vectors = np.linalg.eigh(inner)
    root = vectors * np.sqrt(np.maximum(values, 1e-12))
    left, sizes, right = np.linalg.svd(root.T @ real_rep / sigma, full_matrices=True)
    padded = np.zeros(len(sigma))
    padded[: len(sizes)] = sizes
    whiten = right.T / np.sqrt(1 + padded**2) / sigma[:, None]
    estimate = (right[: len(sizes)].T * (sizes / (1 + sizes**2))) @ left[:, : len(sizes)].T
    return whiten, np.asarray((estimate / sigma[:, None]) @ root.T)


def _nearest_planes(target: Matrix64, triangle: Matrix64, width: int) -> Matrix64:
    """Return integers c with small ``||y - c R^T||`` for each target y: Babai's, and near ones.

    From the last coordinate to the first, each candidate is continued by the three integers that fit best,
    and the ``width`` best of all are kept.

    Parameters
    ----------
    target : (n, g) ndarray
    triangle : (g, g) ndarray
        R, upper triangular.

    Returns
    -------
    (n, k, g) ndarray
    """
    count, size = target.shape
    left, cost = target[:, None].copy(), np.zeros((count, 1))
    chosen = np.zeros((count, 1, size))
    for i in reversed(range(size)):
        exact = left[:, :, i] / triangle[i, i]
        nearest = np.rint(exact)
        side = np.where(exact >= nearest, 1.0, -1.0)
        options = np.stack([nearest, nearest + side, nearest - side], axis=-1)
        costs = cost[:, :, None] + np.square(triangle[i, i] * (exact[:, :, None] - options))
        costs, options = costs.reshape(count, -1), options.reshape(count, -1)
        kept = min(width, costs.shape[1])
        best = np.argpartition(costs, kept - 1, axis=1)[:, :kept]
        cost, value = np.take_along_axis(costs, best, 1), np.take_along_axis(options, best, 1)
        origin = (best // 3)[:, :, None]
        left, chosen = np.take_along_axis(left, origin, 1), np.take_along_axis(chosen, origin, 1)
        chosen[:, :, i] = value
        left -= value[:, :, None] * triangle[:, i]
    return chosen
