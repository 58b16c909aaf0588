"""Directions along which a label curves: found where there are some, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.scores import roc_auc
from user_client.secret import hessian
from user_client.secret.hessian import curved_weights, hessian_directions, products

Matrix = NDArray[np.float64]
ROWS, FEATURES = 800, 12


def centred(seed: int, rows: int = ROWS) -> Matrix:
    found = np.random.default_rng(seed).standard_normal((rows, FEATURES)) * np.geomspace(4, 0.5, FEATURES)
    return np.asarray(found - found.mean(axis=0))


def directions(rows: Matrix, label: Matrix) -> Matrix | None:
    """Return the directions for a label of two classes, judged by least squares without each row."""
    told = (label - label.mean())[:, None]
    left = told - rows @ np.linalg.lstsq(rows, told, rcond=None)[0]

    def quality(features: Matrix, numbers: NDArray[np.int64]) -> float:
        features = features - features.mean(axis=0)
        hat = features @ np.linalg.pinv(features)
        left = (told[numbers] - hat @ told[numbers])[:, 0] / (1 - np.diag(hat))
        found = roc_auc(told[numbers, 0] - left, told[numbers, 0] > 0)
        assert found is not None
        return found

    return hessian_directions(rows, left, quality)


def told_by(score: Matrix, seed: int) -> Matrix:
    return (np.random.default_rng([seed, 1]).random(len(score)) < 1 / (1 + np.exp(-2 * score))).astype(float)


def share_along(found: Matrix, features: list[int]) -> float:
    """Return how much of the directions lies along some features; 1 is all."""
    return float(np.square(np.linalg.qr(found)[0][features]).sum() / found.shape[1])


@pytest.mark.parametrize("seed", range(3))
def test_the_features_of_a_product_are_found_where_rows_vary_least(seed: int) -> None:
    rows = centred(seed)
    found = directions(rows, told_by(np.sign(rows[:, 10] * rows[:, 11]), seed))
    assert found is not None
    assert found.shape == (FEATURES, 2)
    assert share_along(found, [10, 11]) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_a_value_that_is_bad_when_high_and_when_low_is_one_direction(seed: int) -> None:
    rows = centred(seed)
    found = directions(rows, told_by(2 * np.abs(rows[:, 11] / 0.5) - 1.6, seed))
    assert found is not None
    assert found.shape == (FEATURES, 1)
    assert share_along(found, [11]) > 0.9


def test_along_the_directions_rows_have_unit_variance_and_no_correlation() -> None:
    rows = centred(0)
    found = directions(rows, told_by(np.sign(rows[:, 10] * rows[:, 11]), 0))
    assert found is not None
    np.testing.assert_allclose(np.cov((rows @ found).T, bias=True), np.eye(2), atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_a_label_along_a_straight_line_or_by_chance_has_none(seed: int, strength: float) -> None:
    rows = centred(seed)
    assert directions(rows, told_by(strength * rows[:, 0], seed)) is None


def test_directions_that_help_no_other_rows_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hessian, "EXCESS", 0.0)  # as if chance never curved
    rows = centred(0)
    assert directions(rows, told_by(np.zeros(ROWS), 0)) is None


def test_few_rows_for_their_features_have_none() -> None:
    rows = centred(0, rows=2 * hessian.ROWS_PER_FEATURE * FEATURES - 1)
    assert directions(rows, (rows[:, 11] ** 2 > 0.1).astype(float)) is None


def test_a_table_too_wide_for_its_sums_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = centred(0)
    label = told_by(np.sign(rows[:, 10] * rows[:, 11]), 0)
    monkeypatch.setattr(hessian, "MOST_WORK", 40 * FEATURES**2)
    assert directions(rows, label) is None


def test_the_weights_vary_as_much_as_the_score_of_the_products() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((200_000, 4)) @ rng.standard_normal((4, 4))
    rows -= rows.mean(axis=0)
    energies, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    along = (vectors / np.sqrt(energies))[:, :2]
    weights = rng.standard_normal((3, 2))
    varied = (products(rows, along) @ weights).var(axis=0).sum()
    assert (rows @ curved_weights(rows, along, weights)).var(axis=0).sum() == pytest.approx(varied, rel=0.02)
