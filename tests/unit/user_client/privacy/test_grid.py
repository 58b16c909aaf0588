from __future__ import annotations

import numpy as np
import pytest

from user_client.privacy.grid import column_grid, common_step, grid_of

AGES = (np.arange(18, 91)[:, None] - 40) / 36.0
LEVELS = (np.eye(4) - [0.4, 0.3, 0.2, 0.1]) * 0.7


def test_evenly_spaced_values_are_a_line_of_one_step() -> None:
    grid = column_grid(AGES)
    np.testing.assert_allclose(grid.steps, [[1 / 36]])
    np.testing.assert_allclose(grid.coordinates[:, 0], np.arange(len(AGES)))


def test_values_without_a_common_step_are_real_numbers() -> None:
    values = np.sqrt(np.array([2.0, 3, 5, 7, 11]))[:, None]
    grid = column_grid(values)
    assert (len(grid.steps), len(grid.directions)) == (0, 1)
    np.testing.assert_allclose(grid.snapped(values + 1e-3), values)


def test_levels_have_one_integer_for_each_level_but_one() -> None:
    grid = column_grid(LEVELS)
    assert len(grid.steps) == 3
    np.testing.assert_allclose(grid.offset + grid.coordinates @ grid.steps, grid.states, atol=1e-12)


def test_an_empty_field_is_an_integer_of_its_own() -> None:
    states = np.vstack([np.column_stack([AGES, np.full(len(AGES), -0.2)]), [0.0, 0.8]])
    grid = column_grid(states)
    assert len(grid.steps) == 2
    np.testing.assert_allclose(grid.offset + grid.coordinates @ grid.steps, grid.states, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_rebuilt_from_their_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = [AGES, LEVELS, np.sqrt(np.arange(2.0, 9))[:, None], np.empty((0, 1))]
    grid = grid_of(states)
    parts = [rng.permutation(one)[rng.integers(0, len(one), 20) % len(one)] for one in states[:3]]
    rows = np.hstack([*parts, rng.standard_normal((20, 1))])
    found = grid.to_coordinates(rows)
    back = grid.offset + found[:, : grid.integers] @ grid.steps + found[:, grid.integers :] @ grid.directions
    np.testing.assert_allclose(back, rows, atol=1e-9)


def test_a_value_off_the_grid_is_not_taken_for_its_neighbour() -> None:
    grid = grid_of([AGES, LEVELS])
    rows = np.hstack([AGES[:4], LEVELS])
    others = rows.copy()
    others[0, 0] = AGES[1, 0]
    np.testing.assert_array_equal(grid.alike(rows, others), [[False, True]] + [[True, True]] * 3)


@pytest.mark.parametrize(("values", "step"), [([0, 0.1, 0.3], 0.1), ([0, 0.05, 1.0], 0.05), ([0, 4.0], 4.0)])
def test_the_common_step_is_the_largest(values: list[float], step: float) -> None:
    assert common_step(np.array(values)) == pytest.approx(step)


def test_one_value_alone_has_no_step() -> None:
    assert common_step(np.zeros(3)) is None
