"""Orthogonal lattice: what somebody without any basis or anchor finds in X~ alone.

Rows are ``x0 + K D`` with a table K of integers. Integers u with ``sum u = 0`` and ``u K = 0`` annihilate
X~ = X F whatever F is, and X~ carries enough bits that they are the shortest vectors which do. Those that
are orthogonal to all u are a lattice with every column of K in it, and few others of zeros and ones [1]_.

References
----------
.. [1] Nguyen and Stern, The hardness of the hidden subset sum problem, CRYPTO 1999.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.privacy import lattices
from user_client.privacy.grid import Matrix64, grid_of

Integers = NDArray[np.int64]
TRIES: Final = ((60, 0.3), (25, 0.3), (25, 1.0), (60, 0.1))
"""Rows of a block beyond the integers that tell rows apart, and steps of the lattice's integers for one
standard deviation of the noise, in the order they are tried."""
LARGEST_BLOCK: Final = 110
"""Most rows at once: a lattice of twice the dimensions takes tens of times longer."""
MOST_CANDIDATES: Final = 5000
SMALLEST_NOISE: Final = 2.0**-30
"""For the spread of the representations: rows of few values may be rounded to themselves."""
_SUM: Final = 10**6
_RELATION: Final = 10**6


@dataclass(frozen=True)
class OrthogonalLattice:
    """What the representations of a few rows gave away to somebody who knows the terms alone.

    Attributes
    ----------
    rows : int
        Rows looked at together.
    relations, expected : int
        Integer relations found that hold in every column of a common step, and how many there are. Columns
        of real numbers allow fewer, by at most their number.
    told_apart : bool
        Whether all vectors that the attacker takes for relations are some.
    candidates : int
        Different columns of zeros and ones found in the lattice that is orthogonal to these vectors.
    two_valued : int
        Different columns of two values among the true features of these rows.
    held, recovered : int
        How many of these lie in the lattice, and how many are among the candidates.
    features : tuple of int
        The features that are among the candidates.
    seconds : float
    """

    rows: int
    relations: int
    expected: int
    told_apart: bool
    candidates: int
    two_valued: int
    held: int
    recovered: int
    features: tuple[int, ...]
    seconds: float


def orthogonal_lattice(
    rows: Matrix64,
    rep: Matrix64,
    noise: float,
    states: Sequence[Matrix64],
    *,
    seed: int,
    seconds: float = 2.0,
) -> OrthogonalLattice | None:
    """Attack a party's own rows from their representations alone.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        The encoded rows, to count what the attack found.
    rep : (n, l) ndarray of float64
        X~_i as the analyst decodes it.
    noise : float
        Standard deviation of rounding and noise in ``rep``, which the terms and the manifest tell.
    states : sequence of (k, w) ndarray
        What values each column's features can have, to count what the attack found.
    seed : int
        Which rows are looked at.
    seconds : float
        When to stop trying, in computing time of this thread, so that a busy machine changes no result; a
        step that has begun is finished.

    Returns
    -------
    OrthogonalLattice or None
        The best of several tries, as if the attacker knew which that is. None if fpylll is not installed,
        if no column has a common step, if all rows are alike, or if a block of `LARGEST_BLOCK` rows, or the
        table, has too few rows for relations between so many integers.
    """
    start = time.thread_time()
    grid = grid_of(states)
    largest, reals = min(LARGEST_BLOCK, len(rows)), len(grid.directions)
    noise = max(noise, float(rep.std()) * SMALLEST_NOISE)
    if not lattices.available() or not 0 < grid.integers <= largest - 2 or noise == 0:
        return None
    order, best = np.random.default_rng(seed).permutation(len(rows)), None
    for more, scale in TRIES:
        if best and (best.is_complete or time.thread_time() - start > seconds / 4):
            break
        chosen = order[: min(grid.integers + more, largest)]
        integers = grid.to_coordinates(rows[chosen])[:, : grid.integers].astype(np.int64)
        tried = _Try(rows[chosen], integers, reals, *_short_vectors(rep[chosen], scale / noise))
        if best is None or tried.share > best.share:
            best = tried
    if best is None:
        return None
    found = best.judged(start, start + seconds)
    if found.told_apart or time.thread_time() - start > seconds:
        return found
    again = best.by_integers_alone().judged(start, start + seconds)
    return max(found, again, key=lambda one: (one.recovered, one.held))


@dataclass(frozen=True, repr=False)
class _Try:
    """A block of rows, its integers, and the short vectors found for it, the shortest first."""

    rows: Matrix64
    integers: Integers
    reals: int
    vectors: Integers
    lengths: Matrix64

    @property
    def relations(self) -> int:
        return _relations(self.vectors, self.integers)

    @property
    def share(self) -> float:
        return float(self.relations / _expected(self.integers))

    @property
    def is_complete(self) -> bool:
        return self.share == 1

    @property
    def cut(self) -> int:
        """How many vectors the attacker takes for relations.

        The terms tell how many numbers make a row, and so how many relations there are at least; the vectors
        after the last one are longer by the largest factor.
        """
        least = max(len(self.vectors) - self.integers.shape[1] - self.reals, 1)
        ratios = self.lengths[1:] / self.lengths[:-1]
        return int(least + np.argmax(ratios[least - 1 :]))

    def by_integers_alone(self) -> _Try:
        """Return the vectors in the order of u: under noise it tells relations of some columns better."""
        lengths = np.linalg.norm(self.vectors.astype(np.float64), axis=1)
        order = np.argsort(lengths, kind="stable")
        return replace(self, vectors=self.vectors[order], lengths=lengths[order])

    def judged(self, start: float, deadline: float) -> OrthogonalLattice:
        """Go on from the short vectors as the attacker would, and compare with the truth."""
        taken = self.vectors[: self.cut]
        columns = _two_valued(self.rows)
        held = {key for key, column in columns.items() if not (taken @ column).any()}
        candidates: set[bytes] = set()
        if time.thread_time() < deadline:
            candidates = _zero_one(_orthogonal(taken), deadline)
        return OrthogonalLattice(
            rows=len(self.rows),
            relations=self.relations,
            expected=_expected(self.integers),
            told_apart=_relations(taken, self.integers) == len(taken),
            candidates=len(candidates),
            two_valued=len(columns),
            held=len(held),
            recovered=len(candidates & held),
            features=_features(self.rows, candidates),
            seconds=time.thread_time() - start,
        )


def _expected(integers: Integers) -> int:
    """Return how many independent u annihilate some columns of integers and a column of ones."""
    whole = np.column_stack([np.ones(len(integers)), integers])
    return len(integers) - int(np.linalg.matrix_rank(whole))


def _relations(vectors: Integers, integers: Integers) -> int:
    """Return how many vectors annihilate the integers and sum to zero."""
    whole = np.column_stack([np.ones(len(integers), dtype=np.int64), integers])
    return int((~(vectors @ whole).any(axis=1)).sum())


def _short_vectors(rep: Matrix64, scale: float) -> tuple[Integers, Matrix64]:
    """Return a basis of all integers u that sum to zero, the best first, and their lengths, (n - 1,).

    Of u counts how long it is together with ``scale u X~``, which is short for a relation.
    """
    count = len(rep)
    rows = np.hstack([np.eye(count), np.rint(rep * scale), np.full((count, 1), _SUM)])
    found = lattices.reduced(rows.astype(np.int64))
    found = found[found[:, -1] == 0]
    lengths = np.linalg.norm(found.astype(np.float64), axis=1)
    order = np.argsort(lengths, kind="stable")
    return found[order, :count], lengths[order]


def _orthogonal(relations: Integers) -> Integers:
    """Return a reduced basis of all integer vectors that are orthogonal to the relations, (n - r, n)."""
    count = relations.shape[1]
    rows = np.hstack([relations.T * _RELATION, np.eye(count, dtype=np.int64)])
    found = lattices.reduced(rows)
    kept = found[~found[:, : len(relations)].any(axis=1), len(relations) :]
    return lattices.reduced(kept, deep=True) if len(kept) else kept


def _zero_one(basis: Integers, deadline: float) -> set[bytes]:
    """Return vectors of two neighbouring values in a lattice that holds (1, .., 1), as zeros and ones.

    They are short. Starting from the basis and from sums and differences of two of it, what is found is added
    to and subtracted from the basis and everything found, until nothing new comes.
    """
    found: dict[bytes, Integers] = {}
    queue: list[Integers] = []

    def keep(vectors: Integers) -> None:
        lowest = vectors.min(axis=1)
        for vector in vectors[vectors.max(axis=1) - lowest == 1]:
            key = _key(vector)
            if key not in found:
                found[key] = np.frombuffer(key, dtype=np.int8).astype(np.int64)
                queue.append(found[key])

    if len(basis):
        keep(basis)
    for i in range(1, len(basis)):
        keep(basis[i] + basis[:i])
        keep(basis[i] - basis[:i])
    done = 0
    while done < len(queue) and len(found) < MOST_CANDIDATES and time.thread_time() < deadline:
        others = np.vstack([basis, np.array(queue[: done + 1])])
        keep(queue[done] + others)
        keep(queue[done] - others)
        done += 1
    return set(found)


def _key(vector: NDArray[Any]) -> bytes:
    """Return a vector of two values as zeros and ones, beginning with zero: it stands for both readings."""
    return bytes((vector != vector[0]).astype(np.int8).tobytes())


def _two_valued(rows: Matrix64) -> dict[bytes, Integers]:
    """Return the different columns of two values, as zeros and ones."""
    keys = {_key(column) for column in rows.T.round(9) if len(np.unique(column)) == 2}
    return {key: np.frombuffer(key, dtype=np.int8).astype(np.int64) for key in sorted(keys)}


def _features(rows: Matrix64, candidates: set[bytes]) -> tuple[int, ...]:
    """Return which features of two values are among the candidates."""
    columns = enumerate(rows.T.round(9))
    return tuple(i for i, column in columns if len(np.unique(column)) == 2 and _key(column) in candidates)
