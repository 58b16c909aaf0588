from __future__ import annotations

import numpy as np
import pytest

from tests.harness import attacks

SEEDS = range(5)


def orthonormal(rng: np.random.Generator, features: int, latent_dim: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((features, latent_dim)))[0]


def test_a_guess_of_nothing_has_error_one() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 3))
    assert attacks.reconstruction_error(rows, np.zeros(3)) == pytest.approx(1)
    assert attacks.reconstruction_error(rows, rows) == 0


def test_a_row_of_zeros_is_not_counted() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert attacks.reconstruction_error(rows, np.array([1.0, 1.0])) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_uniform_anchor_gives_the_sums_of_the_basis_away_and_a_haar_anchor_does_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = orthonormal(rng, 200, 100)
    uniform, haar = rng.random((2000, 200)), orthonormal(rng, 200, 200)
    told, hidden = (
        attacks.alignment_of(attacks.estimated_basis_sums(anchor @ basis), basis.sum(axis=0))
        for anchor in (uniform, haar)
    )
    assert told > 0.99
    assert hidden < 0.4  # five standard deviations of a random direction in 100 dimensions


@pytest.mark.parametrize("seed", SEEDS)
def test_analyst_and_member_find_every_basis(seed: int) -> None:
    rng = np.random.default_rng(seed)
    anchor, basis = orthonormal(rng, 8, 8), orthonormal(rng, 8, 3)
    assert attacks.colluders_basis(anchor, anchor @ basis) == pytest.approx(basis)


def test_aligned_rows_are_mapped_back_to_their_projection() -> None:
    rng = np.random.default_rng(0)
    mine, turn = orthonormal(rng, 6, 2), orthonormal(rng, 2, 2)
    rows = rng.standard_normal((4, 6))
    found = attacks.mapped_back(rows @ mine @ turn, mine, turn)
    assert found == pytest.approx(rows @ mine @ mine.T)


def test_a_linear_model_is_inverted_along_its_weights() -> None:
    weights = np.array([[1.0], [0.0]])
    found = attacks.inverted_model([weights], [np.zeros(1)], 1, np.zeros((1, 2)))
    assert found[0] > 1
    assert found[1] == pytest.approx(0)
    assert attacks.inverted_model([weights], [np.zeros(1)], 0, np.zeros((1, 2))) == pytest.approx(-found)


def test_a_network_is_inverted_to_a_point_it_takes_for_the_class() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((4, 16)), rng.standard_normal((16, 3))]
    offsets = [rng.standard_normal(16), np.zeros(3)]
    for k in range(3):
        point = attacks.inverted_model(weights, offsets, k, rng.standard_normal((8, 4)))
        hidden = np.maximum(point @ weights[0] + offsets[0], 0)
        assert np.argmax(hidden @ weights[1] + offsets[1]) == k


def test_membership_that_shows_is_found_and_membership_that_does_not_is_not() -> None:
    inside, outside = np.array([0.9, 0.8]), np.array([0.1, 0.2])
    assert attacks.membership_advantage(inside, outside) == pytest.approx(1)
    assert attacks.membership_advantage(outside, inside) == 0
    assert attacks.membership_advantage(np.array([0.5, 0.5]), np.array([0.5])) == pytest.approx(0)
    assert attacks.membership_advantage(np.array([0.9, 0.1]), np.array([0.5, 0.05])) == pytest.approx(0.5)


def test_a_filter_without_noise_changes_nothing_and_with_much_noise_guesses_the_mean() -> None:
    rep = np.random.default_rng(0).standard_normal((9, 3))
    moments = rep.T @ rep / len(rep)
    assert attacks.denoised(rep, moments, 0.0) == pytest.approx(rep)
    assert attacks.denoised(rep, moments, 1e4) == pytest.approx(np.zeros_like(rep), abs=1e-6)


def test_no_other_share_of_a_noisy_row_comes_nearer_than_the_filters() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 2)) * [3.0, 0.5]
    noisy = rows + rng.standard_normal(rows.shape)
    found = attacks.denoised(noisy, rows.T @ rows / len(rows), 1.0)
    filtered = np.linalg.norm(rows - found)
    assert filtered < min(np.linalg.norm(rows - share * noisy) for share in np.linspace(0, 1, 21))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_orthonormal_projection_tells_the_spectrum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((20, 6))
    directions = np.linalg.svd(rows)[2][:3].T
    assert attacks.spectrum_error(rows, rows @ directions @ orthonormal(rng, 3, 3)) < 1e-12
    assert attacks.spectrum_error(rows, 2 * rows @ directions) == pytest.approx(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_were_turned_and_permuted_are_found_by_their_distances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((25, 6))
    directions = np.linalg.svd(rows - rows.mean(axis=0))[2][:3].T
    order = rng.permutation(len(rows))
    rep = rows[order] @ directions @ orthonormal(rng, 3, 3)
    assert order[attacks.linked_rows(rows, rep, 3)].tolist() == list(range(len(rows)))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_found_by_other_rows_of_a_skewed_population_with_distinct_variances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes, spread = orthonormal(rng, 5, 5), np.array([9.0, 6, 4, 2, 1])
    rows, sample = ((rng.exponential(size=(2000, 5)) - 1) * spread @ axes.T for _ in range(2))
    turned = rows @ orthonormal(rng, 5, 5)
    found = attacks.matched_to_a_sample(turned, sample, 5)
    assert attacks.reconstruction_error(rows, found) < 0.4
