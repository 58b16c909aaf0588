"""The quadratic discriminant of sums by class."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from analyst_server.training.discriminant import (
    NormalClasses,
    SumsDiscriminant,
    fit_by_class,
    of_all_classes,
)
from analyst_server.training.onnx_file import PARITY_TOLERANCE, export, parity_gap
from tests.harness.problems import blobs

Rows = NDArray[np.float64]


def rings(rows: int = 1200, seed: int = 0) -> tuple[Rows, NDArray[np.int64]]:
    """Two classes around the same point, one wide and one narrow: no line tells them apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, rows)
    return rng.standard_normal((rows, 4)) * np.where(labels, 2.0, 0.5)[:, None], labels


def sums_of(rows: Rows, labels: NDArray[np.int64], classes: int) -> Rows:
    z = np.hstack([np.ones((len(rows), 1)), rows])
    return np.stack([z[labels == number].T @ z[labels == number] for number in range(classes)])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_its_ends_are_the_quadratic_and_the_linear_discriminant(share: float) -> None:
    rows, labels = blobs(3, rows=2000)
    rows = rows.astype(np.float64)
    found = NormalClasses(share, 1e-12).fit(sums_of(rows, labels, 3)).predict_proba(rows)
    rival = QuadraticDiscriminantAnalysis() if share == 0 else LinearDiscriminantAnalysis()
    np.testing.assert_allclose(found, rival.fit(rows, labels).predict_proba(rows), atol=0.01)


def test_it_tells_apart_what_no_line_does() -> None:
    rows, labels = rings()
    known, new = slice(0, 800), slice(800, None)
    model = fit_by_class(SumsDiscriminant(), sums_of(rows[known], labels[known], 2))
    found = model.predictions(rows[new])
    line = LinearDiscriminantAnalysis().fit(rows[known], labels[known])
    assert np.mean(found.argmax(axis=1) == labels[new]) > line.score(rows[new], labels[new]) + 0.2


@pytest.mark.parametrize("narrow", [1.0, 1e-4, 0.0])
def test_the_file_says_the_same_where_a_direction_has_no_spread(narrow: float) -> None:
    rows, labels = rings()
    rows[:, 0] *= narrow
    model = fit_by_class(SumsDiscriminant(penalty=1e-6), sums_of(rows, labels, 2))
    gap = parity_gap(model, export(model, rows.shape[1]), rows.astype(np.float32))
    assert gap <= PARITY_TOLERANCE / 10
    assert np.isfinite(model.predictions(rows)).all()


def test_fewer_rows_than_features_are_told_apart_too() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((60, 100)), np.arange(60) % 2
    rows[:, 0] += 3 * labels
    new, truth = rng.standard_normal((500, 100)), np.arange(500) % 2
    new[:, 0] += 3 * truth
    found = fit_by_class(SumsDiscriminant(), sums_of(rows, labels, 2)).predictions(new)
    assert np.mean(found.argmax(axis=1) == truth) > 0.65


def test_a_class_without_rows_is_named() -> None:
    rows, labels = rings()
    with pytest.raises(ValueError, match="none of class number 2 came"):
        fit_by_class(SumsDiscriminant(), sums_of(rows, labels, 3))


def test_sums_by_class_add_up_to_those_of_all() -> None:
    rows, labels = rings()
    z = np.hstack([np.ones((len(rows), 1)), rows, np.eye(2)[labels]])
    np.testing.assert_allclose(of_all_classes(sums_of(rows, labels, 2)), z.T @ z, atol=1e-8)


def test_whoever_has_the_model_and_the_number_of_rows_has_the_sums() -> None:
    """The plain words say that each institution can read them; this is how."""
    rows, labels = rings()
    sums, share = sums_of(rows, labels, 2), 0.9
    found = NormalClasses(share, 1e-9).fit(sums)
    covariances = np.linalg.inv(found.factors_ @ found.factors_.transpose(0, 2, 1))
    shares = np.exp(found.offsets_ + np.linalg.slogdet(covariances)[1] / 2)
    pooled = np.tensordot(shares, covariances, 1)
    own = (covariances - share * pooled) / (1 - share)
    counts = len(rows) * shares
    seconds = counts[:, None, None] * (own + found.means_[:, :, None] * found.means_[:, None, :])
    np.testing.assert_allclose(seconds, sums[:, 1:, 1:], rtol=1e-4, atol=1e-3)
