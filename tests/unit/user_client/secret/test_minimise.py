from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from user_client.secret.expansion import Matrix64
from user_client.secret.minimise import minimise


def rosenbrock(point: Matrix64) -> tuple[float, Matrix64]:
    return float(rosen(point)), np.asarray(rosen_der(point))


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_minimum_of_a_curved_valley_is_found(size: int) -> None:
    start = np.random.default_rng(size).uniform(0, 2, size)
    found = minimise(rosenbrock, start, iterations=500)
    np.testing.assert_allclose(found, np.ones(size), rtol=0, atol=1e-3)


@pytest.mark.parametrize("condition", [1, 1e2, 1e4])
def test_a_quadratic_form_is_solved(condition: float) -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    hessian = (turn * np.geomspace(1, condition, 30)) @ turn.T
    target = rng.standard_normal(30)

    def loss(point: Matrix64) -> tuple[float, Matrix64]:
        missed = point - target
        return float(missed @ hessian @ missed / 2), hessian @ missed

    found = minimise(loss, np.zeros(30), iterations=1000)
    np.testing.assert_allclose(found, target, rtol=0, atol=1e-3)


def test_a_logistic_regression_ends_where_scipy_ends() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 12))
    labels = np.sign(rows @ rng.standard_normal(12) + rng.standard_normal(300))

    def loss(weights: Matrix64) -> tuple[float, Matrix64]:
        margins = labels * (rows @ weights)
        share = 1 / (1 + np.exp(margins))
        value = np.logaddexp(0, -margins).mean() + 1e-3 * weights @ weights
        return float(value), -(labels * share) @ rows / len(rows) + 2e-3 * weights

    start = np.zeros(12)
    expected = minimize(loss, start, jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(minimise(loss, start, iterations=150), expected.x, rtol=0, atol=1e-3)
    np.testing.assert_array_equal(start, 0)


def test_no_more_steps_are_taken_than_allowed() -> None:
    start = np.array([-1.2, 1.0])
    np.testing.assert_array_equal(minimise(rosenbrock, start, iterations=0), start)
    assert rosen(minimise(rosenbrock, start, iterations=3)) < rosen(start)


def test_a_descent_without_a_minimum_still_ends() -> None:
    def loss(point: Matrix64) -> tuple[float, Matrix64]:
        return -float(point.sum()), -np.ones_like(point)

    assert np.isfinite(minimise(loss, np.zeros(3), iterations=50)).all()


def test_a_loss_that_only_grows_leaves_the_start() -> None:
    def wrong(point: Matrix64) -> tuple[float, Matrix64]:
        return float(point @ point), -np.ones_like(point)

    np.testing.assert_array_equal(minimise(wrong, np.zeros(3), iterations=50), np.zeros(3))
