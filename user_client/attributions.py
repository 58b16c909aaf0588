"""Which columns the answers of a model come from: permutation importance and Shapley values. Arrays only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
Answer = Callable[[Matrix64], Matrix64]
"""From rows, (n, m), to what a model says of them, (n, k)."""
Groups = Sequence[slice]
"""The features of each column."""


def permutation_importance(
    score: Callable[[Matrix64], float],
    rows: Matrix64,
    groups: Groups,
    rng: np.random.Generator,
    *,
    repeats: int,
) -> Matrix64:
    """Return how far a score falls when one column is shuffled between the rows, (d, repeats) [1]_.

    Parameters
    ----------
    score : callable
        Of the rows, (n, m), in their order.
    rows : (n, m) ndarray of float64
    groups : sequence of d slices
    rng : numpy.random.Generator
    repeats : int
        How often each column is shuffled.

    References
    ----------
    .. [1] Breiman, Random forests, Machine Learning 45 (2001) 5-32, section 10; by column instead of by
       feature, so that the features of one category move together.
    """
    whole, fallen = score(rows), np.empty((len(groups), repeats))
    for column, group in enumerate(groups):
        shuffled = rows.copy()
        for repeat in range(repeats):
            shuffled[:, group] = rows[rng.permutation(len(rows)), group]
            fallen[column, repeat] = whole - score(shuffled)
    return fallen


def shapley_values(
    answer: Answer,
    rows: Matrix64,
    background: Matrix64,
    groups: Groups,
    rng: np.random.Generator,
    *,
    pairs: int,
) -> tuple[Matrix64, Matrix64]:
    """Return the Shapley value of each column for each answer, and its standard error, both (n, d, k) [1]_.

    Along an order of the columns drawn at random, a row of the background becomes the row to explain, column
    by column; the value of a column is the mean of what its step changes. The values of a row add up to its
    answer less the mean answer for the background rows that were drawn. Each order is also walked backwards,
    which makes the errors smaller. Every row has draws of its own, by its values and not by its place: the
    same row gets the same values in any table, and the errors of rows that differ are independent.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    background : (b, m) ndarray of float64
        Rows that stand for "nothing is known of this column".
    groups : sequence of d slices
    rng : numpy.random.Generator
        What the draws of all rows depend on beside their values; in the same state, it gives the same draws.
    pairs : int
        Number of orders of a row, at least 2; each takes 2 (d + 1) calls of ``answer`` for n rows.

    References
    ----------
    .. [1] Štrumbelj and Kononenko, Explaining prediction models and individual predictions with feature
       contributions, Knowledge and Information Systems 41 (2014) 647-665, Algorithm 1.
    """
    outputs = answer(rows[:1]).shape[1]
    total, squares = np.zeros((2, len(rows), len(groups), outputs))
    draws = _draws_of_each(rows, rng.bytes(32))
    for _ in range(pairs):
        orders = np.array([own.permutation(len(groups)) for own in draws])
        start = background[[own.integers(len(background)) for own in draws]]
        found = (
            _steps(answer, rows, start, groups, orders) + _steps(answer, rows, start, groups, orders[:, ::-1])
        ) / 2
        total += found
        squares += found**2
    mean = total / pairs
    variance = np.maximum(squares / pairs - mean**2, 0) / (pairs - 1)
    return mean, np.sqrt(variance)


def _draws_of_each(rows: Matrix64, key: bytes) -> list[np.random.Generator]:
    """Return a generator for each row, which depends on the row's values and the key alone."""
    digests = [hashlib.sha256(key + row.tobytes()).digest() for row in rows + 0.0]  # -0.0 is 0.0
    return [np.random.default_rng(int.from_bytes(digest)) for digest in digests]


def _steps(
    answer: Answer, rows: Matrix64, start: Matrix64, groups: Groups, orders: NDArray[np.integer]
) -> Matrix64:
    """Return what each column changes, (n, d, k), on the way from the start to the rows in orders (n, d)."""
    mixed, before = start.copy(), answer(start)
    changes = np.empty((len(rows), len(groups), before.shape[1]))
    steps = np.empty(rows.shape, np.int32)
    for column, step_of in enumerate(np.argsort(orders, axis=1).T):
        steps[:, groups[column]] = step_of[:, None]
    each = np.arange(len(rows))
    for step in range(len(groups)):
        np.copyto(mixed, rows, where=steps == step)
        after = answer(mixed)
        changes[each, orders[:, step]] = after - before
        before = after
    return changes
