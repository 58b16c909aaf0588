from __future__ import annotations

import numpy as np
import pytest

from user_client.privacy.reduction import hidden_share, reduction_risk


def case(seed: int, rows: int = 40, features: int = 9, latent_dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((features, latent_dim)))
    return rng.standard_normal((rows, features)), basis


@pytest.mark.parametrize("seed", range(10))
def test_the_hidden_share_is_what_the_pseudo_inverse_cannot_bring_back(seed: int) -> None:
    rows, basis = case(seed)
    back = rows @ basis @ np.linalg.pinv(basis)
    plain = [np.linalg.norm(row - found) / np.linalg.norm(row) for row, found in zip(rows, back, strict=True)]
    np.testing.assert_allclose(hidden_share(rows, basis), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_full_basis_hides_nothing(seed: int) -> None:
    rows, basis = case(seed, latent_dim=9)
    np.testing.assert_allclose(hidden_share(rows, basis), 0, rtol=0, atol=1e-12)


def test_a_row_outside_the_basis_is_hidden_whole() -> None:
    basis = np.eye(3)[:, :1]
    np.testing.assert_array_equal(hidden_share(np.array([[0.0, 3, 4], [2, 0, 0]]), basis), [1, 0])


def test_a_zero_row_hides_nothing() -> None:
    assert hidden_share(np.zeros((1, 3)), np.eye(3)[:, :1])[0] == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_length_of_a_row_does_not_matter(seed: int) -> None:
    rows, basis = case(seed)
    np.testing.assert_allclose(hidden_share(1e6 * rows, basis), hidden_share(rows, basis), atol=1e-12)


def test_the_risk_is_told_in_quantiles() -> None:
    basis = np.eye(2)[:, :1]
    angles = np.linspace(0, np.pi / 2, 201)
    risk = reduction_risk(np.stack([np.cos(angles), np.sin(angles)], axis=1), basis)
    assert risk is not None
    assert risk.minimum == 0
    assert risk.median == pytest.approx(np.sin(np.pi / 4))
    assert risk.first_percent == pytest.approx(np.sin(angles[2]))


def test_without_rows_there_is_no_risk() -> None:
    assert reduction_risk(np.empty((0, 3)), np.eye(3)) is None
