"""What an institution measures itself is what the analyst would measure, and few rows have few figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, brier_score_loss

from analyst_server.training.calibration import calibration_table
from analyst_server.training.party_scores import score_classes
from user_client.class_scores import (
    Bin,
    ClassScores,
    Estimated,
    bins_in_words,
    class_scores,
    class_scores_in_words,
    of_class_in_words,
    of_each_class,
)


def drawn(rows: int, classes: int, digits: int, seed: int = 0) -> tuple[Any, Any]:
    """Return labels and probabilities that know something of them, with ties if they have few digits."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    outputs = 1.5 * np.eye(classes)[labels] + rng.standard_normal((rows, classes))
    found = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    return labels, found.round(digits)


@pytest.mark.parametrize("rows", [100, 199, 1000])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("digits", [1, 9])
def test_both_sides_measure_the_same(rows: int, classes: int, digits: int) -> None:
    labels, found = drawn(rows, classes, digits)
    ours, theirs = class_scores(labels, found), score_classes(labels, found)
    assert theirs is not None
    table = calibration_table(labels, found)
    assert table is not None
    for name in ("accuracy", "brier", "pr_auc", "ece"):
        assert getattr(ours, name) == pytest.approx(theirs.figures[name].value, abs=1e-9)
    assert ours.ece_by_chance == pytest.approx(table.ece_by_chance, abs=1e-9)
    assert ours.bins is not None
    assert [asdict(one) for one in ours.bins] == [pytest.approx(asdict(one)) for one in table.bins]
    for name in ("calibration_slope", "calibration_intercept"):
        estimated: Estimated | None = getattr(ours, name)
        assert (estimated is None) == (name not in theirs.figures) == (classes > 2)
        if estimated is not None:
            figure = theirs.figures[name]
            assert estimated.mean == pytest.approx(figure.value, abs=1e-6)
            assert estimated.high - estimated.low == pytest.approx(
                2 * 1.959964 * figure.variance**0.5, rel=1e-4
            )


@pytest.mark.parametrize("digits", [1, 9])
def test_they_are_those_of_scikit_learn(digits: int) -> None:
    labels, found = drawn(150, 2, digits)
    ours = class_scores(labels, found)
    assert ours.accuracy == accuracy_score(labels, found.argmax(axis=1))
    assert ours.pr_auc == pytest.approx(average_precision_score(labels, found[:, 1]))
    assert ours.brier == pytest.approx(
        brier_score_loss(labels, found[:, 1]), abs=1e-3 if digits == 1 else 1e-9
    )


@pytest.mark.parametrize(("rows", "has_table"), [(1, False), (99, False), (100, True)])
def test_few_rows_have_no_table(rows: int, has_table: bool) -> None:
    ours = class_scores(*drawn(rows, 2, 9))
    assert [ours.bins is None, ours.ece is None, ours.ece_by_chance is None] == [not has_table] * 3


@pytest.mark.parametrize(("rare", "has_slope"), [(19, False), (20, True)])
def test_few_rows_of_a_class_have_no_slope(rare: int, has_slope: bool) -> None:
    labels = (np.arange(120) < rare).astype(np.int64)
    found = np.random.default_rng(0).random(120)
    ours = class_scores(labels, np.stack([1 - found, found], axis=1))
    assert (ours.calibration_slope is not None, ours.calibration_intercept is not None) == (has_slope,) * 2


def test_classes_that_do_not_overlap_have_no_slope() -> None:
    labels, found = np.arange(60) // 30, np.linspace(0.05, 0.95, 60)
    ours = class_scores(labels, np.stack([1 - found, found], axis=1))
    assert ours.calibration_slope is None
    assert ours.calibration_intercept is not None


@pytest.mark.parametrize("classes", [2, 4])
def test_rows_of_one_class_have_no_average_precision(classes: int) -> None:
    _, found = drawn(120, classes, 9)
    ours = class_scores(np.ones(120, np.int64), found)
    assert ours.pr_auc is None
    assert ours.brier > 0


def test_a_class_without_rows_does_not_count() -> None:
    labels, found = drawn(120, 3, 9)
    wide = np.concatenate([found, np.zeros((120, 1))], axis=1)
    assert class_scores(labels, wide) == class_scores(labels, found)


@pytest.mark.parametrize("rows", [30, 300])
def test_they_come_back_from_json(rows: int) -> None:
    ours = class_scores(*drawn(rows, 2, 9))
    assert ClassScores.from_json(json.loads(json.dumps(asdict(ours)))) == ours


def test_the_figures_in_words_are_those_that_there_are() -> None:
    few = ClassScores(0.8, 0.15, 0.7, None, None, None, None, None)
    assert class_scores_in_words(few) == "PR-AUC 70.0, accuracy 80.0, Brier score 0.15"
    many = ClassScores(
        0.8, 0.15, None, 0.0312, 0.028, Estimated(0.9, 0.7, 1.1), None, (Bin(50, 0.2, 0.25),) * 2
    )
    assert class_scores_in_words(many) == (
        "accuracy 80.0, Brier score 0.15, calibration error 0.031 (0.028 by chance alone),"
        " calibration slope 0.900 (0.700 to 1.100)"
    )
    assert many.bins is not None
    assert bins_in_words(many.bins) == "0.200 (0.250), 0.200 (0.250)"


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_are_nearly_separated_end_no_measurement_on_either_side(seed: int) -> None:
    """Most rows are sure and a few out of order: a step towards the slope goes far beyond it."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], 80)
    outputs = (2 * labels - 1) * rng.exponential(5, 160)
    wrong = rng.choice(160, 2, replace=False)
    outputs[wrong] *= -0.05
    second = 1 / (1 + np.exp(-outputs))
    found = np.stack([1 - second, second], axis=1)
    ours, theirs = class_scores(labels, found), score_classes(labels, found)
    assert theirs is not None
    for name in ("calibration_slope", "calibration_intercept"):
        mine, other = getattr(ours, name), theirs.figures.get(name)
        assert (mine is None) == (other is None), name
        if mine is not None and other is not None:
            assert mine.mean == pytest.approx(other.value, rel=1e-4, abs=1e-6)
            assert np.isfinite([mine.low, mine.high]).all()


def test_each_class_is_counted_and_one_that_is_never_predicted_is_named() -> None:
    labels = np.array([0, 0, 0, 1, 2])
    told = np.array([[0.9, 0.1, 0], [0.5, 0.1, 0.4], [0.3, 0.7, 0], [0.2, 0.8, 0], [0.6, 0, 0.4]])
    usual, other, rare = of_each_class(labels, told)
    assert (usual.rows, usual.predicted, usual.right) == (3, 3, 2)
    assert (other.rows, other.predicted, other.right, other.pr_auc) == (1, 2, 1, 1.0)
    assert (rare.rows, rare.predicted) == (1, 0)
    assert rare.pr_auc == pytest.approx(0.5)
    said = of_class_in_words("died here", rare)
    assert "class died here: rows with it 1, predicted 0, of these right 0, PR-AUC 50.0; it is never" in said
    assert "`odc predict --threshold 'died here'=P`" in said
    assert "never" not in of_class_in_words("no", other)
    assert of_each_class(np.zeros(3, int), told[:3])[0].pr_auc is None
