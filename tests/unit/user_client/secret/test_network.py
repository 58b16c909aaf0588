"""Layers whose small products are computed by one thread, some rows at a time."""

from __future__ import annotations

import numpy as np
import pytest

from user_client.secret.network import ONE_THREAD, SMALL, forward, loss_and_gradients


@pytest.mark.parametrize(
    ("rows", "inputs", "hidden"),
    [(1, 1, 1), (200, 12, 256), (200, 5, 256), (ONE_THREAD // 512 + 1, 2, 256), (SMALL // 640 + 7, 10, 64)],
)
def test_outputs_and_gradients_are_those_of_whole_products(rows: int, inputs: int, hidden: int) -> None:
    rng = np.random.default_rng(0)
    weights, shifts = rng.standard_normal((inputs, hidden)), rng.standard_normal(hidden)
    last, last_shifts = rng.standard_normal((hidden, 3)), rng.standard_normal(3)
    x, y = rng.standard_normal((rows, inputs)), rng.standard_normal((rows, 3))
    layers = [(weights, shifts), (last, last_shifts)]

    middle = np.maximum(x @ weights + shifts, 0)
    outputs = middle @ last + last_shifts
    slope = (outputs - y) / rows
    before = (slope @ last.T) * (middle > 0)
    np.testing.assert_allclose(forward(layers, x)[-1], outputs, rtol=1e-12, atol=1e-12)
    _, ((first, _), (second, _)) = loss_and_gradients(layers, x, y, 0.0, of_numbers=True)
    np.testing.assert_allclose(first, x.T @ before, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(second, middle.T @ slope, rtol=1e-9, atol=1e-12)


def test_numbers_stay_single_where_they_are() -> None:
    ones = [(np.ones((20, 256), np.float32), np.ones(256, np.float32))]
    assert forward(ones, np.ones((200, 20), np.float32))[-1].dtype == np.float32
