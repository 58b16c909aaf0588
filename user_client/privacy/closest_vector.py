"""Closest vector: what colluders rebuild of rows whose values are few.

The analyst and one member know F_i and so ``x F_i`` up to its rounding. Ages, categories and rounded numbers
lie on a lattice, of which few points are near that. They are found by lattice reduction and by rounding along
the reduced basis (Babai), with several candidates kept at each step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from user_client.privacy import lattices
from user_client.privacy.grid import ColumnGrid, Grid, Matrix64, grid_of
from user_client.privacy.lattice_decoder import LatticeDecoder
from user_client.privacy.row_prior import RowPrior, row_prior

MOST_ROWS: Final = 100
"""Rows that are attacked at once: enough for shares to a few percent."""
MOST_INTEGERS: Final = 160
"""A lattice of more dimensions takes longer than a quick look may."""
CANDIDATES: Final = 16
CANDIDATES_OF_GUESS: Final = 4
GUESSES: Final = 2000
"""Most combinations of values that are tried one by one, where too many columns hold no common step."""


@dataclass(frozen=True)
class ClosestVector:
    """What colluders with F_i and rows like ours rebuild of our rows.

    Attributes
    ----------
    rows : int
        Attacked rows, drawn at random; the others play the rows the member has of its own.
    exact_rows : float
        Share of the rows that are right in every column.
    right_columns : float
        Mean share of the columns that are right in a row.
    by_column : tuple of float
        Share of the rows that are right in each column of the schema.
    guessed_exact_rows, guessed_columns : float
        The first two figures for one who knows no uplink and takes the most frequent value of each column.
    seconds : float
    finished : bool
        Whether the time was enough for what the attack would try.
    """

    rows: int
    exact_rows: float
    right_columns: float
    by_column: tuple[float, ...]
    guessed_exact_rows: float
    guessed_columns: float
    seconds: float
    finished: bool


def closest_vector(
    rows: Matrix64,
    secret_basis: Matrix64,
    rep: Matrix64,
    states: Sequence[Matrix64],
    *,
    seed: int,
    seconds: float = 2.0,
    most_rows: int = MOST_ROWS,
) -> ClosestVector | None:
    """Attack a party's own rows with what an analyst and a member hold together.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        The encoded rows. Half of them, or all but ``most_rows``, tell the attacker how columns are spread.
    secret_basis : (m, l) ndarray of float64
        F_i, which colluders compute as A^+ A_i.
    rep : (n, l) ndarray of float64
        X~_i as the analyst decodes it, with rounding and noise. Their size is taken as known: the terms and
        the manifest state it.
    states : sequence of (k, w) ndarray
        What values each column's features can have (`user_client.tables.states`).
    seed : int
        Which rows are attacked.
    seconds : float
        When to stop trying, in computing time of this thread, so that a busy machine changes no result; a
        step that has begun is finished.

    Returns
    -------
    ClosestVector or None
        None if fpylll is not installed, there are fewer than four rows, or the columns have too many
        possible values for a lattice of `MOST_INTEGERS` dimensions.

    References
    ----------
    .. [1] Babai, Combinatorica 6 (1986) 1-13, doi:10.1007/BF02579403.
    """
    start = time.thread_time()
    grid = grid_of(states)
    if not lattices.available() or len(rows) < 4 or grid.integers > MOST_INTEGERS:
        return None
    order = np.random.default_rng(seed).permutation(len(rows))
    attacked, known = np.split(order, [min(len(rows) // 2, most_rows)])
    sigma = _noise(rep, rows @ secret_basis)
    prior = row_prior(grid, rows[known])
    found, finished = _decode(
        prior, rep[attacked], secret_basis, sigma, known=rows[known], deadline=start + seconds
    )
    right = grid.alike(found, rows[attacked])
    guess = grid.alike(prior.most_frequent, rows[attacked])
    return ClosestVector(
        len(attacked),
        float(right.all(axis=1).mean()),
        float(right.mean()),
        tuple(float(share) for share in right.mean(axis=0)),
        float(guess.all(axis=1).mean()),
        float(guess.mean()),
        time.thread_time() - start,
        finished,
    )


def _noise(rep: Matrix64, exact: Matrix64) -> Matrix64:
    """Return the standard deviation of rounding and noise in each column, (l,), not below 30 bits."""
    spread = np.maximum(rep.std(axis=0), np.finfo(np.float32).tiny)
    return np.asarray(np.maximum(np.sqrt(np.mean((rep - exact) ** 2, axis=0)), spread * 2.0**-30))


def _guessed_columns(grid: Grid, rep: Matrix64, sigma: Matrix64) -> list[int]:
    """Return columns to try value by value, those of fewest first, until the equations decide about the rest.

    A column of real numbers uses up one equation for each of its features, and an integer as many bits of
    one as its values differ in. At most `GUESSES` combinations are tried, which may not get there.
    """
    bits = float(np.log2(np.maximum(rep.std(axis=0), sigma) / sigma).mean())
    guessed: list[int] = []
    while not _is_enough(rest := _without(grid, guessed), len(sigma), bits):
        finite = [i for i in range(len(grid.columns)) if i not in guessed and len(grid.columns[i].states)]
        reals = [i for i in finite if len(grid.columns[i].directions)]
        if not finite or len(guessed) == len(grid.columns) - 1:
            break
        missing = len(rest.directions) >= len(sigma)
        chosen = min(reals if reals and missing else finite, key=lambda i: len(grid.columns[i].states))
        if math.prod(len(grid.columns[i].states) for i in (*guessed, chosen)) > GUESSES:
            break
        guessed.append(chosen)
    return guessed


def _decode(
    prior: RowPrior,
    rep: Matrix64,
    basis: Matrix64,
    sigma: Matrix64,
    *,
    known: Matrix64,
    deadline: float,
) -> tuple[Matrix64, bool]:
    """Return the likeliest rows, (n, m), and whether all guesses were tried before the deadline."""
    grid = prior.grid
    whole = LatticeDecoder(prior, basis, sigma).candidates(rep, CANDIDATES)
    best, _ = _best(whole, rep, basis, sigma, prior)
    best = prior.improved(best, rep, basis, sigma, deadline=deadline)
    guessed = _guessed_columns(grid, rep, sigma)
    if not guessed:
        return best, True
    features = np.arange(len(basis))
    mine = np.concatenate([features[grid.slices[i]] for i in guessed])
    others = np.setdiff1d(features, mine)
    decoder = LatticeDecoder(row_prior(_without(grid, guessed), known[:, others]), basis[others], sigma)
    best, least = _best(best[:, None], rep, basis, sigma, prior)
    finished = True
    for states in product(*(grid.columns[i].states for i in guessed)):
        if time.thread_time() > deadline:
            finished = False
            break
        values = np.concatenate(states)
        candidates = decoder.candidates(rep - values @ basis[mine], CANDIDATES_OF_GUESS)
        found = np.zeros((*candidates.shape[:2], len(basis)))
        found[..., mine], found[..., others] = values, candidates
        rows, cost = _best(found, rep, basis, sigma, prior)
        better = cost < least
        best[better], least[better] = rows[better], cost[better]
    return prior.improved(best, rep, basis, sigma, deadline=deadline), finished


def _without(grid: Grid, left_out: Sequence[int]) -> Grid:
    return Grid(tuple(column for i, column in enumerate(grid.columns) if i not in left_out))


def _is_enough(grid: Grid, latent_dim: int, bits: float) -> bool:
    """Return whether equations of so many bits decide about all columns of a grid."""
    left = latent_dim - len(grid.directions)
    return left >= 0 and left * bits >= sum(_bits(column) for column in grid.columns)


def _bits(column: ColumnGrid) -> float:
    """Return the entropy of integers that are spread as those of the states, in bits."""
    if not len(column.steps):
        return 0.0
    spread = column.coordinates[:, : len(column.steps)].std(axis=0)
    return float(np.log2(1 + 4.13 * spread).sum())  # that of a normal number is log2(4.13 spread)


def _best(
    candidates: Matrix64, rep: Matrix64, basis: Matrix64, sigma: Matrix64, prior: RowPrior
) -> tuple[Matrix64, Matrix64]:
    """Return the likeliest of several candidates, (n, k, m), for each row, and -2 log of its likelihood."""
    count, width, features = candidates.shape
    error = np.square((rep[:, None] - candidates @ basis) / sigma).sum(axis=2)
    cost = error + prior.cost(candidates.reshape(-1, features)).reshape(count, width)
    chosen = cost.argmin(axis=1)
    return candidates[np.arange(count), chosen], cost.min(axis=1)
