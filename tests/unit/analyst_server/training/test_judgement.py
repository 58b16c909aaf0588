"""Scores of one party, means over parties with intervals that cover, and when there is a headline."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from analyst_server.training.judgement import (
    LEAST_DISAGREEMENT,
    Estimate,
    Interval,
    conclude,
    mean_over_parties,
    mean_over_rows,
)
from analyst_server.training.party_scores import (
    LEAST_ROWS_OF_A_CLASS,
    Figure,
    PartyScore,
    score_classes,
    score_numbers,
    score_survival,
)


def drawn(rng: np.random.Generator, rows: int, shift: float = 1.0) -> tuple[Any, Any]:
    """Return labels and probabilities whose scores are normal, ``shift`` apart between the two classes."""
    labels = np.arange(rows) % 2
    found = 1 / (1 + np.exp(-rng.standard_normal(rows) - shift * labels))
    return labels, np.stack([1 - found, found], axis=1)


def scored(rng: np.random.Generator, rows: int, shift: float = 1.0) -> PartyScore:
    found = score_classes(*drawn(rng, rows, shift))
    assert found is not None
    return found


def of_two_classes(each: int, roc_auc: float, accuracy: float, variance: float = 0.0) -> PartyScore:
    """Return the score of a party with ``each`` rows of either class."""
    figures = {"roc_auc": Figure(roc_auc, variance), "accuracy": Figure(accuracy, variance)}
    return PartyScore(2 * each, figures, 1 / (6 * each), (each, each))


def estimate(
    mean: float, half_width: float = 0.01, parties: tuple[str, ...] = ("a", "b"), each: int = 200
) -> Estimate:
    """Return an estimate whose parties have ``each`` rows of every class."""
    figure = Interval(mean, mean - half_width, mean + half_width)
    scores = {name: of_two_classes(each, mean, mean) for name in parties}
    return Estimate({"roc_auc": figure, "accuracy": figure}, scores)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_scores_of_a_party_are_those_of_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    labels = np.arange(60) % classes
    found = rng.dirichlet(np.ones(classes), 60).round(1)  # with ties
    found /= found.sum(axis=1, keepdims=True)
    score = score_classes(labels, found)
    assert score is not None
    given = found[:, 1] if classes == 2 else found
    assert score.figures["roc_auc"].value == pytest.approx(roc_auc_score(labels, given, multi_class="ovr"))
    assert score.figures["accuracy"].value == accuracy_score(labels, found.argmax(axis=1))
    assert score.rows == sum(score.class_rows) == 60


def test_the_variance_of_the_roc_auc_is_that_of_a_known_case() -> None:
    """DeLong by hand: placements (1, 1, .8, .8, .6) of the positives, (1, 1, 1, .8, .4) of the others."""
    found = np.array([0.1, 0.2, 0.3, 0.55, 0.75, 0.9, 0.8, 0.7, 0.6, 0.5])
    score = score_classes(np.array([0] * 5 + [1] * 5), np.stack([1 - found, found], axis=1))
    assert score is not None
    placed = [1, 1, 0.8, 0.8, 0.6], [1, 1, 1, 0.8, 0.4]
    assert score.figures["roc_auc"].value == pytest.approx(0.84)
    assert score.figures["roc_auc"].variance == pytest.approx(
        sum(np.var(side, ddof=1) / 5 for side in placed)
    )


@pytest.mark.parametrize("rare", range(8))
def test_a_party_with_too_few_rows_of_a_class_is_not_scored(rare: int) -> None:
    labels = np.array([1] * rare + [0] * 40)
    found = score_classes(labels, np.full((len(labels), 2), 0.5))
    assert (found is None) == (rare < LEAST_ROWS_OF_A_CLASS)


@pytest.mark.parametrize("rows", [(40, 40), (20, 60, 200)])
def test_the_interval_over_rows_covers_the_truth_in_19_of_20_rounds(rows: tuple[int, ...]) -> None:
    rng, truth, covered = np.random.default_rng(0), 0.7602, 0  # Phi(1 / sqrt 2)
    for _ in range(200):
        found = mean_over_rows(
            {str(size): scored(rng, size) for size in rows[:1]}
            | {f"other {size}": scored(rng, size) for size in rows[1:]}
        )
        assert found is not None
        covered += found.figures["roc_auc"].low <= truth <= found.figures["roc_auc"].high
    assert 0.91 <= covered / 200 <= 0.985


def test_the_interval_over_parties_covers_the_truth_in_19_of_20_rounds() -> None:
    rng, covered = np.random.default_rng(1), 0
    for _ in range(200):
        found = mean_over_parties({str(party): scored(rng, 80) for party in range(5)})
        assert found is not None
        covered += found.figures["roc_auc"].low <= 0.7602 <= found.figures["roc_auc"].high
    assert 0.92 <= covered / 200 <= 0.98


def test_the_mean_over_rows_counts_rows_and_the_mean_over_parties_counts_parties() -> None:
    parties = {
        "large": of_two_classes(150, 0.9, 0.8, 1e-4),
        "small": of_two_classes(50, 0.5, 0.6, 1e-4),
    }
    by_rows, by_party = mean_over_rows(parties), mean_over_parties(parties)
    assert by_rows is not None
    assert by_party is not None
    assert (by_rows.figures["roc_auc"].mean, by_rows.figures["accuracy"].mean) == pytest.approx((0.8, 0.75))
    assert (by_party.figures["roc_auc"].mean, by_party.figures["accuracy"].mean) == pytest.approx((0.7, 0.7))
    assert by_rows.rows == 400


@pytest.mark.parametrize(("rows", "low"), [(20, 0.80), (200, 0.98)])
def test_rows_that_are_all_right_do_not_make_a_score_certain(rows: int, low: float) -> None:
    found = mean_over_rows({"a": scored(np.random.default_rng(0), rows, shift=50)})
    assert found is not None
    assert found.figures["roc_auc"].mean == found.figures["roc_auc"].high == 1
    assert found.figures["roc_auc"].low == pytest.approx(low, abs=0.005)


@pytest.mark.parametrize(("each", "is_told"), [(10, False), (30, True)])
def test_a_figure_that_parties_lack_is_a_mean_over_those_that_have_it_if_they_are_half(
    each: int, is_told: bool
) -> None:
    """Parties with 10 or 30 rows of either class, and one with 20 that has no slope: half, or fewer."""
    with_slope = of_two_classes(each, 0.9, 0.8)
    slope = {"calibration_slope": Figure(1.5, 0.01)}
    able = PartyScore(with_slope.rows, {**with_slope.figures, **slope}, with_slope.variance_by_numbers)
    parties = {"a": able, "b": of_two_classes(20, 0.9, 0.8)}
    found = mean_over_rows(parties)
    assert found is not None
    assert ("calibration_slope" in found.figures) == is_told
    if is_told:
        assert found.figures["calibration_slope"].mean == 1.5
    assert found.rows == 2 * each + 40
    over_parties = mean_over_parties(parties)
    assert over_parties is not None
    assert set(over_parties.figures) == {"roc_auc", "accuracy"}  # one party has no interval


def test_the_calibration_of_the_rows_is_kept_beside_that_of_every_party() -> None:
    score = scored(np.random.default_rng(0), 120)
    assert score.calibration is not None
    found = conclude(
        mean_over_rows({"a": score, "b": score}, score.calibration), None, rows=ROWS, one_class=0
    ).as_json()["within"]
    assert found["calibration"] == found["by_party"]["a"]["calibration"]
    assert [one["rows"] for one in found["calibration"]["bins"]] == [20] * 6
    assert found["ece"]["mean"] == pytest.approx(found["by_party"]["b"]["ece"])
    assert json.loads(json.dumps(found)) == found


def test_no_party_and_a_single_one_have_no_mean_over_parties() -> None:
    assert mean_over_rows({}) is None
    assert mean_over_parties({}) is None
    assert mean_over_parties({"a": of_two_classes(5, 0.5, 0.5)}) is None


# the headline

ROWS = {"a": 200, "b": 200, "c": 240}


def test_the_headline_is_the_score_within_the_parties() -> None:
    found = conclude(estimate(0.8), estimate(0.78), rows=ROWS, one_class=1)
    assert found.why_none is None
    assert found.headline is not None
    assert found.headline == estimate(0.8).figures


@pytest.mark.parametrize(
    ("within", "across", "rows", "one_class", "why"),
    [
        (None, None, ROWS, 3, "3 of 3 parties sent rows of one class only, so a score inside a party"),
        (estimate(0.8, parties=("a",)), None, ROWS, 2, "2 of 3 parties sent rows of one class only"),
        (estimate(0.8, parties=("a",)), None, ROWS, 0, "only 1 of 3 parties have 5 held-out rows of every"
         " class, with 31 % of the rows"),
        (None, None, ROWS, 0, "only 0 of 3 parties"),
        (estimate(0.8), None, {"a": 200}, 0, "only one party sent rows"),
        (estimate(0.8, 0.06, each=20), None, ROWS, 0, "too few rows of a class: the ROC-AUC inside the"
         " parties may lie anywhere between 74.0 and 86.0"),
        (estimate(0.84), estimate(0.62), ROWS, 0, "inside the parties score 84.0 and parties held out 62.0:"
         " they disagree by more than their intervals"),
        (estimate(0.62), estimate(0.84), ROWS, 0, "62.0 and parties held out 84.0"),
    ],
)  # fmt: skip
def test_there_is_no_headline_and_a_sentence_says_why(
    within: Estimate | None, across: Estimate | None, rows: dict[str, int], one_class: int, why: str
) -> None:
    found = conclude(within, across, rows=rows, one_class=one_class)
    assert found.headline is None
    assert why in str(found.why_none)
    assert found.within is within  # what was measured is shown all the same
    assert "\n" not in str(found.why_none)


@pytest.mark.parametrize(
    "across", [estimate(0.8 - LEAST_DISAGREEMENT + 0.001, 0.001), estimate(0.5, 0.3), None]
)
def test_estimates_that_may_be_the_same_withhold_no_headline(across: Estimate | None) -> None:
    assert conclude(estimate(0.8, 0.001), across, rows=ROWS, one_class=0).headline is not None


@pytest.mark.parametrize(
    ("each", "half_width", "told"), [(130, 0.1, True), (125, 0.03, False), (125, 0.019, True)]
)
def test_numbers_of_rows_decide_what_is_too_few_unless_the_interval_is_narrow(
    each: int, half_width: float, told: bool
) -> None:
    """A bound on the measured width would prefer scores that are high by chance."""
    found = conclude(estimate(0.9, half_width, each=each), None, rows={"a": 1, "b": 1}, one_class=0)
    assert (found.headline is not None) == told


def test_a_judgement_is_kept_as_plain_values_without_its_variances() -> None:
    found = conclude(estimate(0.8), None, rows=ROWS, one_class=0, notes=["one note"]).as_json()
    assert json.loads(json.dumps(found)) == found
    assert list(found) == ["within", "across", "headline", "why_none", "notes", "is_pending"]
    lacking = dict.fromkeys(("ece", "calibration_slope", "calibration_intercept", "calibration"))
    assert found["within"]["by_party"]["a"] == {"rows": 400, "roc_auc": 0.8, "accuracy": 0.8, **lacking}
    assert {name: found["within"][name] for name in lacking} == lacking
    assert found["headline"]["roc_auc"] == {"mean": 0.8, "low": 0.79, "high": 0.81}
    assert found["across"] is None


def test_the_scores_of_numbers_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.uniform(-1, 1, 60)
    found = labels + 0.3 * rng.standard_normal(60)
    score = score_numbers(labels, found, 25.0)
    assert score is not None
    assert score.figures["r2"].value == pytest.approx(r2_score(labels, found))
    assert score.figures["rmse"].value == pytest.approx(root_mean_squared_error(25 * labels, 25 * found))
    assert score.figures["mae"].value == pytest.approx(mean_absolute_error(25 * labels, 25 * found))
    assert score_numbers(labels[:9], found[:9], 25.0) is None
    assert score_numbers(np.full(60, 0.5), found, 25.0) is None


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_the_intervals_of_numbers_cover(share: float) -> None:
    """Predictions that explain a share of the variance; 95 % of the intervals should hold the truth."""
    rng, covered = np.random.default_rng(7), dict.fromkeys(("r2", "rmse", "mae"), 0)
    error = np.sqrt(1 - share)
    truth = {"r2": share, "rmse": error, "mae": error * np.sqrt(2 / np.pi)}
    for _ in range(300):
        told = np.sqrt(share) * rng.standard_normal(240)
        labels = told + error * rng.standard_normal(240)
        parts = {str(i): score_numbers(labels[i::2], told[i::2], 1.0) for i in range(2)}
        found = mean_over_rows({name: part for name, part in parts.items() if part is not None})
        assert found is not None
        for name, figure in found.figures.items():
            covered[name] += figure.low <= truth[name] <= figure.high
    assert min(covered.values()) >= 0.9 * 300, covered


def test_the_concordance_counts_pairs_whose_order_is_known() -> None:
    labels = np.array([0.1, -0.2, 0.3, 0.3, -0.3, 0.5] * 3)
    rng = np.random.default_rng(0)
    found = rng.random((len(labels), 2)).round(1)
    score, until, event, mean = (
        score_survival(labels, found, (0.2, 0.4)),
        np.abs(labels),
        labels > 0,
        found.mean(axis=1),
    )
    right = pairs = 0.0
    for i in range(len(labels)):
        for j in range(len(labels)):
            if event[i] and (until[i] < until[j] or (until[i] == until[j] and not event[j])):
                pairs += 1
                right += (mean[i] < mean[j]) + (mean[i] == mean[j]) / 2
    assert score is not None
    assert score.figures["c_index"].value == pytest.approx(right / pairs)
    assert score_survival(labels[:9], found[:9], (0.2, 0.4)) is None
    assert score_survival(-np.abs(labels), found, (0.2, 0.4)) is None


def test_the_brier_score_of_the_truth_is_what_it_would_be_if_all_events_were_seen() -> None:
    """Weighting makes up for rows whose observation ended; without it the score would be far off."""
    rng = np.random.default_rng(0)
    rates = np.exp(rng.standard_normal(4000))
    until, end = rng.exponential(0.5 / rates), rng.uniform(0.05, 1.0, 4000)
    labels = np.where(until <= end, until, -end)
    survival = np.exp(-0.3 * rates / 0.5)[:, None]
    found = score_survival(labels, survival, (0.3,))
    assert found is not None
    assert found.figures["ibs"].value == pytest.approx(
        np.mean((survival[:, 0] - (until > 0.3)) ** 2), abs=0.01
    )


def test_the_intervals_of_the_concordance_cover() -> None:
    rng, covered, truth = np.random.default_rng(5), 0, 0.0
    for number in range(201):
        rows = 20_000 if number == 0 else 200
        told = rng.standard_normal(rows)
        until, end = rng.exponential(np.exp(told)), rng.uniform(0.2, 4, rows)
        labels = np.where(until <= end, until, -end) / 4
        score = score_survival(labels, (1 / (1 + np.exp(-told)))[:, None], (0.5,))
        assert score is not None
        figure = score.figures["c_index"]
        if number == 0:
            truth = figure.value
        else:
            covered += abs(figure.value - truth) < 1.96 * figure.variance**0.5
    assert covered >= 0.9 * 200


def test_the_brier_score_does_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    labels = np.ceil(rng.uniform(0, 1, 120) * 6) / 6 * rng.choice([-1, 1], 120)
    found = rng.random((120, 2))
    scores = []
    for _ in range(3):
        order = rng.permutation(120)
        score = score_survival(labels[order], found[order], (0.4, 0.7))
        assert score is not None
        scores.append(score.figures["ibs"].value)
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-12)


def test_numbers_far_from_all_others_withhold_the_headline() -> None:
    rng = np.random.default_rng(0)
    told = rng.standard_normal(300)
    parts = {f"party-{i}": score_numbers(told + rng.standard_normal(300), told, 1.0) for i in range(3)}
    constant = np.zeros(300)
    constant[7] = 0.001
    parts["party-3"] = score_numbers(constant, told, 1.0)
    scores = {name: part for name, part in parts.items() if part is not None}
    found = conclude(mean_over_rows(scores), None, rows=dict.fromkeys(scores, 300), one_class=0)
    assert found.headline is None
    assert "R squared inside the parties may lie anywhere" in str(found.why_none)
