"""A fit on rows with dither answers rows without it, once what is expected of each row takes its place."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.training.dithered_rows import allow_for_dither
from user_client.privacy.noise import add_dither

Matrix = NDArray[np.float64]
COEFFICIENTS = np.array([2.0, -1.0, 0.5, 0.0])
STRENGTH = 0.5


def clean_rows(count: int, *, mean: float = 0.0, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((4, 4)) + 2 * np.eye(4)
    return rng.standard_normal((count, 4)) @ mixed + mean * np.array([1.0, 2.0, -1.0, 0.5])


def with_dither(rows: Matrix, strength: float = STRENGTH, seed: int = 1) -> Matrix:
    return add_dither(rows, strength, np.random.default_rng(seed).standard_normal)


def least_squares(rows: Matrix, numbers: Matrix) -> Matrix:
    found = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows]), numbers, rcond=None)[0]
    return np.asarray(found[1:])


@pytest.mark.parametrize("mean", [0.0, 3.0])
@pytest.mark.parametrize("strength", [0.2, 0.5, 1.0])
def test_coefficients_are_those_of_rows_without_dither(mean: float, strength: float) -> None:
    clean = clean_rows(40_000, mean=mean)
    noisy = with_dither(clean, strength)
    numbers = clean @ COEFFICIENTS
    before = least_squares(noisy, numbers)
    assert np.abs(before - COEFFICIENTS).max() > strength**2 / 4
    allow_for_dither(noisy, strength)
    np.testing.assert_allclose(least_squares(noisy, numbers), COEFFICIENTS, atol=0.1 * strength)


def test_rows_come_nearer_to_what_they_were_and_keep_their_mean() -> None:
    clean = clean_rows(500, mean=1.0)
    noisy = with_dither(clean)
    found = noisy.copy()
    allow_for_dither(found, STRENGTH)
    assert ((found - clean) ** 2).sum() < 0.9 * ((noisy - clean) ** 2).sum()
    np.testing.assert_allclose(found.mean(axis=0), noisy.mean(axis=0), atol=1e-12)


def test_a_turn_of_the_rows_turns_the_result() -> None:
    """So it does not matter into which common representation the alignment has brought them."""
    noisy = with_dither(clean_rows(300, mean=1.0))
    turn = clean_rows(4, seed=5)
    turned = noisy @ turn
    allow_for_dither(noisy, STRENGTH)
    allow_for_dither(turned, STRENGTH)
    np.testing.assert_allclose(turned, noisy @ turn, rtol=1e-9, atol=1e-9)


def test_of_few_rows_each_keeps_its_share_of_the_distance_from_their_mean() -> None:
    noisy = with_dither(clean_rows(5))
    found = noisy.copy()
    allow_for_dither(found, STRENGTH)
    mean = noisy.mean(axis=0)
    np.testing.assert_allclose(found, mean + (noisy - mean) / (1 + STRENGTH**2))


def test_a_column_without_spread_changes_nothing_but_itself() -> None:
    noisy = np.column_stack([with_dither(clean_rows(200)), np.full(200, 7.0)])
    allow_for_dither(noisy, STRENGTH)
    assert np.isfinite(noisy).all()
    np.testing.assert_allclose(noisy[:, -1], 7.0)


def test_a_dither_that_is_too_small_to_count_changes_nothing() -> None:
    rows = clean_rows(50)
    before = rows.copy()
    allow_for_dither(rows, 1e-170)
    np.testing.assert_array_equal(rows, before)


def test_single_precision_stays_and_no_rows_are_no_rows() -> None:
    noisy = with_dither(clean_rows(200)).astype(np.float32)
    double = noisy.astype(np.float64)
    allow_for_dither(noisy, STRENGTH)
    allow_for_dither(double, STRENGTH)
    assert noisy.dtype == np.float32
    np.testing.assert_allclose(noisy, double, atol=1e-5)
    allow_for_dither(np.empty((0, 4)), STRENGTH)
