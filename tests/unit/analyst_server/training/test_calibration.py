"""Tables, slopes and intercepts of probabilities that are right, too extreme or too high, and of few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from analyst_server.training.calibration import (
    CERTAIN,
    LEAST_BINS,
    LEAST_ROWS_FOR_A_SLOPE,
    LEAST_ROWS_OF_A_BIN,
    MOST_BINS,
    calibration_figures,
    calibration_table,
)
from analyst_server.training.party_scores import score_classes

LEAST_ROWS = LEAST_BINS * LEAST_ROWS_OF_A_BIN


def both(found: Any) -> Any:
    return np.stack([1 - found, found], axis=1)


def drawn(rng: np.random.Generator, rows: int, slope: float = 1.0, intercept: float = 0.0) -> tuple[Any, Any]:
    """Return labels, and probabilities that a recalibration with this slope and intercept makes right."""
    told = 1.2 * rng.standard_normal(rows)
    labels = (rng.random(rows) < expit(slope * told + intercept)).astype(np.int64)
    return labels, both(expit(told))


# the table


def test_a_table_by_hand() -> None:
    """Five bins of twenty rows: the probabilities are 0.1 to 0.9, the shares 0.1 above them in every bin."""
    told = np.repeat([0.1, 0.3, 0.5, 0.7, 0.85], 20)
    labels = np.concatenate([np.arange(20) < 20 * share for share in (0.2, 0.4, 0.6, 0.8, 0.95)])
    found = calibration_table(labels.astype(np.int64), both(told))
    assert found is not None
    assert [one.rows for one in found.bins] == [20] * 5
    assert [one.predicted for one in found.bins] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.85])
    assert [one.observed for one in found.bins] == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.95])
    assert found.ece == pytest.approx(0.1)


@pytest.mark.parametrize("rows", [100, 119, 199, 200, 1009, 5000])
@pytest.mark.parametrize("digits", [1, 2, 9])
def test_the_bins_have_about_equally_many_rows_and_never_few(rows: int, digits: int) -> None:
    rng = np.random.default_rng(rows)
    labels, found = drawn(rng, rows)
    table = calibration_table(labels, both(found[:, 1].round(digits)))
    assert table is not None
    sizes = [one.rows for one in table.bins]
    assert sum(sizes) == rows
    assert len(sizes) <= MOST_BINS
    assert min(sizes) >= LEAST_ROWS_OF_A_BIN
    if digits == 9:  # no ties
        assert len(sizes) == min(MOST_BINS, rows // LEAST_ROWS_OF_A_BIN)
        assert max(sizes) - min(sizes) <= 1
    assert [one.predicted for one in table.bins] == sorted(one.predicted for one in table.bins)


@pytest.mark.parametrize("digits", [1, 9])
def test_the_order_of_the_rows_changes_nothing(digits: int) -> None:
    rng = np.random.default_rng(0)
    labels, found = drawn(rng, 300)
    found, order = both(found[:, 1].round(digits)), rng.permutation(300)
    one, other = calibration_table(labels, found), calibration_table(labels[order], found[order])
    assert one is not None
    assert other is not None
    assert [each.rows for each in one.bins] == [each.rows for each in other.bins]
    assert [each.observed for each in one.bins] == pytest.approx([each.observed for each in other.bins])
    assert one.ece == pytest.approx(other.ece)


def test_probabilities_that_are_all_the_same_have_one_bin() -> None:
    labels = np.arange(200) % 4 // 3
    found = calibration_table(labels, both(np.full(200, 0.4)))
    assert found is not None
    assert [(one.rows, one.observed) for one in found.bins] == [(200, 0.25)]
    assert found.ece == pytest.approx(0.15)
    assert set(calibration_figures(labels, both(np.full(200, 0.4)))) == {"ece", "calibration_intercept"}


@pytest.mark.parametrize("rows", [LEAST_ROWS - 1, LEAST_ROWS])
def test_few_rows_have_no_table_and_no_ece(rows: int) -> None:
    labels, found = drawn(np.random.default_rng(0), rows)
    assert (calibration_table(labels, found) is None) == (rows < LEAST_ROWS)
    assert ("ece" in calibration_figures(labels, found)) == (rows >= LEAST_ROWS)


@pytest.mark.parametrize(("rows", "classes"), [(100, 2), (400, 2), (400, 3)])
def test_right_probabilities_have_the_error_that_chance_gives(rows: int, classes: int) -> None:
    rng, found, expected = np.random.default_rng(0), [], []
    for _ in range(200):
        told = rng.dirichlet(np.ones(classes), rows)
        labels = (rng.random((rows, 1)) > np.cumsum(told, axis=1)).sum(axis=1)
        table = calibration_table(labels, told)
        assert table is not None
        found.append(table.ece)
        expected.append(table.ece_by_chance)
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.05)


def test_of_more_than_two_classes_the_event_is_that_the_most_likely_is_true() -> None:
    rng = np.random.default_rng(0)
    told = rng.dirichlet(np.ones(4), 300)
    labels = rng.integers(4, size=300)
    sure, right = told.max(axis=1), (told.argmax(axis=1) == labels).astype(np.int64)
    assert calibration_table(labels, told) == calibration_table(right, both(sure))
    assert set(calibration_figures(labels, told)) == {"ece"}


def test_the_figure_is_the_error_of_the_table() -> None:
    labels, found = drawn(np.random.default_rng(0), 500, slope=0.5)
    table = calibration_table(labels, found)
    assert table is not None
    assert calibration_figures(labels, found)["ece"][0] == pytest.approx(table.ece, abs=1e-12)


def test_a_probability_that_rounding_puts_above_1_counts_as_1() -> None:
    labels = np.arange(100) % 2
    found = np.linspace(0, 1, 100)
    assert calibration_table(labels, both(found * (1 + 1e-7))) is not None


# slope and intercept


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, 0.0), (0.5, 0.0), (2.0, -1.0), (0.3, 2.0)])
def test_slope_and_intercept_are_those_that_the_labels_were_drawn_with(
    slope: float, intercept: float
) -> None:
    labels, found = drawn(np.random.default_rng(0), 100_000, slope, intercept)
    figures = calibration_figures(labels, found)
    assert figures["calibration_slope"][0] == pytest.approx(slope, rel=0.05)
    if slope == 1:
        assert figures["calibration_intercept"][0] == pytest.approx(intercept, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_the_slope_is_that_of_scikit_learns_regression(seed: int) -> None:
    labels, found = drawn(np.random.default_rng(seed), 150, slope=0.7)
    by_it = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(logit(found[:, 1:]), labels)
    slope, _ = calibration_figures(labels, found)["calibration_slope"]
    assert slope == pytest.approx(by_it.coef_[0, 0], rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_the_intercept_makes_the_mean_probability_the_share(seed: int) -> None:
    labels, found = drawn(np.random.default_rng(seed), 150, intercept=1.0)
    intercept, _ = calibration_figures(labels, found)["calibration_intercept"]
    assert expit(logit(found[:, 1]) + intercept).mean() == pytest.approx(labels.mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "truth", "least"),
    [("calibration_slope", 0.7, 0.92), ("calibration_intercept", 0.5, 0.92), ("pr_auc", None, 0.9)],
)
def test_the_interval_of_200_rows_covers_the_truth_in_about_19_of_20_rounds(
    name: str, truth: float | None, least: float
) -> None:
    given = {"slope": 0.7} if name == "calibration_slope" else {"intercept": 0.5}
    if truth is None:
        labels, found = drawn(np.random.default_rng(99), 200_000, **given)
        truth = average_precision_score(labels, found[:, 1])
    rng, covered = np.random.default_rng(1), 0
    for _ in range(300):
        score = score_classes(*drawn(rng, 200, **given))
        assert score is not None
        figure = score.figures[name]
        covered += abs(figure.value - truth) <= 1.96 * figure.variance**0.5
    assert least <= covered / 300 <= 0.985


@pytest.mark.parametrize("rare", [LEAST_ROWS_FOR_A_SLOPE - 1, LEAST_ROWS_FOR_A_SLOPE])
def test_few_rows_of_a_class_have_neither_slope_nor_intercept(rare: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) < rare
    figures = calibration_figures(labels.astype(np.int64), both(rng.random(200)))
    enough = rare >= LEAST_ROWS_FOR_A_SLOPE
    assert ("calibration_slope" in figures, "calibration_intercept" in figures) == (enough, enough)


@pytest.mark.parametrize("tie", [0.0, 1e-3])
def test_classes_that_do_not_overlap_have_no_slope(tie: float) -> None:
    """The likelihood rises with the slope for ever."""
    labels = np.arange(60) // 30
    apart = np.linspace(0.05, 0.95, 60)
    apart[29:31] += np.array([0, -(apart[30] - apart[29])]) if tie else 0
    assert "calibration_slope" not in calibration_figures(labels, both(apart))
    assert "calibration_slope" not in calibration_figures(1 - labels, both(apart))


def test_probabilities_of_0_and_1_do_not_decide_alone() -> None:
    rng = np.random.default_rng(0)
    labels, found = drawn(rng, 400)
    extreme = both(np.where(rng.random(400) < 0.1, labels, found[:, 1]))
    clipped = both(np.clip(extreme[:, 1], CERTAIN, 1 - CERTAIN))
    one, other = calibration_figures(labels, extreme), calibration_figures(labels, clipped)
    assert all(np.isfinite(value) for figure in one.values() for value in figure)
    for name in ("calibration_slope", "calibration_intercept"):
        assert one[name] == pytest.approx(other[name])


# the average precision


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("digits", [1, 9])
def test_the_average_precision_is_that_of_scikit_learn_also_with_ties(classes: int, digits: int) -> None:
    rng = np.random.default_rng(classes)
    labels, found = np.arange(90) % classes, rng.dirichlet(np.ones(classes), 90).round(digits)
    score = score_classes(labels, found)
    assert score is not None
    each = [average_precision_score(labels == one, found[:, one]) for one in range(classes)]
    expected = each[1] if classes == 2 else np.mean(each)
    assert score.figures["pr_auc"].value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_variance_of_the_average_precision_is_that_of_leaving_rows_out(classes: int) -> None:
    """The jackknife, which is slow, and in the limit of many rows the same."""
    rng = np.random.default_rng(0)
    labels = np.arange(400) % classes
    found = rng.dirichlet(np.ones(classes), 400) + 0.7 * np.eye(classes)[labels]
    found /= found.sum(axis=1, keepdims=True)

    def value(rows: Any) -> float:
        score = score_classes(labels[rows], found[rows])
        assert score is not None
        return score.figures["pr_auc"].value

    left = np.array([value(np.arange(400) != row) for row in range(400)])
    score = score_classes(labels, found)
    assert score is not None
    assert score.figures["pr_auc"].variance == pytest.approx(
        399 / 400 * ((left - left.mean()) ** 2).sum(), rel=0.05
    )
