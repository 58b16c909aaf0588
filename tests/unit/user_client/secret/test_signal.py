from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from user_client.secret.basis import draw_secret_basis, principal_axes
from user_client.secret.signal import (
    FEWEST_OF_A_CLASS,
    dimensions_for,
    dimensions_of_variance,
    score_directions,
    signal_kept,
)

Rows = NDArray[np.float64]


def rows_with_label_along(axis: int, count: int = 600, features: int = 12) -> tuple[Rows, Rows]:
    """Return rows whose principal axes are the unit vectors, with a label that follows one of them."""
    rng = np.random.default_rng(axis)
    rows = rng.standard_normal((count, features)) * np.geomspace(4, 0.25, features)
    return rows, (rows[:, axis] > 0).astype(int)


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_a_projection_without_the_labels_direction_keeps_nothing(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    with_it, without = np.eye(12)[:, : axis + 1], np.delete(np.eye(12), axis, axis=1)
    kept, lost = signal_kept(rows, labels, with_it), signal_kept(rows, labels, without)
    assert kept is not None
    assert lost is not None
    assert kept.kept > 0.95
    assert lost.kept < 0.05
    assert kept.projected_auc > 0.95
    assert lost.projected_auc < 0.65 < 0.95 < lost.auc


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_as_many_dimensions_are_proposed_as_the_label_needs(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    assert dimensions_for(rows, labels, 0.9) == axis + 1


def test_most_of_the_squares_is_not_most_of_the_signal() -> None:
    """The rule by variance would take eleven of twelve dimensions and lose the label."""
    rows, labels = rows_with_label_along(11)
    energies = principal_axes(rows)[0] ** 2
    assert energies[:11].sum() > 0.99 * energies.sum()
    assert dimensions_for(rows, labels, 0.95) == 12


def test_the_proposed_dimension_keeps_what_was_asked_for_and_one_less_does_not() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    count = dimensions_for(rows, labels, 0.98)
    assert count is not None
    axes = principal_axes(rows)[1]
    enough, less = (signal_kept(rows, labels, axes[:, :number]) for number in (count, count - 1))
    assert enough is not None
    assert less is not None
    assert enough.kept >= 0.98 - 1e-9 > less.kept


def test_everything_is_kept_by_a_basis_of_the_whole_space() -> None:
    rows, labels = rows_with_label_along(3)
    found = signal_kept(rows, labels, np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0])
    assert found is not None
    assert found.kept == pytest.approx(1)
    assert found.auc == pytest.approx(found.projected_auc)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_say_nothing_about_the_label_cannot_tell(seed: int) -> None:
    """Though a label can be fitted with so many features: each row is scored without itself."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((4000, 200)), rng.integers(0, 2, 4000)
    assert signal_kept(rows, labels, np.eye(200)[:, :50]) is None
    assert dimensions_for(rows, labels, 0.95) is None


def test_the_left_out_scores_are_those_of_one_fit_per_row() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = ((rows - rows.mean(axis=0)) / rows.std(axis=0))[::5]
    labels = labels[::5]
    found = signal_kept(rows, labels, np.eye(30))
    assert found is not None
    aucs = [
        roc_auc_score(labels, cross_val_predict(Ridge(penalty), rows, labels, cv=LeaveOneOut()))
        for penalty in np.geomspace(1e-4, 1e3, 15) * len(rows)
    ]
    assert min(np.abs(np.array(aucs) - found.auc)) < 5e-3


@pytest.mark.parametrize("labels", [[0] * 20, [0] * 16 + [1] * (FEWEST_OF_A_CLASS - 1), []])
def test_rows_of_one_class_or_too_few_of_another_cannot_tell(labels: list[int]) -> None:
    rows = np.random.default_rng(0).standard_normal((len(labels), 6))
    assert signal_kept(rows, np.array(labels, dtype=int), np.eye(6)[:, :3]) is None
    assert dimensions_for(rows, np.array(labels, dtype=int), 0.95) is None


def test_more_features_than_rows_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 200)) * np.geomspace(10, 0.1, 200)
    labels = (rows[:, 0] > 0).astype(int)
    count = dimensions_for(rows, labels, 0.95)
    assert count is not None
    assert 1 <= count <= 40


@pytest.mark.parametrize("axis", [0, 5, 11])
def test_a_basis_with_the_scores_directions_keeps_it_in_few_dimensions(axis: int) -> None:
    rows, labels = rows_with_label_along(axis)
    directions = score_directions(rows, labels, 2)
    assert directions.shape == (12, 1)
    basis = draw_secret_basis(rows, 3, np.random.default_rng(0).bytes, include=directions)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    found = signal_kept(rows, labels, basis)
    assert found is not None
    assert found.kept == pytest.approx(1)
    assert found.projected_auc > 0.95


def test_the_rest_of_that_basis_is_of_the_leading_axes() -> None:
    rows, labels = rows_with_label_along(11)
    basis = draw_secret_basis(
        rows, 3, np.random.default_rng(0).bytes, include=score_directions(rows, labels, 1)
    )
    axes = principal_axes(rows)[1]
    np.testing.assert_allclose(np.linalg.norm(basis.T @ axes[:, :2], axis=0), 1, atol=0.02)


@pytest.mark.parametrize(("share", "count"), [(0.5, 1), (0.8, 1), (0.81, 2), (0.99, 2), (1.0, 3)])
def test_the_share_of_the_squares_decides_where_the_label_cannot(share: float, count: int) -> None:
    rows = np.diag([np.sqrt(80.0), np.sqrt(19.5), np.sqrt(0.5)])
    assert dimensions_of_variance(rows, share) == count


def test_there_are_no_more_directions_than_asked_for_or_than_classes_less_one() -> None:
    rows, labels = load_digits(return_X_y=True)
    assert score_directions(rows, labels, 100).shape == (64, 9)
    assert score_directions(rows, labels, 4).shape == (64, 4)
    assert score_directions(rows, np.zeros(len(rows), dtype=int), 4).shape == (64, 0)
