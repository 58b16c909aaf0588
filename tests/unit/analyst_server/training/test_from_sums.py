"""Models of a total: what rows in one place would give, and what a total cannot give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from analyst_server.training.from_sums import PENALTIES, SumsRidge, fit_total, probe_rows
from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap
from analyst_server.training.tasks import Classes, Numbers
from tests.harness.problems import blobs, numbers

Rows = NDArray[np.float64]


def total_of(rows: Rows, targets: Rows) -> Rows:
    z = np.hstack([np.ones((len(rows), 1)), rows, targets])
    return z.T @ z


def of_classes(rows: NDArray[Any], labels: NDArray[Any], classes: int) -> Rows:
    return total_of(rows.astype(np.float64), np.eye(classes)[labels])


def test_a_number_has_the_regression_of_the_rows_themselves() -> None:
    rows, targets = numbers()
    rows = rows.astype(np.float64)
    total = total_of(rows, targets[:, None])
    found = fit_total(SumsRidge(penalty=0.1), total, rows.shape[1], Numbers(1.0))
    unit = np.square(rows - rows.mean(axis=0)).sum() / rows.shape[1]
    expected = Ridge(alpha=0.1 * unit).fit(rows, targets)
    np.testing.assert_allclose(found.predictions(rows)[:, 0], expected.predict(rows), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_told_apart_and_their_probabilities_are_honest(classes: int) -> None:
    rows, labels = blobs(classes, rows=2000)
    known, new = slice(0, 1000), slice(1000, None)
    total = of_classes(rows[known], labels[known], classes)
    found = fit_total(SumsRidge(), total, rows.shape[1], Classes(classes)).predictions(rows[new])
    assert np.mean(found.argmax(axis=1) == labels[new]) > 0.8
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found.mean(axis=0), np.bincount(labels[new]) / len(labels[new]), atol=0.05)
    sure = found.max(axis=1)
    assert abs(sure.mean() - np.mean(found.argmax(axis=1) == labels[new])) < 0.05


@pytest.mark.parametrize("rows", [180, 600, 3000])
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_drawn_by_chance_are_not_known(classes: int, rows: int) -> None:
    """Whatever penalty is chosen, also the largest, under which the scores hardly vary."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        known, new = rng.uniform(-1, 1, (2, rows, 9))
        total = of_classes(known, rng.integers(0, classes, rows), classes)
        found = fit_total(SumsRidge(), total, 9, Classes(classes)).predictions(new)
        assert found.max(axis=1).mean() < 1 / classes + 0.15


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_rounded_in_a_total_does_not_matter(classes: int) -> None:
    """The scores of a row add up to a constant: nothing may be divided by how little their sum varies."""
    rows, labels = blobs(classes)
    total = of_classes(rows, labels, classes)
    noise = 1e-8 * np.random.default_rng(0).uniform(-1, 1, total.shape)
    one, other = (
        fit_total(SumsRidge(), each, rows.shape[1], Classes(classes)).predictions(rows)
        for each in (total, total + noise + noise.T)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_onnx_file_says_the_same() -> None:
    rows, labels = blobs(3)
    total = of_classes(rows, labels, 3)
    fitted = fit_total(SumsRidge(), total, rows.shape[1], Classes(3))
    gap = parity_gap(fitted, export(fitted, rows.shape[1]), probe_rows(total, rows.shape[1]))
    assert gap < PARITY_TOLERANCE


def test_with_more_features_than_rows_a_penalty_is_chosen_that_does_not_interpolate() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((60, 100)), np.arange(60) % 2
    found = fit_total(SumsRidge(), of_classes(rows, labels, 2), 100, Classes(2))
    sure = found.predictions(rng.standard_normal((500, 100))).max(axis=1)
    assert sure.mean() < 0.8, "labels drawn by chance cannot be known"


def test_a_class_without_a_row_is_named() -> None:
    rows, labels = blobs(2)
    with pytest.raises(ValueError, match="none of class number 2 came"):
        fit_total(SumsRidge(), of_classes(rows, labels, 3), rows.shape[1], Classes(3))


def test_rows_or_labels_that_are_all_the_same_are_refused() -> None:
    rows, targets = numbers()
    same = np.ones_like(rows, dtype=np.float64)
    with pytest.raises(ValueError, match="different features"):
        fit_total(SumsRidge(), total_of(same, targets[:, None]), rows.shape[1], Numbers(1.0))
    with pytest.raises(ValueError, match="different labels"):
        fit_total(SumsRidge(), total_of(rows, np.zeros((len(rows), 1))), rows.shape[1], Numbers(1.0))


def test_the_least_penalty_is_small_enough_for_rows_without_noise() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((200, 5))
    targets = rows @ rng.standard_normal(5)
    found = fit_total(SumsRidge(), total_of(rows, targets[:, None]), 5, Numbers(1.0))
    np.testing.assert_allclose(found.predictions(rows)[:, 0], targets, atol=1e-4)
    assert PENALTIES[0] == pytest.approx(1e-6)


# totals with noise


def noised(total: Rows, deviation: float, seed: int = 0) -> Rows:
    drawn = np.triu(deviation * np.random.default_rng(seed).standard_normal(total.shape))
    return np.asarray(total + drawn + np.triu(drawn, 1).T)


@pytest.mark.parametrize("deviation", [1.0, 5.0, 20.0])
def test_a_total_with_noise_still_tells_classes_apart(deviation: float) -> None:
    rows, labels = blobs(3, rows=2000)
    known, new = slice(0, 1500), slice(1500, None)
    clip = float(np.linalg.norm(rows, axis=1).max())
    total = noised(of_classes(rows[known] / clip, labels[known], 3), deviation)
    found = fit_total(SumsRidge(noise=deviation, clip=clip), total, rows.shape[1], Classes(3))
    probabilities = found.predictions(rows[new])
    assert np.mean(probabilities.argmax(axis=1) == labels[new]) > 0.7
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


def test_noise_far_smaller_than_the_rows_changes_nothing() -> None:
    rows, labels = blobs(2)
    total = of_classes(rows, labels, 2)
    one = fit_total(SumsRidge(penalty=1e-3), total, rows.shape[1], Classes(2))
    other = fit_total(SumsRidge(penalty=1e-3, noise=1e-9), total, rows.shape[1], Classes(2))
    np.testing.assert_allclose(one.predictions(rows), other.predictions(rows), atol=0.02)


def test_predictions_do_not_depend_on_the_unit_of_the_features() -> None:
    rows, targets = numbers()
    rows = rows.astype(np.float64)
    total, halved = (noised(total_of(rows / unit, targets[:, None]), 0.5) for unit in (1.0, 1.0))
    one = fit_total(SumsRidge(noise=0.5), total, rows.shape[1], Numbers(1.0)).predictions(rows)
    other = fit_total(SumsRidge(noise=0.5, clip=2.0), halved, rows.shape[1], Numbers(1.0))
    np.testing.assert_allclose(one, other.predictions(2 * rows), atol=1e-9)


def test_noise_without_rows_is_refused() -> None:
    empty = np.zeros((7, 7))
    with pytest.raises(ValueError, match="noise alone: it takes more rows"):
        fit_total(SumsRidge(noise=1.0), noised(empty - 40 * np.eye(7), 1.0), 4, Classes(2))


@pytest.mark.parametrize("classes", [1, 2, 3], ids=["numbers", "two-classes", "three-classes"])
def test_large_weights_that_cancel_each_other_are_in_the_file(classes: int) -> None:
    """Features of a wide kernel hardly differ; with 32-bit floats a probability was off by 1e-3."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2000, 3))
    targets = np.sin(3 * rows[:, :1]) if classes == 1 else np.eye(classes)[rows[:, :classes].argmax(axis=1)]
    turns, shifts = 0.05 * rng.standard_normal((3, 256)), 2 * np.pi * rng.random(256)
    features = np.sqrt(2 / 256) * np.cos(rows @ turns + shifts)
    total = total_of(features, targets)
    task = Numbers(1.0) if classes == 1 else Classes(classes)
    fitted = fit_total(SumsRidge(), total, 256, task)
    assert np.abs(fitted.pipeline[-1].coef_).max() > 1000
    assert parity_gap(fitted, export(fitted, 256), probe_rows(total, 256)) < 1e-6
