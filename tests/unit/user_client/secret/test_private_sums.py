"""Sums with noise: what one row can move, and what the noise leaves of what follows from other sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.labels import Label, NumberLabel
from protocol.sums_noise import sensitivity
from tests.harness.problems import stream
from user_client.secret.private_sums import PrivateSums, private_sums

BITS = 10
ONE = 2.0 ** (2 * BITS)
FEATURES, CLASSES = 4, 3


def whole(found: PrivateSums, order: int) -> np.ndarray:
    """Return the symmetric matrix, in units of rows of length 1."""
    matrix = np.zeros((order, order))
    matrix[np.triu_indices(order)] = found.numbers / ONE
    return np.asarray(matrix + np.triu(matrix, 1).T)


def summed(rows: Any, labels: Any, outputs: int, *, clip: float = 1.0, seed: int = 0) -> PrivateSums:
    return private_sums(
        np.asarray(rows, np.float64),
        np.asarray(labels),
        lambda part: part.copy(),
        outputs,
        clip=clip,
        bits=BITS,
        deviation=1.0,
        source=stream(seed),
    )


def of_their_own(order: int, outputs: int) -> np.ndarray:
    """Which of the triangle's numbers have noise that follows from no other."""
    if outputs == 1:
        return np.ones(order * (order + 1) // 2, bool)
    own = np.zeros((order, order), bool)
    first = order - outputs
    own[1:first, 1:] = own[0, first:] = True
    return own[np.triu_indices(order)]


vectors = st.lists(st.floats(-1e3, 1e3), min_size=FEATURES, max_size=FEATURES)


@given(row=vectors, label=st.integers(0, CLASSES - 1), clip=st.floats(1e-3, 1e3))
def test_a_row_moves_sums_of_classes_by_no_more_than_the_sensitivity(
    row: list[float], label: int, clip: float
) -> None:
    rest = np.ones((3, FEATURES))
    one = summed([*rest, row], [0, 1, 2, label], CLASSES, clip=clip).numbers
    other = summed(rest, [0, 1, 2], CLASSES, clip=clip).numbers
    moved = (one - other)[of_their_own(1 + FEATURES + CLASSES, CLASSES)] / ONE
    bound = sensitivity(Label(name="y", classes=("a", "b", "c")))
    assert np.linalg.norm(moved) <= bound


@given(row=vectors, label=st.floats(-1, 1), clip=st.floats(1e-3, 1e3))
def test_a_row_moves_sums_of_a_number_by_no_more_than_the_sensitivity(
    row: list[float], label: float, clip: float
) -> None:
    rest = np.ones((3, FEATURES))
    one = summed([*rest, row], [0.0, 0.5, 1.0, label], 1, clip=clip).numbers
    other = summed(rest, [0.0, 0.5, 1.0], 1, clip=clip).numbers
    bound = sensitivity(NumberLabel(name="y", low=0, high=1))
    assert np.linalg.norm((one - other) / ONE) <= bound


def test_the_sensitivity_is_reached() -> None:
    row = [[1.0, 0, 0, 0]]
    rest = np.zeros((1, FEATURES))
    moved = summed([*rest, *row], [0, 1], CLASSES).numbers - summed(rest, [0], CLASSES).numbers
    own = moved[of_their_own(1 + FEATURES + CLASSES, CLASSES)] / ONE
    assert np.linalg.norm(own) == pytest.approx(np.sqrt(3), rel=1e-2)


def test_what_follows_from_other_sums_follows_with_the_noise_as_well() -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.uniform(-1, 1, (50, FEATURES)), rng.integers(0, CLASSES, 50)
    found = whole(summed(rows, labels, CLASSES, clip=2.0), 1 + FEATURES + CLASSES)
    by_class, counts = found[1 : 1 + FEATURES, 1 + FEATURES :], found[0, 1 + FEATURES :]
    np.testing.assert_allclose(found[0, 1 : 1 + FEATURES], by_class.sum(axis=1))
    np.testing.assert_allclose(found[1 + FEATURES :, 1 + FEATURES :], np.diag(counts))
    assert found[0, 0] == pytest.approx(counts.sum())
    np.testing.assert_allclose(counts, np.bincount(labels, minlength=CLASSES), atol=6)
    assert np.all(counts != np.bincount(labels, minlength=CLASSES))


@pytest.mark.parametrize("outputs", [1, CLASSES])
def test_every_number_of_its_own_has_noise_of_the_stated_deviation(outputs: int) -> None:
    labels = np.zeros(3, int) if outputs > 1 else np.zeros(3)
    order = 1 + FEATURES + outputs
    own = of_their_own(order, outputs)
    noised = [summed(np.zeros((3, FEATURES)), labels, outputs, seed=seed).numbers for seed in range(400)]
    drawn = np.array(noised)[:, own] / ONE
    drawn = drawn - np.median(drawn, axis=0)
    assert np.std(drawn) == pytest.approx(1, rel=0.05)
    correlations = np.corrcoef(drawn.T) - np.eye(drawn.shape[1])
    assert np.abs(correlations).max() < 0.3


def test_rows_that_are_too_long_are_counted_and_others_left_as_they_are() -> None:
    rows = np.array([[0.5, 0, 0, 0], [3.0, 4.0, 0, 0], [0, 0, 1.0, 0]])
    found = summed(rows, [0, 1, 2], CLASSES)
    assert found.clipped_rows == 1
    noise = summed(np.zeros((3, FEATURES)), [0, 1, 2], CLASSES)
    squares = np.diagonal(whole(found, 8) - whole(noise, 8))[1:5]
    np.testing.assert_allclose(squares, [0.25 + 0.36, 0.64, 1, 0], atol=0.01)


def test_nothing_can_be_summed_without_rows() -> None:
    with pytest.raises(ValueError, match="no rows"):
        summed(np.zeros((0, FEATURES)), np.zeros(0, int), CLASSES)
