from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks import defences
from user_client.privacy.reduction import hidden_share

ROWS = np.random.default_rng(0).standard_normal((30, 8)) * np.arange(1, 9)


def sent(defence: defences.Defence) -> defences.Sent:
    return defence(ROWS, 4, np.random.default_rng(1))


@pytest.mark.parametrize(
    "defence",
    [
        defences.plain,
        defences.keep_hidden(0.2),
        defences.gaussian_noise(1, 1e-5, 10),
        defences.non_readily_identifiable(0.05),
    ],
)
def test_every_basis_is_orthonormal(defence: defences.Defence) -> None:
    basis = sent(defence).secret_basis
    assert basis.T @ basis == pytest.approx(np.eye(4), abs=1e-12)


def test_fewer_dimensions_are_fewer() -> None:
    assert sent(defences.fewer_dimensions(0.5)).secret_basis.shape == (8, 2)


def test_the_rows_that_are_kept_are_hidden_as_much_as_was_asked() -> None:
    kept = sent(defences.keep_hidden(0.3))
    assert 0 < len(kept.order) < len(ROWS)
    assert hidden_share(ROWS[kept.order], kept.secret_basis).min() >= 0.3
    np.testing.assert_array_equal(kept.features, ROWS[kept.order])


def test_nri_permutes_and_loses_no_row() -> None:
    found = sent(defences.non_readily_identifiable(0.05))
    assert sorted(found.order) == list(range(len(ROWS)))
    assert list(found.order) != sorted(found.order)
    np.testing.assert_array_equal(found.features, ROWS[found.order])


def test_noise_has_the_size_that_is_said_and_rows_are_clipped_first() -> None:
    rows = np.tile([100.0, 0, 0], (4000, 1))
    found = defences.gaussian_noise(5, 1e-5, 2.0)(rows, 2, np.random.default_rng(0)).features
    sigma = defences.noise_sigma(5, 1e-5, 2.0)
    assert found.mean(axis=0) == pytest.approx([2.0, 0, 0], abs=5 * sigma / np.sqrt(len(rows)))
    assert found.std() == pytest.approx(sigma, rel=0.05)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_the_noise_gives_the_epsilon_and_delta_it_is_said_to(epsilon: float) -> None:
    """Against the definition: delta is the integral of ``p - e^epsilon q`` where it is positive."""
    delta, clip = 1e-5, 3.0
    shift = 2 * clip / defences.noise_sigma(epsilon, delta, clip)
    start = epsilon / shift - shift / 2
    found, _ = quad(lambda x: norm.pdf(x) - np.exp(epsilon + norm.logpdf(x + shift)), start, start + 20)
    assert found == pytest.approx(delta, rel=1e-6)
