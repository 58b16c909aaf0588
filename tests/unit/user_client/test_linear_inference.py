"""The intervals of a linear model, beside their definitions and beside what happens over many samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from user_client.linear_inference import (
    covariance,
    information_of_classes,
    information_of_numbers,
    information_of_survival,
    penalty_of_classes,
)

Matrix = NDArray[np.float64]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def with_ones(rows: Matrix) -> Matrix:
    return np.column_stack([np.ones(len(rows)), rows])


def second_derivative(loss: Callable[[Matrix], float], at: Matrix) -> Matrix:
    """The numeric second derivative of a function of a vector."""
    step, size = 1e-4, len(at)
    found = np.empty((size, size))
    for i, j in np.ndindex(size, size):
        a, b = step * np.eye(size)[i], step * np.eye(size)[j]
        corners = loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b)
        found[i, j] = corners / (4 * step**2)
    return found


def test_the_information_of_classes_is_the_curvature_of_the_likelihood(rng: np.random.Generator) -> None:
    rows, weights = with_ones(rng.standard_normal((50, 2))), np.array([0.3, 1.0, -0.5])
    positive = 1 / (1 + np.exp(-rows @ weights))
    labels = rng.random(50) < positive

    def loss(at: Matrix) -> float:
        scores = rows @ at
        return float(np.mean(np.logaddexp(0, scores) - labels * scores))

    np.testing.assert_allclose(
        information_of_classes(rows, positive[:, None]), second_derivative(loss, weights), atol=1e-6
    )


def test_the_information_of_three_classes_is_the_curvature_of_the_likelihood(
    rng: np.random.Generator,
) -> None:
    rows = with_ones(rng.standard_normal((60, 2)))
    weights = np.array([0.3, 1.0, -0.5, -0.2, 0.4, 0.9])  # of the second and the third against the first

    def scores(at: Matrix) -> Matrix:
        return np.column_stack([np.zeros(60), rows @ at[:3], rows @ at[3:]])

    shares = np.exp(scores(weights)) / np.exp(scores(weights)).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=share) for share in shares])

    def loss(at: Matrix) -> float:
        found = scores(at)
        return float(np.mean(np.log(np.exp(found).sum(axis=1)) - found[np.arange(60), labels]))

    np.testing.assert_allclose(
        information_of_classes(rows, shares[:, 1:]), second_derivative(loss, weights), atol=1e-6
    )


def test_the_penalty_of_three_classes_is_the_least_that_their_differences_allow(
    rng: np.random.Generator,
) -> None:
    """Found by the search for the weights of the first class that cost least."""
    strength, differences = np.array([0.0, 2.0, 2.0]), rng.standard_normal((2, 3))

    def cost(first: Matrix, at: Matrix) -> float:
        each = np.vstack([first, at.reshape(2, 3) + first])
        return float((strength * each**2).sum() / 2)

    def least(at: Matrix) -> float:
        return cost(-at.reshape(2, 3).sum(axis=0) / 3, at)

    best, flat = least(differences.ravel()), differences.ravel()
    assert all(cost(rng.standard_normal(3), flat) > best for _ in range(100))
    np.testing.assert_allclose(penalty_of_classes(strength, 2), second_derivative(least, flat), atol=1e-6)


@pytest.mark.parametrize("ties", [False, True])
def test_the_information_of_survival_is_the_curvature_of_the_partial_likelihood(
    ties: bool, rng: np.random.Generator
) -> None:
    rows, weights = rng.standard_normal((40, 2)), np.array([0.8, -0.4])
    times = rng.exponential(np.exp(-rows @ weights)) / 20 + 0.01
    if ties:
        times = np.ceil(times * 50) / 50
    labels = np.where(rng.random(40) < 0.7, times, -times)

    def loss(at: Matrix) -> float:  # by definition, event by event
        scores, value = rows @ at, 0.0
        for row in np.flatnonzero(labels > 0):
            value += float(np.log(np.exp(scores[times >= times[row]]).sum()) - scores[row])
        return value / len(rows)

    found = information_of_survival(rows, rows @ weights, labels)
    np.testing.assert_allclose(found, second_derivative(loss, weights), atol=1e-5)


def test_ninety_five_of_a_hundred_intervals_of_least_squares_hold_the_truth(rng: np.random.Generator) -> None:
    truth, held = np.array([0.5, 2.0, -1.0]), 0
    for _ in range(400):
        rows = with_ones(rng.standard_normal((100, 2)))
        numbers = rows @ truth + rng.standard_normal(100)
        fitted = np.linalg.lstsq(rows, numbers)[0]
        own = rows[:50]  # an institution sees half of the rows
        information = information_of_numbers(own, own @ fitted - numbers[:50])
        error = np.sqrt(np.diag(covariance(information, 100, np.zeros((3, 3)))))
        held += int(abs(fitted[1] - truth[1]) < 1.96 * error[1])
    assert 0.91 < held / 400 < 0.98


def test_a_penalty_makes_the_weights_vary_less(rng: np.random.Generator) -> None:
    rows = with_ones(rng.standard_normal((50, 2)))
    information = information_of_numbers(rows, rng.standard_normal(50))
    free, drawn = (np.diag(covariance(information, 50, np.diag(np.full(3, each)))) for each in (0.0, 100.0))
    assert (drawn < free / 4).all()


def test_directions_without_rows_have_no_weight_and_no_error(rng: np.random.Generator) -> None:
    rows = np.column_stack([np.ones(50), np.zeros(50)])
    found = covariance(information_of_numbers(rows, rng.standard_normal(50)), 50, np.zeros((2, 2)))
    assert found[1, 1] == 0
