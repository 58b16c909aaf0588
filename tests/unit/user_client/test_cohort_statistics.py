"""What a total tells of all rows, beside the same of the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ortho_group
from scipy.stats import t as student

from user_client.cohort_statistics import Moments, least_squares, principal_components, student_95

Matrix = NDArray[np.float64]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def moments_of(rows: Matrix, labels: Matrix, *, rounding: float = 0.0) -> Moments:
    """Return the moments from a total in turned coordinates, as an institution gets it."""
    turn = ortho_group.rvs(rows.shape[1], random_state=1)
    z = np.hstack([np.ones((len(rows), 1)), rows @ turn, labels])
    return Moments.of(z.T @ z, turn, rows.shape[1], rounding)


def test_means_deviations_and_correlations_are_those_of_the_rows(rng: np.random.Generator) -> None:
    rows, labels = rng.standard_normal((50, 4)) + np.arange(4), rng.standard_normal((50, 2))
    found, numbers = moments_of(rows, labels), np.hstack([rows, labels])
    assert found.rows == 50
    np.testing.assert_allclose(found.means, numbers.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.deviations(), numbers.std(axis=0, ddof=1), atol=1e-12)
    np.testing.assert_allclose(found.correlations(), np.corrcoef(numbers.T), atol=1e-12)


def test_features_behind_the_columns_are_left_out(rng: np.random.Generator) -> None:
    rows, labels = rng.standard_normal((50, 4)), rng.standard_normal((50, 1))
    turn = ortho_group.rvs(4, random_state=1)
    z = np.hstack([np.ones((50, 1)), rows @ turn, labels])
    found = Moments.of(z.T @ z, turn, 2, 0.0)
    np.testing.assert_allclose(found.means, np.hstack([rows[:, :2], labels]).mean(axis=0), atol=1e-12)


def test_a_number_that_is_the_same_in_all_rows_has_no_correlation(rng: np.random.Generator) -> None:
    rows = np.column_stack([rng.standard_normal(50), np.full(50, 0.3)])
    found = moments_of(rows, rng.standard_normal((50, 1)), rounding=1e-10)
    assert found.deviations()[1] == 0
    assert np.isnan(found.correlations()[1]).all()
    shares, directions = principal_components(found.correlations()[:2, :2])
    np.testing.assert_allclose(shares, [1.0])
    np.testing.assert_allclose(directions, [[1.0, 0.0]])


def test_components_are_those_of_the_standardised_rows(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((80, 4)) @ rng.standard_normal((4, 4))
    standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    _, lengths, expected = np.linalg.svd(standardised, full_matrices=False)
    shares, directions = principal_components(np.asarray(np.corrcoef(rows.T)))
    np.testing.assert_allclose(shares, lengths**2 / np.sum(lengths**2), atol=1e-12)
    np.testing.assert_allclose(np.abs(directions), np.abs(expected), atol=1e-9)
    assert (directions[np.arange(4), np.abs(directions).argmax(axis=1)] > 0).all()


def test_least_squares_are_those_of_the_rows(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((60, 3))
    numbers = rows @ [1.0, -2.0, 0.0] + 4 + rng.standard_normal(60)
    ones = np.column_stack([np.ones(60), rows])
    weights, (residual,), *_ = np.linalg.lstsq(ones, numbers)
    errors = np.sqrt(np.diag(np.linalg.inv(ones.T @ ones)) * residual / 56)
    found = least_squares(moments_of(rows, numbers[:, None]), np.eye(3))
    np.testing.assert_allclose(found.values, weights[1:], atol=1e-12)
    np.testing.assert_allclose(found.errors, errors[1:], atol=1e-12)
    assert found.r_squared == pytest.approx(1 - residual / np.sum((numbers - numbers.mean()) ** 2))
    assert found.deviation == pytest.approx((residual / 56) ** 0.5)
    assert found.freedom == 56
    assert found.quantile == pytest.approx(student.ppf(0.975, 56), abs=1e-6)


def test_levels_that_add_up_have_differences_and_no_coefficients(rng: np.random.Generator) -> None:
    levels = np.eye(3)[rng.integers(0, 3, 90)]
    rows = np.column_stack([levels, np.zeros(90)])  # and one that no row has
    numbers = levels @ [1.0, 2.0, 4.0] + 0.1 * rng.standard_normal(90)
    contrasts = np.array([[-1.0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    found = least_squares(moments_of(rows, numbers[:, None], rounding=1e-10), contrasts)
    third, first = (numbers[levels[:, level] == 1].mean() for level in (2, 0))
    assert found.values[0] == pytest.approx(third - first)
    assert np.isnan(found.values[1:]).all()
    assert np.isnan(found.errors[1:]).all()
    assert found.freedom == 87, "of an intercept and two differences"


def test_ninety_five_of_a_hundred_intervals_hold_the_truth(rng: np.random.Generator) -> None:
    held = 0
    for _ in range(1000):
        rows = rng.standard_normal((8, 2))  # so few that Student's distribution is not the normal one
        numbers = rows @ [2.0, -1.0] + rng.standard_normal(8)
        found = least_squares(moments_of(rows, numbers[:, None]), np.eye(2))
        held += int(abs(found.values[0] - 2.0) < found.quantile * found.errors[0])
    assert 0.93 < held / 1000 < 0.97


def test_what_cannot_be_fitted_is_refused_with_the_reason(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((4, 3))
    with pytest.raises(ValueError, match="4 rows are too few for 4 coefficients"):
        least_squares(moments_of(rows, rng.standard_normal((4, 1))), np.eye(3))
    with pytest.raises(ValueError, match="the same in all rows"):
        least_squares(moments_of(rng.standard_normal((9, 3)), np.ones((9, 1))), np.eye(3))


def test_roundings_of_many_institutions_do_not_show_in_coefficients(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((600, 3)) @ np.diag([1.0, 1.0, 0.01])
    numbers = (rows @ [1.0, -2.0, 3.0] + rng.standard_normal(600))[:, None]
    z, turn = np.hstack([np.ones((600, 1)), rows, numbers]), np.eye(3)
    exact, unit = least_squares(Moments.of(z.T @ z, turn, 3, 0.0), np.eye(3)), 2.0**-29
    parts = [np.rint(part.T @ part / unit) * unit for part in np.array_split(z, 256)]
    found = least_squares(Moments.of(np.sum(parts, axis=0), turn, 3, 256 * unit / 2), np.eye(3))
    assert (np.abs(found.values - exact.values) < 1e-5 * exact.errors).all()
    np.testing.assert_allclose(found.errors, exact.errors, rtol=1e-5)


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 100, 1000, 1001, 10**6])
def test_students_distribution_has_six_digits(freedom: int) -> None:
    assert student_95(freedom) == pytest.approx(student.ppf(0.975, freedom), rel=1e-5)
