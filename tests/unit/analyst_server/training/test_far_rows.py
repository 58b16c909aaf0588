from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyst_server.training.far_rows import FAR, bring_nearer
from analyst_server.training.logistic import Logistic
from analyst_server.training.models import fit

Matrix = np.ndarray[Any, Any]


def drawn(seed: int, count: int = 300, latent_dim: int = 6) -> tuple[Matrix, Matrix]:
    """Return rows of two classes that a plane tells apart, and the classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    rows = rng.standard_normal((count, latent_dim))
    rows[:, 0] += 4 * labels - 2
    return rows, labels


def with_wild(rows: Matrix, labels: Matrix, count: int, length: float) -> tuple[Matrix, Matrix]:
    """Add rows far along one class, with the label of the other."""
    wild = np.zeros((count, rows.shape[1]))
    wild[:, 0] = length
    return np.vstack([rows, wild]), np.concatenate([labels, np.zeros(count, labels.dtype)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("count", "length"), [(1, 300.0), (5, 100.0), (20, 30.0)])
def test_a_few_wild_rows_do_not_decide_a_fit(seed: int, count: int, length: float) -> None:
    rows, labels = drawn(seed)
    test, truth = drawn(seed + 100)
    spoiled, given = with_wild(rows, labels, count, length)
    before = fit(Logistic(), spoiled, given, 2)
    assert bring_nearer(spoiled)[-count:].all()
    after = fit(Logistic(), spoiled, given, 2)

    def right(model: Any) -> float:
        return float((model.predictions(test).argmax(axis=1) == truth).mean())

    assert right(before) < 0.6
    assert right(after) > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_rows_like_each_other_stay_as_they_are(seed: int) -> None:
    rows, _ = drawn(seed)
    before = rows.copy()
    assert not bring_nearer(rows).any()
    np.testing.assert_array_equal(rows, before)


def test_a_far_row_keeps_its_direction_from_the_centre() -> None:
    rows, _ = drawn(0)
    rows[7] = 100 * rows[7]
    before = rows[7].copy()
    (number,) = np.flatnonzero(bring_nearer(rows))
    assert number == 7
    centre = np.delete(rows, 7, axis=0).mean(axis=0)
    one, other = before - centre, rows[7] - centre
    assert one @ other == pytest.approx(np.linalg.norm(one) * np.linalg.norm(other))
    distances = np.linalg.norm(np.delete(rows, 7, axis=0) - centre, axis=1)
    assert np.linalg.norm(other) == pytest.approx(FAR * np.quantile(distances, 0.9), rel=0.02)


def test_a_turn_of_the_rows_turns_the_result() -> None:
    rows, _ = drawn(0)
    rows[:4] *= 50
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    turned = rows @ turn
    bring_nearer(rows)
    bring_nearer(turned)
    np.testing.assert_allclose(turned, rows @ turn, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_nearly_all_rows_are_the_same_none_is_far(dtype: Any) -> None:
    rows = np.full((100, 3), 0.7, dtype)
    rows[:8] = 1.4
    before = rows.copy()
    assert not bring_nearer(rows).any()
    np.testing.assert_array_equal(rows, before)


def test_no_rows_are_no_far_rows() -> None:
    assert bring_nearer(np.empty((0, 3))).shape == (0,)
