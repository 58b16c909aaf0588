"""What an attacker who has rows like ours expects of a row: how its columns are spread, and move together."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from user_client.privacy.grid import ColumnGrid, Grid, Matrix64

OWN_OPINION: Final = 2.0
"""The rows that count for the spread of a column's states themselves: what no known row has may still be."""
REAL_VARIANCE: Final = 1 / 3
_SWEEPS: Final = 3


@dataclass(frozen=True, repr=False)
class RowPrior:
    """A normal distribution of the coordinates of rows on a grid.

    Attributes
    ----------
    mean : (g + r,) ndarray
    moments : (g + r, g + r) ndarray
        Covariance; positive definite.
    most_frequent : (m,) ndarray
        Each column's most frequent state.
    """

    grid: Grid
    mean: Matrix64
    moments: Matrix64
    most_frequent: Matrix64

    def cost(self, rows: Matrix64) -> Matrix64:
        """Return -2 log of the density of rows, (n, m), up to a constant."""
        apart = self.grid.to_coordinates(rows) - self.mean
        return np.asarray(np.einsum("ij,ij->i", apart @ np.linalg.inv(self.moments), apart))

    def improved(
        self, rows: Matrix64, rep: Matrix64, basis: Matrix64, sigma: Matrix64, *, deadline: float
    ) -> Matrix64:
        """Return rows made likelier by changing one column at a time, given their representation.

        Parameters
        ----------
        rows : (n, m) ndarray
            On the grid. Not modified.
        rep : (n, l) ndarray
        basis : (m, l) ndarray
        sigma : (l,) ndarray
            Standard deviation of the noise on ``rep``.
        deadline : float
            On `time.thread_time`.
        """
        rows, inverse = rows.copy(), np.linalg.inv(self.moments)
        places = self._places()
        for _ in range(_SWEEPS):
            before = rows.copy()
            for column, part, place in zip(self.grid.columns, self.grid.slices, places, strict=True):
                if not len(column.states) or time.thread_time() > deadline:
                    continue
                apart = self.grid.to_coordinates(rows) - self.mean
                apart[:, place] = 0
                error = (rep - rows @ basis + rows[:, part] @ basis[part]) / sigma
                seen = column.states @ basis[part] / sigma
                own = column.coordinates - self.mean[place]
                cost = np.square(seen).sum(axis=1) - 2 * error @ seen.T
                cost += 2 * (apart @ inverse[:, place]) @ own.T
                cost += np.einsum("ij,jk,ik->i", own, inverse[np.ix_(place, place)], own)
                rows[:, part] = column.states[cost.argmin(axis=1)]
            if np.array_equal(rows, before):
                break
        return rows

    def _places(self) -> list[list[int]]:
        """Return which coordinates belong to each column: its integers, then its reals."""
        found, integers, reals = [], 0, self.grid.integers
        for column in self.grid.columns:
            count, more = len(column.steps), len(column.directions)
            found.append([*range(integers, integers + count), *range(reals, reals + more)])
            integers, reals = integers + count, reals + more
        return found


def row_prior(grid: Grid, known: Matrix64) -> RowPrior:
    """Return what rows on a grid are like, from known ones, (p, m)."""
    coordinates = grid.to_coordinates(known)
    own = [_variances(column) for column in grid.columns]
    variances = np.concatenate([one[0] for one in own] + [one[1] for one in own])
    mean = coordinates.mean(axis=0)
    coordinates -= mean
    moments = coordinates.T @ coordinates
    moments = (moments + OWN_OPINION * np.diag(variances)) / (len(known) + OWN_OPINION)
    frequent = [_most_frequent(known[:, part]) for part in grid.slices]
    return RowPrior(grid, mean, moments, np.concatenate(frequent))


def _variances(column: ColumnGrid) -> tuple[Matrix64, Matrix64]:
    """Return the variances of a column's integers and of its reals over its states, all alike likely."""
    if not len(column.states):
        return np.zeros(0), np.full(len(column.directions), REAL_VARIANCE)
    found = np.maximum(column.coordinates.var(axis=0), 1e-6)
    return found[: len(column.steps)], found[len(column.steps) :]


def _most_frequent(features: Matrix64) -> Matrix64:
    if features.shape[1] == 1:  # rows are sorted as such, which takes ten times as long as numbers
        values, counts = np.unique(features, return_counts=True)
        return np.asarray(values[[counts.argmax()]])
    values, counts = np.unique(features, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()])
