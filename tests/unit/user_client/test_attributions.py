"""Permutation importance and Shapley values, beside what they are by definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.attributions import permutation_importance, shapley_values

Matrix = NDArray[np.float64]
GROUPS = (slice(0, 1), slice(1, 3), slice(3, 4))


def answer(rows: Matrix) -> Matrix:
    """Two answers: one of single columns, one in which columns work together."""
    first, second, third = rows[:, 0], rows[:, 1] - 2 * rows[:, 2], rows[:, 3]
    return np.column_stack([3 * first + second, first * second + np.sin(third)])


def by_definition(ask: Callable[[Matrix], Matrix], row: Matrix, background: Matrix) -> Matrix:
    """The mean over every order of the columns and every row of the background, (d, k)."""
    values = np.zeros((len(GROUPS), ask(row[None]).shape[1]))
    orders = list(permutations(range(len(GROUPS))))
    for start in background:
        for order in orders:
            mixed = start.copy()
            for column in order:
                before = ask(mixed[None])[0]
                mixed[GROUPS[column]] = row[GROUPS[column]]
                values[column] += ask(mixed[None])[0] - before
    return values / len(orders) / len(background)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_shapley_values_are_those_of_the_definition(rng: np.random.Generator) -> None:
    rows, background = rng.standard_normal((5, 4)), rng.standard_normal((6, 4))
    values, errors = shapley_values(answer, rows, background, GROUPS, rng, pairs=400)
    expected = np.array([by_definition(answer, row, background) for row in rows])
    assert np.abs(values - expected).max() < 5 * errors.max()
    assert np.all(np.abs(values - expected) < 5 * errors + 1e-12)


def test_the_values_of_a_row_add_up_to_what_it_differs_from_one_background_row(
    rng: np.random.Generator,
) -> None:
    rows, background = rng.standard_normal((5, 4)), rng.standard_normal((1, 4))
    values, _ = shapley_values(answer, rows, background, GROUPS, rng, pairs=2)
    np.testing.assert_allclose(values.sum(axis=1), answer(rows) - answer(background), atol=1e-12)


def test_the_error_of_a_mean_over_rows_is_as_large_as_it_says(rng: np.random.Generator) -> None:
    """Also where three columns work together, which walking an order back does not cancel."""
    rows, background, groups = rng.standard_normal((100, 4)), rng.standard_normal((200, 4)), GROUPS

    def of_three(some: Matrix) -> Matrix:
        return np.asarray(np.sign(some[:, 0] * some[:, 1] * some[:, 3])[:, None])

    found = [
        shapley_values(of_three, rows, background, groups, np.random.default_rng(k), pairs=6)
        for k in range(60)
    ]
    spread = np.std([np.abs(values).mean(axis=(0, 2)) for values, _ in found], axis=0)
    stated = np.mean([np.sqrt((errors**2).sum(axis=(0, 2))) / len(rows) for _, errors in found], axis=0)
    assert ((stated / spread > 0.7) & (stated / spread < 1.5)).all()


def test_walking_back_makes_pairs_of_columns_exact(rng: np.random.Generator) -> None:
    rows, background = rng.standard_normal((5, 4)), np.zeros((1, 4))
    values, errors = shapley_values(answer, rows, background, GROUPS, rng, pairs=2)
    half = rows[:, 0] * (rows[:, 1] - 2 * rows[:, 2]) / 2
    np.testing.assert_allclose(values[:, :, 1], np.column_stack([half, half, np.sin(rows[:, 3])]), atol=1e-12)
    np.testing.assert_allclose(errors, 0, atol=1e-7)


def test_the_same_row_gets_the_same_values_at_any_place_of_any_table(rng: np.random.Generator) -> None:
    rows, background = rng.standard_normal((7, 4)), rng.standard_normal((50, 4))

    def values_of(some: Matrix) -> Matrix:
        return shapley_values(answer, some, background, GROUPS, np.random.default_rng(0), pairs=3)[0]

    found = values_of(rows)
    np.testing.assert_allclose(values_of(rows[[4, 2]]), found[[4, 2]], atol=1e-12)
    assert np.abs(values_of(rows[:1] + 1e-9) - found[:1]).max() > 1e-3


def test_importance_is_what_the_score_loses(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((400, 4))
    truth = rows[:, 0] + 0.5 * (rows[:, 1] - 2 * rows[:, 2])

    def score(some: Matrix) -> float:
        return -float(np.mean((some[:, 0] + 0.5 * (some[:, 1] - 2 * some[:, 2]) - truth) ** 2))

    kept = rows.copy()
    fallen = permutation_importance(score, rows, GROUPS, rng, repeats=20)
    assert fallen.shape == (3, 20)
    # shuffling adds twice the variance of what the column tells: 2 * 1 and 2 * 0.25 * 5
    np.testing.assert_allclose(fallen.mean(axis=1), [2, 2.5, 0], atol=0.35)
    assert not fallen[2].any()
    np.testing.assert_array_equal(rows, kept)
