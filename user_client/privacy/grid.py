"""The values that a column's features can have, as integer steps on a lattice and real coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
MOST_STEPS: Final = 2**20
"""Values on a line that are further apart, in steps, are taken for real numbers."""
_SMALLEST_STEP: Final = 1e-7


@dataclass(frozen=True, repr=False)
class ColumnGrid:
    """One column's w features, x = offset + z D + r E with integers z and real numbers r.

    Attributes
    ----------
    states : (k, w) ndarray
        All values of the features, in ascending order; k is 0 if they are any real numbers.
    offset : (w,) ndarray
    steps : (g, w) ndarray
        D.
    directions : (r, w) ndarray
        E.
    coordinates : (k, g + r) ndarray
        z and r of each state.
    """

    states: Matrix64
    offset: Matrix64
    steps: Matrix64
    directions: Matrix64
    coordinates: Matrix64

    def nearest(self, features: Matrix64) -> NDArray[np.int64]:
        """Return the number of the state that is nearest to each of some features, (n, w)."""
        if self.states.shape[1] == 1:
            middles = (self.states[1:, 0] + self.states[:-1, 0]) / 2
            return np.searchsorted(middles, features[:, 0]).astype(np.int64)
        lengths = np.square(self.states).sum(axis=1)
        return np.asarray((lengths - 2 * features @ self.states.T).argmin(axis=1), dtype=np.int64)

    def to_coordinates(self, features: Matrix64) -> Matrix64:
        """Return z and r, (n, g + r), of the states nearest to some features, (n, w)."""
        return self.coordinates[self.nearest(features)] if len(self.states) else features

    def snapped(self, features: Matrix64) -> Matrix64:
        """Return the states nearest to some features, (n, w)."""
        return self.states[self.nearest(features)] if len(self.states) else features


@dataclass(frozen=True, repr=False)
class Grid:
    """The features of all columns, x = offset + z D + r E."""

    columns: tuple[ColumnGrid, ...]

    @property
    def slices(self) -> list[slice]:
        """The features of each column."""
        return _slices([len(column.offset) for column in self.columns])

    @property
    def integers(self) -> int:
        """Number of integer coordinates."""
        return sum(len(column.steps) for column in self.columns)

    @property
    def offset(self) -> Matrix64:
        return np.concatenate([column.offset for column in self.columns])

    @property
    def steps(self) -> Matrix64:
        """D, (g, m)."""
        return self._blocks([column.steps for column in self.columns])

    @property
    def directions(self) -> Matrix64:
        """E, (r, m)."""
        return self._blocks([column.directions for column in self.columns])

    def to_coordinates(self, rows: Matrix64) -> Matrix64:
        """Return the coordinates of the nearest states, (n, g + r): first all integers, then all reals."""
        integers, reals = 0, self.integers
        found = np.empty((len(rows), reals + sum(len(column.directions) for column in self.columns)))
        for column, part in self._parts():
            here = column.to_coordinates(rows[:, part])
            count, more = len(column.steps), len(column.directions)
            found[:, integers : integers + count] = here[:, :count]
            found[:, reals : reals + more] = here[:, count:]
            integers, reals = integers + count, reals + more
        return found

    def snapped(self, rows: Matrix64) -> Matrix64:
        """Return the rows of states nearest to some rows, (n, m)."""
        return np.hstack([column.snapped(rows[:, part]) for column, part in self._parts()])

    def alike(self, rows: Matrix64, others: Matrix64) -> NDArray[np.bool_]:
        """Return, (n, columns), where two tables of rows agree in all features of a column."""
        same = np.abs(rows - others) < 1e-6
        return np.stack([same[:, part].all(axis=1) for part in self.slices], axis=1)

    def _parts(self) -> list[tuple[ColumnGrid, slice]]:
        return list(zip(self.columns, self.slices, strict=True))

    def _blocks(self, parts: Sequence[Matrix64]) -> Matrix64:
        found = np.zeros((sum(map(len, parts)), len(self.offset)))
        for part, down, across in zip(
            parts, _slices([len(part) for part in parts]), self.slices, strict=True
        ):
            found[down, across] = part
        return found


def grid_of(states: Sequence[Matrix64]) -> Grid:
    """Return the grid of columns with the given states, each (k, w); k is 0 for real numbers."""
    return Grid(tuple(column_grid(one) for one in states))


def column_grid(states: Matrix64) -> ColumnGrid:
    """Return the grid of a column with the given states, (k, w); k is 0 for real numbers.

    One feature becomes a line: an integer multiple of its values' greatest common step, or a real number
    where they have none. Several features of few states become one integer for each state but one. A number
    with a feature for empty fields becomes a line, and an integer that says whether the field is empty.
    """
    count, width = states.shape
    if count == 0:
        return ColumnGrid(states, np.zeros(width), np.empty((0, width)), np.eye(width), states)
    states = states[np.lexsort(states.T[::-1])]
    if width == 1:
        return _line(states, np.zeros(count, dtype=np.bool_))
    kinds, sizes = np.unique(states[:, -1], return_counts=True)
    if width == 2 and count > 3 and len(kinds) == 2 and sizes.min() == 1:
        return _line(states, states[:, -1] == kinds[sizes.argmin()])
    return ColumnGrid(states, states[0], states[1:] - states[0], np.empty((0, width)), np.eye(count)[:, 1:])


def _line(states: Matrix64, apart: NDArray[np.bool_]) -> ColumnGrid:
    """Return a grid of states that differ in their first feature alone, but for one that may lie apart."""
    width = states.shape[1]
    first = states[~apart][0]
    steps, integers = states[apart] - first, apart[:, None][:, : apart.sum()].astype(np.float64)
    along = (states - first - integers @ steps)[:, 0]
    unit, step = np.eye(1, width), common_step(along)
    if step is None:
        return ColumnGrid(states, first, steps, unit, np.column_stack([integers, along]))
    coordinates = np.column_stack([integers, np.rint(along / step)])
    return ColumnGrid(states, first, np.vstack([steps, step * unit]), np.empty((0, width)), coordinates)


def common_step(values: Matrix64) -> float | None:
    """Return the largest number of which all values are multiples; None if there is none worth the name."""
    step = 0.0
    for value in np.unique(np.abs(values))[::-1]:
        larger, smaller = max(step, float(value)), min(step, float(value))
        while smaller > _SMALLEST_STEP:
            larger, smaller = smaller, abs(larger - smaller * round(larger / smaller))
        step = larger
    if step <= 0 or np.ptp(values) / step > MOST_STEPS:
        return None
    return step if np.abs(values / step - np.rint(values / step)).max() < 1e-3 else None


def _slices(widths: Sequence[int]) -> list[slice]:
    return [slice(start, end) for start, end in pairwise([0, *accumulate(widths)])]
