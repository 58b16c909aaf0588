from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from user_client.scores import FEWEST_OF_A_CLASS
from user_client.secret import signal
from user_client.secret.basis import draw_secret_basis, principal_axes
from user_client.secret.signal import OwnScore, dimensions_of_variance
from user_client.secret.targets import targets_of

Rows = NDArray[np.float64]


def own_score(rows: Rows, labels: NDArray[Any], *, are_bits: bool = False) -> OwnScore | None:
    return signal.score_of(rows, targets_of(labels, are_bits=are_bits))


def rows_with_label_along(axis: int, count: int = 600, features: int = 12) -> tuple[Rows, Rows]:
    """Return rows whose principal axes are the unit vectors, with a label that follows one of them."""
    rng = np.random.default_rng(axis)
    rows = rng.standard_normal((count, features)) * np.geomspace(4, 0.25, features)
    return rows, (rows[:, axis] > 0).astype(int)


def score_of(rows: Rows, labels: Rows) -> OwnScore:
    """Return the score of rows that have one."""
    score = own_score(rows, labels)
    assert score is not None
    return score


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_a_projection_without_the_labels_direction_keeps_nothing(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    with_it, without = np.eye(12)[:, : axis + 1], np.delete(np.eye(12), axis, axis=1)
    score = score_of(rows, labels)
    kept, lost = score.along(with_it), score.along(without)
    assert kept.kept > 0.95
    assert lost.kept < 0.05
    assert kept.projected_auc > 0.95
    assert lost.projected_auc < 0.65 < 0.95 < lost.auc


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_as_many_dimensions_are_proposed_as_the_label_needs(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    assert score_of(rows, labels).dimensions(principal_axes(rows)[1], 0.9) == axis + 1


def test_most_of_the_squares_is_not_most_of_the_signal() -> None:
    """The rule by variance would take eleven of twelve dimensions and lose the label."""
    rows, labels = rows_with_label_along(11)
    singular_values, axes = principal_axes(rows)
    assert dimensions_of_variance(singular_values, 0.99) < 12
    assert score_of(rows, labels).dimensions(axes, 0.95) == 12


def test_the_proposed_dimension_keeps_what_was_asked_for_and_one_less_does_not() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    score, axes = score_of(rows, labels), principal_axes(rows)[1]
    count = score.dimensions(axes, 0.98)
    enough, less = (score.along(axes[:, :number]) for number in (count, count - 1))
    assert enough.kept >= 0.98 - 1e-9 > less.kept


def test_everything_is_kept_by_a_basis_of_the_whole_space() -> None:
    rows, labels = rows_with_label_along(3)
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
    found = score_of(rows, labels).along(turned)
    assert found.kept == pytest.approx(1)
    assert found.auc == pytest.approx(found.projected_auc)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_say_nothing_about_the_label_cannot_tell(seed: int) -> None:
    """Though a label can be fitted with so many features: each row is scored without itself."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((4000, 200)), rng.integers(0, 2, 4000)
    assert own_score(rows, labels) is None


def test_the_left_out_scores_are_those_of_one_fit_per_row() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = ((rows - rows.mean(axis=0)) / rows.std(axis=0))[::5]
    labels = labels[::5]
    found = score_of(rows, labels)
    aucs = [
        roc_auc_score(labels, cross_val_predict(Ridge(penalty), rows, labels, cv=LeaveOneOut()))
        for penalty in np.geomspace(1e-4, 1e3, 15) * len(rows)
    ]
    assert min(np.abs(np.array(aucs) - found.auc)) < 5e-3


@pytest.mark.parametrize("labels", [[0] * 20, [0] * 16 + [1] * (FEWEST_OF_A_CLASS - 1), []])
def test_rows_of_one_class_or_too_few_of_another_cannot_tell(labels: list[int]) -> None:
    rows = np.random.default_rng(0).standard_normal((len(labels), 6))
    assert own_score(rows, np.array(labels, dtype=int)) is None


def wide() -> tuple[Rows, Rows]:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 200)) * np.geomspace(10, 0.1, 200)
    return rows, (rows[:, 0] > 0).astype(int)


def test_more_features_than_rows_are_no_obstacle() -> None:
    rows, labels = wide()
    score, axes = score_of(rows, labels), principal_axes(rows)[1]
    count = score.dimensions(axes, 0.95)
    assert 1 <= count <= 40
    assert score.along(axes[:, :count]).kept >= 0.95
    assert score.along(axes[:, : count - 1]).kept < 0.95
    missing = score.missing_from(axes, 3, 0.95)
    basis = draw_secret_basis(rows, 3, np.random.default_rng(0).bytes, include=missing)
    assert score.along(basis).kept == pytest.approx(1)


def test_a_wide_table_gets_the_score_of_a_regression_on_all_features() -> None:
    """Which the fit does not do: its cost is that of the smaller side."""
    rows, labels = wide()
    score, centred = score_of(rows, labels), rows - rows.mean(axis=0)
    targets = np.stack([labels == 0, labels == 1], axis=1) - np.stack(
        [labels == 0, labels == 1], axis=1
    ).mean(axis=0)
    scores = [
        Ridge(penalty, fit_intercept=False).fit(centred, targets).predict(centred)
        for penalty in np.geomspace(1e-4, 1e3, 15) * np.square(centred).sum() / 40
    ]
    found = score.rows @ score.weights
    assert min(np.abs(one - found).max() for one in scores) < 1e-8


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_a_basis_with_the_scores_directions_keeps_it_in_few_dimensions(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    score = score_of(rows, labels)
    directions = score.missing_from(principal_axes(rows)[1], 3, 0.95)
    assert directions.shape == (12, 1)
    basis = draw_secret_basis(rows, 3, np.random.default_rng(0).bytes, include=directions)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    found = score.along(basis)
    assert found.kept == pytest.approx(1)
    assert found.projected_auc > 0.95


def test_the_rest_of_that_basis_is_of_the_leading_axes() -> None:
    rows, labels = rows_with_label_along(11)
    axes = principal_axes(rows)[1]
    directions = score_of(rows, labels).missing_from(axes, 3, 0.95)
    basis = draw_secret_basis(rows, 3, np.random.default_rng(0).bytes, include=directions)
    np.testing.assert_allclose(np.linalg.norm(basis.T @ axes[:, :2], axis=0), 1, atol=0.02)


@pytest.mark.parametrize(("share", "count"), [(0.5, 1), (0.8, 1), (0.81, 2), (0.99, 2), (1.0, 3)])
def test_the_share_of_the_squares_decides_where_the_label_cannot(share: float, count: int) -> None:
    assert dimensions_of_variance(np.sqrt([80.0, 19.5, 0.5]), share) == count


@pytest.mark.parametrize("latent_dim", [4, 12, 20, 30, 64])
def test_no_more_directions_take_the_place_of_axes_than_the_score_needs(latent_dim: int) -> None:
    rows, labels = load_digits(return_X_y=True)
    score, axes = score_of(rows, labels), principal_axes(rows)[1]

    def kept_with(least: float) -> tuple[int, float]:
        directions = score.missing_from(axes, latent_dim, least)
        basis = draw_secret_basis(
            rows, latent_dim, np.random.default_rng(0).bytes, axes=axes, include=directions
        )
        return directions.shape[1], score.along(basis).kept

    count, kept = kept_with(0.95)
    assert kept >= 0.95 or count == min(9, latent_dim)
    assert kept_with(1.0)[0] == min(9, latent_dim)
    least, kept_by_least = kept_with(0.0)
    assert least == 1, "what the axes lose most is always kept"
    assert count == 1 or kept_by_least < 0.95, "so many were not needed"


def curved(count: int = 900, features: int = 12) -> tuple[Rows, NDArray[Any]]:
    """Return rows whose label is a product of the two features that vary least."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((count, features)) * np.geomspace(4, 0.25, features)
    return rows, (rows[:, 10] * rows[:, 11] > 0).astype(int)


def test_a_label_that_is_a_product_has_a_score_and_the_axes_that_it_needs() -> None:
    rows, labels = curved()
    score, axes = score_of(rows, labels), principal_axes(rows)[1]
    leading, all_of_them = (score.along(axes[:, :count]) for count in (10, 12))
    assert leading.curves == 2
    assert leading.kept < 0.1 < 0.95 < all_of_them.kept
    assert leading.projected_auc < 0.6 < 0.9 < all_of_them.projected_auc
    assert all_of_them.auc == pytest.approx(all_of_them.projected_auc, abs=0.01)
    assert score.dimensions(axes, 0.95) == 12


def test_a_basis_takes_the_directions_of_a_product_in_place_of_axes() -> None:
    rows, labels = curved()
    score, axes = score_of(rows, labels), principal_axes(rows)[1]
    directions = score.missing_from(axes, 4, 0.95)
    assert directions.shape == (12, 2)
    basis = draw_secret_basis(rows, 4, np.random.default_rng(0).bytes, include=directions)
    assert score.along(basis).kept > 0.95


@pytest.mark.parametrize(("latent_dim", "count"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_no_more_than_half_of_a_basis_are_directions_of_curves(latent_dim: int, count: int) -> None:
    rows, labels = curved()
    directions = score_of(rows, labels).missing_from(principal_axes(rows)[1], latent_dim, 0.95)
    assert directions.shape == (12, count)


def test_a_number_and_survival_that_curve_have_their_directions_too() -> None:
    rows, _ = curved()
    rng = np.random.default_rng(5)
    risk = 16 * rows[:, 11] ** 2  # of variance 2
    numbers = (risk + 0.5 * rng.standard_normal(len(rows))).astype(np.float32)
    times = rng.exponential(np.exp(-risk)).astype(np.float32) + np.float32(1e-3)
    by_number, by_time = targets_of(numbers), targets_of(times, are_times=True)
    for targets in (by_number, by_time):
        found = signal.score_of(rows, targets)
        assert found is not None
        assert found.along(np.eye(12)[:, :11]).kept < 0.2
        assert found.along(np.eye(12)).curves == 1


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_a_table_that_a_straight_score_explains_has_no_curves(load: Any) -> None:
    rows, labels = load(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-9)
    assert score_of(rows, labels).curves.shape == (rows.shape[1], 0)


def test_the_rows_of_a_score_are_not_shown() -> None:
    assert repr(score_of(*rows_with_label_along(0, count=50))) == "<OwnScore of 50 rows>"


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_a_number_has_a_signal_as_classes_have(axis: int) -> None:
    rows, _ = rows_with_label_along(axis)
    numbers = rows[:, axis] + 0.1 * rows[:, axis].std() * np.random.default_rng(1).standard_normal(len(rows))
    score = score_of(rows, numbers.astype(np.float32))
    assert score.dimensions(principal_axes(rows)[1], 0.9) == axis + 1
    assert score.missing_from(principal_axes(rows)[1], 3, 0.95).shape == (12, 1)
    kept, lost = score.along(np.eye(12)[:, : axis + 1]), score.along(np.delete(np.eye(12), axis, axis=1))
    assert kept.measure == "concordance"
    assert kept.kept > 0.95 > 0.05 > lost.kept
    assert kept.projected_auc > 0.95 > 0.65 > lost.projected_auc


def test_numbers_that_the_rows_say_nothing_about_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    assert own_score(rng.standard_normal((400, 5)), rng.standard_normal(400)) is None
    assert own_score(rng.standard_normal((9, 5)), rng.standard_normal(9)) is None
    assert own_score(rng.standard_normal((40, 5)), np.full(40, 0.5)) is None


def test_a_rare_label_counts_as_much_as_any_other() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2000, 4)) * [4, 3, 2, 1]
    has = np.column_stack([rows[:, 0] > 0, rows[:, 3] > 2.0])
    labels = (has * [1, 2]).sum(axis=1).astype(np.uint8)
    score = own_score(rows, labels, are_bits=True)
    assert score is not None
    axes = np.eye(4)
    kept = [score.along(axes[:, [one]]).kept for one in range(4)]
    assert kept[3] > 0.15, "the regression explains a rare label less, and its share is not that of its rows"
    assert kept[0] + kept[3] == pytest.approx(1, abs=0.02)
    assert score.dimensions(axes, 0.95) == 4
    alone = own_score(rows, has[:, 1].astype(int))
    assert alone is not None
    assert alone.along(axes[:, [3]]).kept > 0.95


def test_labels_that_few_rows_have_tell_nothing() -> None:
    rng = np.random.default_rng(4)
    labels = np.zeros(100, np.uint8)
    labels[:4] = 2
    assert own_score(rng.standard_normal((100, 3)), labels, are_bits=True) is None
