"""The numbers of non-linear maps: what they approximate, and that they come from the given bytes alone."""

from __future__ import annotations

import numpy as np
import pytest

from user_client.secret.nonlinear import inverse_root, median_distance, random_frequencies

ROWS = np.random.default_rng(1).standard_normal((40, 4))


def kernel(one: np.ndarray, other: np.ndarray, width: float) -> np.ndarray:
    squares = np.square(one[:, None] - other).sum(axis=2)
    return np.asarray(np.exp(-squares / (2 * width**2)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_products_of_many_random_features_are_nearly_the_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frequencies, phases = random_frequencies(rng.bytes, 4, 20_000, 1.5)
    found = np.sqrt(2 / 20_000) * np.cos(ROWS @ frequencies.T + phases)
    # an entry is a mean of 20,000 numbers between -2 and 2: a deviation of about 0.007
    np.testing.assert_allclose(found @ found.T, kernel(ROWS, ROWS, 1.5), atol=0.05)


def test_the_same_bytes_draw_the_same_features() -> None:
    first, again, other = (random_frequencies(np.random.default_rng(s).bytes, 3, 5, 1.0) for s in (7, 7, 8))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.allclose(first[0], other[0])


def test_coordinates_of_landmarks_have_the_products_of_the_kernel() -> None:
    coordinates = kernel(ROWS, ROWS, 1.0) @ inverse_root(ROWS, 1.0)
    np.testing.assert_allclose(coordinates @ coordinates.T, kernel(ROWS, ROWS, 1.0), atol=1e-4)
    energies = np.square(coordinates).sum(axis=0)
    assert (np.diff(energies) <= 1e-9).all(), "the first axis has the most"


def test_directions_that_only_rounding_has_are_left_out() -> None:
    twice = np.vstack([ROWS[:5], ROWS[:5]])
    assert inverse_root(twice, 1.0).shape == (10, 5)


def test_rows_that_are_alike_have_no_distance() -> None:
    assert median_distance(np.array([[0.0, 0], [3, 4], [0, 0]])) == 5
    assert median_distance(np.zeros((4, 2))) == 0
    assert median_distance(np.zeros((1, 2))) == 0
