from __future__ import annotations

import numpy as np
import pytest

from tests.harness.problems import stream
from user_client.secret.basis import draw_secret_basis, perturbed, principal_axes

SEEDS = range(10)


def rows(seed: int, count: int = 50, features: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, features)) * np.linspace(3, 0.1, features)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [0, 1, 3, 50])
@pytest.mark.parametrize("latent_dim", [1, 5, 12])
def test_a_basis_has_orthonormal_columns_however_few_the_rows(seed: int, count: int, latent_dim: int) -> None:
    basis = draw_secret_basis(rows(seed, count), latent_dim, stream(seed))
    assert basis.shape == (12, latent_dim)
    np.testing.assert_allclose(basis.T @ basis, np.eye(latent_dim), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("latent_dim", [1, 5, 11])
def test_a_basis_spans_the_top_right_singular_vectors(seed: int, latent_dim: int) -> None:
    data = rows(seed)
    _, _, right = np.linalg.svd(data)
    top = right[:latent_dim].T
    basis = draw_secret_basis(data, latent_dim, stream(seed))
    # projections on one space; the Gram matrix squares the gap between the singular values
    np.testing.assert_allclose(basis @ basis.T, top @ top.T, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 4])
def test_a_basis_of_few_rows_loses_nothing_of_them(seed: int, count: int) -> None:
    data = rows(seed, count)
    basis = draw_secret_basis(data, 5, stream(seed))
    np.testing.assert_allclose(data @ basis @ basis.T, data, rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_basis_is_a_rotation_that_loses_nothing(seed: int) -> None:
    data = rows(seed)
    basis = draw_secret_basis(data, 12, stream(seed))
    np.testing.assert_allclose(data @ basis @ basis.T, data, rtol=0, atol=1e-12)


def test_the_same_rows_get_another_basis_of_the_same_span_each_time() -> None:
    one, other = (draw_secret_basis(rows(0), 4, stream(seed)) for seed in (1, 2))
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose(one @ one.T, other @ other.T, rtol=0, atol=1e-12)


def test_the_rotation_within_the_span_prefers_no_direction() -> None:
    """Otherwise the analyst could find the leading singular vector in the representation."""
    source, data = stream(0), rows(0)
    first = np.linalg.svd(data)[2][0]
    weights = np.stack([first @ draw_secret_basis(data, 3, source) for _ in range(2000)])
    assert np.abs(weights.mean(axis=0)).max() < 5 / np.sqrt(3 * 2000)  # five standard errors
    np.testing.assert_allclose(np.square(weights).mean(axis=0), 1 / 3, rtol=0, atol=0.05)


def test_a_party_without_rows_gets_directions_at_random() -> None:
    one, other = (draw_secret_basis(np.empty((0, 12)), 4, stream(seed)) for seed in (1, 2))
    assert np.abs(one @ one.T - other @ other.T).max() > 0.1


def test_the_rows_are_not_modified() -> None:
    data = rows(0)
    copy = data.copy()
    draw_secret_basis(data, 4, stream(0))
    np.testing.assert_array_equal(data, copy)


@pytest.mark.parametrize("latent_dim", [0, -1, 13])
def test_more_dimensions_than_features_or_none_are_refused(latent_dim: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and 12, got {latent_dim}"):
        draw_secret_basis(rows(0), latent_dim, stream(0))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [0, 3, 50])
def test_the_axes_are_the_right_singular_vectors_in_descending_order(seed: int, count: int) -> None:
    data = rows(seed, count)
    values, axes = principal_axes(data)
    expected = np.zeros(12)
    expected[: min(count, 12)] = np.linalg.svd(data, compute_uv=False)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6)  # the Gram matrix squares them
    np.testing.assert_allclose(axes.T @ axes, np.eye(12), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(data @ axes, axis=0), values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_basis_of_known_axes_spans_the_same_space(seed: int) -> None:
    data = rows(seed)
    basis = draw_secret_basis(data, 4, stream(seed), axes=principal_axes(data)[1])
    own = draw_secret_basis(data, 4, stream(seed))
    np.testing.assert_allclose(basis @ basis.T, own @ own.T, rtol=0, atol=1e-9)


def test_perturbed_rows_differ_by_uniform_numbers_of_the_given_strength() -> None:
    data = rows(0, 2000)
    noise = (perturbed(data, 0.05, stream(1)) - data) / 0.05
    assert np.abs(noise).max() <= 1 + 1e-12
    assert noise.mean() == pytest.approx(0, abs=5 / np.sqrt(3 * noise.size))
    assert np.square(noise).mean() == pytest.approx(1 / 3, abs=0.01)


def test_a_perturbed_basis_spans_another_space_each_time() -> None:
    data = rows(0)
    one, other = (draw_secret_basis(perturbed(data, 0.3, stream(seed)), 4, stream(seed)) for seed in (1, 2))
    assert np.abs(one @ one.T - other @ other.T).max() > 1e-3
