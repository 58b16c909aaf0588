from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from protocol.gaussian_mechanism import gaussian_sigma
from tests.harness.problems import stream
from user_client.privacy import noise as noise_module
from user_client.privacy.noise import add_dither, add_noise, clip_rows
from user_client.secret.expansion import gaussian


def normals(seed: int) -> partial[np.ndarray]:
    return partial(gaussian, stream(seed))


# the noise hides a row


def test_the_privacy_loss_of_drawn_noise_is_the_stated_one() -> None:
    """A row is replaced by the one farthest away; the noise must hide which it was as well as stated."""
    epsilon, delta, clip, draws = 1.0, 0.05, 1.5, 200_000
    sigma = gaussian_sigma(epsilon, delta, sensitivity=2 * clip)
    one, other = clip_rows(np.array([[3.0, -4, 12], [-3, 4, -12]]), clip)
    seen = add_noise(np.tile(one, (draws, 1)), sigma, normals(0))
    loss = (np.square(seen - other).sum(axis=1) - np.square(seen - one).sum(axis=1)) / (2 * sigma**2)
    excess = np.maximum(0, 1 - np.exp(epsilon - loss))  # its mean is delta
    assert excess.mean() == pytest.approx(delta, abs=5 * excess.std() / math.sqrt(draws))
    assert 5 * excess.std() / math.sqrt(draws) < 0.1 * delta  # precise enough to notice 3 % less noise


# drawn noise


@pytest.mark.parametrize("seed", range(5))
def test_drawn_noise_is_normal_with_the_given_deviation(seed: int) -> None:
    rows = np.random.default_rng(seed).uniform(-1, 1, (500, 40))
    drawn = (add_noise(rows, 2.5, normals(seed)) - rows).ravel() / 2.5
    spread = math.sqrt(2 / drawn.size)  # of the mean of squares of standard normal numbers
    assert np.square(drawn).mean() == pytest.approx(1, abs=5 * spread)
    assert drawn.mean() == pytest.approx(0, abs=5 / math.sqrt(drawn.size))
    assert stats.kstest(drawn, "norm").pvalue > 1e-4


def test_the_noise_of_two_entries_is_unrelated() -> None:
    drawn = add_noise(np.zeros((20_000, 4)), 1, normals(3))
    correlations = np.asarray(np.corrcoef(drawn.T))[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5 / math.sqrt(20_000)


def test_noise_does_not_repeat_beyond_the_numbers_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("user_client.privacy.noise.NUMBERS_AT_ONCE", 7)
    drawn = add_noise(np.zeros((10, 3)), 1, normals(0))
    assert len(np.unique(drawn)) == 30


def test_noise_and_clipping_leave_the_rows_as_they_are() -> None:
    rows = np.ones((3, 4))
    add_noise(rows, 1, normals(0))
    clip_rows(rows, 0.5)
    np.testing.assert_array_equal(rows, np.ones((3, 4)))


def test_no_rows_get_no_noise() -> None:
    assert add_noise(np.empty((0, 4)), 1, normals(0)).shape == (0, 4)


# clipping


@given(st.integers(0, 2**32), st.floats(1e-3, 1e3))
def test_two_clipped_rows_are_at_most_two_norms_apart(seed: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((20, 6)) * rng.choice([0, 1e-6, 1, 1e6], (20, 1))
    clipped = clip_rows(rows, norm)
    assert np.linalg.norm(clipped[:, None] - clipped[None], axis=2).max() <= 2 * norm * (1 + 1e-12)


def test_a_long_row_keeps_its_direction_and_a_short_one_stays() -> None:
    clipped = clip_rows(np.array([[30.0, 40], [0.3, 0.4], [0, 0]]), 5)
    np.testing.assert_allclose(clipped, np.array([[3, 4], [0.3, 0.4], [0, 0]]), rtol=1e-15)


@pytest.mark.parametrize("norm", [0, -1, math.inf, math.nan])
def test_a_norm_that_is_not_positive_and_finite_is_refused(norm: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        clip_rows(np.ones((1, 2)), norm)


def test_dither_has_the_shape_of_what_it_is_added_to() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    rep = rng.standard_normal((40_000, 3)) * [5.0, 1.0, 0.1] @ turn
    noise = add_dither(rep, 0.5, rng.standard_normal) - rep
    shares = turn @ (noise.T @ noise) @ turn.T / np.outer([5.0, 1.0, 0.1], [5.0, 1.0, 0.1]) / 40_000
    np.testing.assert_allclose(shares, 0.25 * np.eye(3), atol=0.01)
    assert abs(np.corrcoef(noise[:, 0], rep[:, 0])[0, 1]) < 0.03


def test_rows_with_dither_are_told_no_better_than_the_stated_bits() -> None:
    """The best linear guess of a whitened row misses what a channel of that capacity must miss."""
    rng = np.random.default_rng(1)
    rep = rng.standard_normal((20_000, 2))
    for strength in (0.25, 0.5, 1.0):
        seen = add_dither(rep, strength, rng.standard_normal)
        missed = np.mean((rep - seen @ np.linalg.lstsq(seen, rep, rcond=None)[0]) ** 2)
        assert -np.log2(missed) / 2 == pytest.approx(np.log2(1 + strength**-2) / 2, abs=0.02)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows_are_dithered_along_themselves(count: int) -> None:
    rep = np.random.default_rng(2).standard_normal((count, 4))
    noise = add_dither(rep, 0.5, np.random.default_rng(3).standard_normal) - rep
    assert noise.shape == rep.shape
    assert np.linalg.matrix_rank(np.vstack([rep, noise]), tol=1e-6) <= count


def test_dithering_in_blocks_gives_what_dithering_at_once_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    rep = np.random.default_rng(4).standard_normal((50, 3))
    whole = add_dither(rep, 0.5, np.random.default_rng(5).standard_normal)
    monkeypatch.setattr(noise_module, "NUMBERS_AT_ONCE", 20)
    np.testing.assert_allclose(add_dither(rep, 0.5, np.random.default_rng(5).standard_normal), whole)
