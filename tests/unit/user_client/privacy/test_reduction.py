from __future__ import annotations

import numpy as np
import pytest

from tests.harness.peaks import peak_bytes
from user_client.privacy.reduction import (
    MEASURED_ROWS,
    hidden_share,
    reduction_risk,
    rows_below,
    threshold_risk,
)
from user_client.rows import Block, Rows


def case(seed: int, rows: int = 40, features: int = 9, latent_dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((features, latent_dim)))
    return rng.standard_normal((rows, features)), basis


@pytest.mark.parametrize("seed", range(10))
def test_the_hidden_share_is_what_the_pseudo_inverse_cannot_rebuild(seed: int) -> None:
    rows, basis = case(seed)
    back = rows @ basis @ np.linalg.pinv(basis)
    plain = [np.linalg.norm(row - found) / np.linalg.norm(row) for row, found in zip(rows, back, strict=True)]
    np.testing.assert_allclose(hidden_share(rows, basis), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_full_basis_hides_nothing(seed: int) -> None:
    rows, basis = case(seed, latent_dim=9)
    np.testing.assert_allclose(hidden_share(rows, basis), 0, rtol=0, atol=1e-12)


def test_a_row_outside_the_basis_is_hidden_completely() -> None:
    basis = np.eye(3)[:, :1]
    np.testing.assert_array_equal(hidden_share(np.array([[0.0, 3, 4], [2, 0, 0]]), basis), [1, 0])


def test_a_zero_row_hides_nothing() -> None:
    assert hidden_share(np.zeros((1, 3)), np.eye(3)[:, :1])[0] == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_length_of_a_row_does_not_matter(seed: int) -> None:
    rows, basis = case(seed)
    np.testing.assert_allclose(hidden_share(1e6 * rows, basis), hidden_share(rows, basis), atol=1e-12)


def test_the_risk_is_given_in_quantiles() -> None:
    basis = np.eye(2)[:, :1]
    angles = np.linspace(0, np.pi / 2, 201)
    risk = reduction_risk(np.stack([np.cos(angles), np.sin(angles)], axis=1), basis)
    assert risk is not None
    assert risk.minimum == 0
    assert risk.median == pytest.approx(np.sin(np.pi / 4))
    assert risk.first_percent == pytest.approx(np.sin(angles[2]))


def test_without_rows_there_is_no_risk() -> None:
    assert reduction_risk(np.empty((0, 3)), np.eye(3)) is None


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_the_share_is_the_error_of_what_can_be_rebuilt(seed: int) -> None:
    rows, basis = case(seed)
    seen = rows + np.random.default_rng(seed).standard_normal(rows.shape)
    rebuilt = seen @ basis @ np.linalg.pinv(basis)
    expected = np.linalg.norm(rows - rebuilt, axis=1) / np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(hidden_share(rows, basis, rep=seen @ basis), expected, rtol=1e-9)


# every latent dimension at once


def axes_of(rows: np.ndarray) -> np.ndarray:
    return np.linalg.svd(rows, full_matrices=True)[2].T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
def test_the_rows_below_a_threshold_are_those_a_basis_of_each_size_would_find(
    seed: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("user_client.privacy.reduction.ROWS_AT_ONCE", 7)
    rows, _ = case(seed)
    axes = axes_of(rows)
    one_by_one = [(hidden_share(rows, axes[:, :size]) < threshold).sum() for size in range(1, 10)]
    np.testing.assert_array_equal(rows_below(rows, axes, threshold), one_by_one)


@pytest.mark.parametrize("seed", range(5))
def test_one_dimension_more_than_the_largest_hides_too_little(seed: int) -> None:
    rows, _ = case(seed, rows=300, features=12)
    axes = axes_of(rows)
    found = threshold_risk(rows, axes[:, :6], axes, 0.3)
    assert found is not None
    for size, allowed in [(found.largest_latent_dim, 0), (found.largest_latent_dim_for_99_percent, 3)]:
        assert 1 <= size < 12
        assert (hidden_share(rows, axes[:, :size]) < 0.3).sum() <= allowed
        assert (hidden_share(rows, axes[:, : size + 1]) < 0.3).sum() > allowed
    assert found.largest_latent_dim < found.largest_latent_dim_for_99_percent
    assert found.rows_below == (hidden_share(rows, axes[:, :6]) < 0.3).sum()


def test_where_every_dimension_hides_too_little_the_largest_is_zero() -> None:
    rows = np.eye(3)[[0, 0, 1, 2, 0]]
    found = threshold_risk(rows, np.eye(3)[:, :1], np.eye(3), 0.5)
    assert found is not None
    assert (found.rows_below, found.largest_latent_dim) == (3, 0)


def test_a_zero_row_is_below_every_threshold() -> None:
    np.testing.assert_array_equal(rows_below(np.zeros((2, 3)), np.eye(3), 0.01), [2, 2, 2])


def test_without_rows_none_is_below_a_threshold() -> None:
    assert threshold_risk(np.empty((0, 3)), np.eye(3)[:, :1], np.eye(3), 0.5) is None


def test_the_quantiles_of_many_rows_are_of_a_part_that_is_in_memory_once() -> None:
    part, basis = case(0, rows=5000, features=3, latent_dim=2)
    rows = Rows([Block(lambda: part, len(part)) for _ in range(60)], 3)
    found = reduction_risk(rows, basis)
    alone = reduction_risk(part, basis)
    assert found is not None
    assert alone is not None
    assert found.minimum == alone.minimum
    assert found.median == pytest.approx(alone.median, abs=0.01)
    # the numbers of the rows, and their shares: 8 bytes each
    assert peak_bytes(lambda: reduction_risk(rows, basis)) < 2.5 * 8 * MEASURED_ROWS
