"""Nearest neighbours: against their definition, and the ONNX file where many rows are equally far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyst_server.training.knn import Knn, NeighboursClassifier, NeighboursRegressor
from analyst_server.training.models import fit, fit_task
from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap
from analyst_server.training.tasks import Numbers
from tests.harness.problems import blobs, haar, numbers


def slowly(rows: Any, targets: Any, new: Any, neighbours: int) -> Any:
    """The definition, row by row; all rows differ."""
    found = []
    for row in new:
        squares = ((rows - row) ** 2).sum(axis=1)
        nearest = np.argsort(squares)[: neighbours + 1]
        weights = 1 - squares[nearest] / squares[nearest[-1]]
        found.append(weights @ targets[nearest] / weights.sum())
    return np.array(found)


@pytest.mark.parametrize("neighbours", [2, 7, 40])
def test_an_answer_is_the_mean_by_the_definition(neighbours: int) -> None:
    rows, labels = blobs(3, rows=200)
    new = rows[:50] + 0.3
    found = NeighboursClassifier(neighbours).fit(rows, labels).predict_proba(new)
    # rows are kept to 16 bits, and a weight is at least a millionth
    np.testing.assert_allclose(found, slowly(rows, np.eye(3)[labels], new, neighbours), atol=1e-3)
    rows, aims = numbers(rows=200)
    found = NeighboursRegressor(neighbours).fit(rows, aims).predict(rows[:50] + 0.3)
    np.testing.assert_allclose(found, slowly(rows, aims, rows[:50] + 0.3, neighbours), atol=1e-3)


def tied(kind: str) -> Any:
    """Rows of which many are equally far, as tables with few values give them."""
    rng = np.random.default_rng(0)
    if kind == "rounded":
        return np.round(3 * rng.standard_normal((600, 4)))
    binary = rng.integers(0, 2, (600, 6)) @ haar(6, rng)[:, :5]
    # the same person at two institutions: equal but for rounding
    return binary * (1 + 1e-7 * rng.standard_normal((600, 1))) if kind == "rounding apart" else binary


@pytest.mark.parametrize("kind", ["rounded", "binary", "rounding apart"])
def test_the_file_says_the_same_where_rows_are_equally_far(kind: str) -> None:
    """The neighbours of scikit-learn differ by 0.1 in a fifth of these rows."""
    rows = tied(kind).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 2, len(rows))
    fitted = fit(Knn(), rows, labels, 2)
    assert parity_gap(fitted, export(fitted, rows.shape[1]), rows) < PARITY_TOLERANCE / 10
    of_numbers = fit_task(Knn(), rows, labels + 0.5 * rows[:, 0], Numbers())
    assert parity_gap(of_numbers, export(of_numbers, rows.shape[1]), rows) < PARITY_TOLERANCE / 10


def test_copies_of_a_row_answer_with_the_mean_of_their_labels() -> None:
    rows, labels = np.ones((30, 4), np.float32), np.arange(30) % 3
    fitted = fit(Knn(), rows, labels, 3)
    np.testing.assert_allclose(fitted.predictions(rows[:1]), 1 / 3)
    assert fitted.parameters == 4 + (3 + 1) + 2 * 4  # one row, its sums, shift and scale


def test_a_row_far_from_all_others_has_an_answer_too() -> None:
    rows, labels = blobs(2)
    far = fit(Knn(), rows, labels, 2).predictions(np.full((1, 5), 1e6, np.float32))
    np.testing.assert_allclose(far.sum(axis=1), 1)
