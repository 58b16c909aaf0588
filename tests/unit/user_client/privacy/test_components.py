"""Planted 0/1 columns are found and named without any key; normal numbers give none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.privacy import components
from user_client.privacy.components import (
    BlindFindings,
    best_splits,
    find_splits,
    name_splits,
    search_blindly,
    shares_by_class,
    two_valued,
)
from user_client.secret.expansion import haar

ROWS = 240
SHARES = (0.5, 0.35, 0.25, 0.15, 0.08)


def planted(seed: int, noise: float = 0.0) -> tuple[Any, Any, NDArray[np.int64]]:
    """Return a turned representation, its rows with five 0/1 columns and three of numbers, and labels."""
    rng = np.random.default_rng(seed)
    binary = (rng.random((ROWS, len(SHARES))) < SHARES).astype(float)
    rows = np.hstack([binary, 0.4 * rng.standard_normal((ROWS, 3))])
    rep = rows @ haar(rng.bytes, rows.shape[1])
    labels = (rng.random(ROWS) < 0.2 + 0.5 * binary[:, 0]).astype(np.int64)
    return rep + noise * rep.std(axis=0) * rng.standard_normal(rep.shape), rows, labels


def attacked(rep: Any, rows: Any, labels: NDArray[np.int64]) -> BlindFindings | None:
    """Attack with time enough on any machine, and with the shares of these rows."""
    published = shares_by_class(two_valued(rows)[1], labels, 2)
    return search_blindly(rep, rows, labels, published, rng=np.random.default_rng(0), budget_s=600)


@pytest.mark.parametrize("seed", range(2))
def test_planted_columns_are_found_and_named(seed: int) -> None:
    rep, rows, labels = planted(seed)
    found = attacked(rep, rows, labels)
    assert found is not None
    assert found.features == len(SHARES)
    assert found.recovered == (0, 1, 2, 3, 4)
    assert found.named == (0, 1, 2, 3, 4)
    assert found.misnamed == 0
    assert found.complete


def test_a_little_noise_does_not_hide_them() -> None:
    rep, rows, labels = planted(0, noise=0.15)
    found = attacked(rep, rows, labels)
    assert found is not None
    assert len(found.recovered) >= 3


def test_noise_as_large_as_the_rows_hides_them() -> None:
    rep, rows, labels = planted(0, noise=1.0)
    found = attacked(rep, rows, labels)
    assert found is not None
    assert found.recovered == ()


@pytest.mark.parametrize("shape", [(150, 12), (100, 20)])
def test_normal_numbers_give_no_split(shape: tuple[int, int]) -> None:
    rep = np.random.default_rng(7).standard_normal(shape)
    splits, _ = find_splits(rep, rng=np.random.default_rng(0))
    assert splits.shape == (shape[0], 0)


def test_a_feature_with_one_rare_row_is_not_recovered_by_a_constant() -> None:
    truth = np.zeros((200, 1), dtype=bool)
    truth[0] = True
    constant = np.zeros((200, 1), dtype=bool)
    assert not components.agreement(constant, truth).any()
    assert components.agreement(~truth, truth).all()


def test_two_valued_features_need_not_be_zero_and_one() -> None:
    rows = np.array([[0.0, -0.3, 5.0], [1.0, 0.7, 5.0], [2.0, -0.3, 5.0]])
    features, values = two_valued(rows)
    assert features.tolist() == [1]
    assert values[:, 0].tolist() == [False, True, False]


def test_the_best_split_leaves_least_variance_inside() -> None:
    column = np.array([0.0, 0.1, 0.2, 5.0, 5.1])
    splits, separation = best_splits(column[:, None])
    assert splits[:, 0].tolist() == [False, False, False, True, True]
    inside = 3 * np.var(column[:3]) + 2 * np.var(column[3:])
    assert separation[0] == pytest.approx(1 - inside / (5 * np.var(column)))


def test_a_split_is_named_whichever_cluster_is_the_upper_one() -> None:
    labels = np.repeat([0, 1], 100)
    first = np.arange(200) % 10 < 3
    splits = np.stack([~first, np.arange(200) % 2 == 0], axis=1)
    published = np.array([[0.5, 0.3], [0.5, 0.3]])
    assert sorted(name_splits(splits, np.ones(2), labels, published)) == [(0, 1), (1, 0)]


def test_too_few_rows_tell_nothing() -> None:
    rep, rows, labels = planted(0)
    few = slice(0, 15)
    assert attacked(rep[few], rows[few], labels[few]) is None


def test_without_scikit_learn_the_search_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "can_search", lambda: False)
    rep, rows, labels = planted(0)
    assert attacked(rep, rows, labels) is None


def test_a_search_that_had_no_time_says_so() -> None:
    rep, rows, labels = planted(0)
    published = shares_by_class(two_valued(rows)[1], labels, 2)
    found = search_blindly(rep, rows, labels, published, rng=np.random.default_rng(0), budget_s=0)
    assert found is not None
    assert not found.complete
