from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from user_client import scores
from user_client.scores import (
    MOST_PAIRED,
    NORMAL_95,
    can_be_scored,
    compare,
    concordance,
    label_scores,
    roc_auc,
    too_few,
)

Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [1, 8])
def test_roc_auc_is_that_of_scikit_learn_also_with_ties(seed: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    scores, positive = rng.standard_normal(200).round(digits), rng.random(200) < 0.3
    assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


@pytest.mark.parametrize("positive", [[True, True], [False, False]])
def test_one_class_has_none(positive: list[bool]) -> None:
    assert roc_auc(np.array([0.0, 1.0]), np.array(positive)) is None


def sample(
    rng: np.random.Generator, rows: int, classes: int = 2, *, gain: float = 0.5
) -> tuple[Any, Array, Array]:
    """Return labels and the probabilities of two models that err on the same rows; the first errs less."""
    labels = rng.integers(classes, size=rows)
    shared = rng.standard_normal((rows, classes))
    found = []
    for strength in (1 + gain, 1.0):
        outputs = strength * np.eye(classes)[labels] + shared + 0.5 * rng.standard_normal((rows, classes))
        found.append(np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True))
    return labels, found[0], found[1]


@pytest.mark.parametrize("classes", [2, 4])
def test_the_score_is_the_mean_roc_auc_of_scikit_learn(classes: int) -> None:
    labels, together, alone = sample(np.random.default_rng(0), 300, classes)
    found = compare(labels, together, alone)
    expected = [
        roc_auc_score(labels, one[:, 1] if classes == 2 else one, multi_class="ovr")
        for one in (together, alone)
    ]
    assert found.metric == "roc_auc"
    assert [found.together, found.alone] == pytest.approx(expected, abs=1e-12)


def width(labels: Any, together: Array, alone: Array) -> float:
    """Return the standard error that the interval is made of."""
    found = compare(labels, together, alone)
    assert found.gain_low is not None
    assert found.gain_high is not None
    return (found.gain_high - found.gain_low) / (2 * NORMAL_95)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_interval_is_as_wide_as_a_bootstrap_of_the_rows_says(classes: int) -> None:
    rng = np.random.default_rng(0)
    labels, together, alone = sample(rng, 400, classes)
    gained = []
    for _ in range(600):
        drawn = rng.integers(400, size=400)
        found = compare(labels[drawn], together[drawn], alone[drawn])
        assert found.alone is not None
        gained.append(found.together - found.alone)
    assert width(labels, together, alone) == pytest.approx(np.std(gained), rel=0.1)


@pytest.mark.parametrize(("rows", "classes", "least"), [(60, 2, 0.91), (200, 2, 0.93), (200, 3, 0.93)])
def test_the_interval_contains_the_gain_about_nineteen_times_in_twenty(
    rows: int, classes: int, least: float
) -> None:
    rng = np.random.default_rng(0)
    labels, together, alone = sample(rng, 200_000, classes)
    truth = compare(labels, together, alone)
    assert truth.alone is not None
    gain, hits = truth.together - truth.alone, 0
    for _ in range(600):
        found = compare(*sample(rng, rows, classes))
        assert found.gain_low is not None
        assert found.gain_high is not None
        hits += found.gain_low <= gain <= found.gain_high
    assert least < hits / 600 < 0.98


def test_a_difference_of_the_same_rows_is_known_better_than_either_score() -> None:
    labels, together, alone = sample(np.random.default_rng(0), 400)
    unpaired = np.random.default_rng(1).permutation(400)
    assert width(labels, together, alone) < 0.8 * width(labels, together, together[unpaired])
    assert width(labels, together, together) == 0


def test_rows_of_one_class_are_scored_by_accuracy() -> None:
    _, together, alone = sample(np.random.default_rng(0), 50)
    labels = np.ones(50, dtype=int)
    found = compare(labels, together, alone)
    assert found.metric == "accuracy"
    expected = [accuracy_score(labels, one.argmax(axis=1)) for one in (together, alone)]
    assert [found.together, found.alone] == pytest.approx(expected)


def test_a_class_without_rows_does_not_count() -> None:
    labels, together, alone = sample(np.random.default_rng(0), 100)
    wide = [np.concatenate([one, np.zeros((100, 1))], axis=1) for one in (together, alone)]
    assert compare(labels, wide[0], wide[1]) == compare(labels, together, alone)


def test_without_another_model_there_is_no_gain() -> None:
    labels, together, _ = sample(np.random.default_rng(0), 100)
    found = compare(labels, together, None)
    assert (found.alone, found.gain_low, found.gain_high) == (None, None, None)


def test_one_row_tells_nothing_of_the_gain() -> None:
    found = compare(np.array([1]), np.array([[0.1, 0.9]]), np.array([[0.1, 0.9]]))
    assert (found.together, found.alone, found.gain_low, found.gain_high) == (1.0, 1.0, None, None)
    assert too_few(np.array([1]), "classes") == "an interval needs 10 rows, got 1"
    assert too_few(np.ones(400, np.uint8), "classes") == "these rows are all of one class"


@pytest.mark.parametrize(("of_one", "of_other", "is_told"), [(1, 1, False), (4, 90, False), (5, 90, True)])
def test_few_rows_of_a_class_tell_nothing_of_the_gain(of_one: int, of_other: int, is_told: bool) -> None:
    """Two models that rank two rows alike would have an interval from 0 to 0."""
    labels = np.array([1] * of_one + [0] * of_other)
    sure = np.eye(2)[labels]
    found = compare(labels, sure, sure)
    assert (found.gain_low, found.gain_high) == ((0, 0) if is_told else (None, None))
    assert (too_few(labels, "classes", ("well", "ill")) is None) == is_told


def test_who_gets_no_interval_is_told_of_which_class_or_label_there_are_too_few_rows() -> None:
    several = np.repeat([0, 1, 2, 3], [40, 4, 9, 2])
    of_each = "an interval needs 5 rows of each class; too few for b, d"
    assert too_few(several, "classes", ("a", "b", "c", "d")) == of_each
    assert too_few(several[:49], "classes") == "an interval needs 5 rows of each class; too few for 1"
    bits = np.array([0b00] * 10 + [0b01] * 10 + [0b11] * 4, np.uint8)
    said = "an interval needs 5 rows with each label and as many without; too few for asthma"
    assert too_few(bits, "multilabel", ("copd", "asthma")) == said
    assert too_few(np.array([0b01] * 16 + [0b00] * 4, np.uint8), "multilabel", ("copd", "asthma")) is not None
    assert too_few(bits[:20], "multilabel", ("copd", "asthma")) is None  # no row has the other
    times = np.array([1.0] * 9 + [-2.0] * 50)
    assert too_few(times, "survival") == "an interval needs 10 rows with the event, got 9"
    assert too_few(times, "number") is None


def test_an_interval_ends_where_no_gain_can_be() -> None:
    labels = np.arange(10) % 2
    right, wrong = np.eye(2)[labels], np.eye(2)[1 - labels]
    found = compare(labels, right, wrong)
    assert (found.together, found.alone, found.gain_high) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("digits", [1, 8])
def test_concordance_of_two_numbers_is_the_roc_auc(digits: int) -> None:
    rng = np.random.default_rng(0)
    scores, positive = rng.standard_normal(200).round(digits), rng.random(200) < 0.3
    assert concordance(scores, positive.astype(float)) == pytest.approx(roc_auc_score(positive, scores))
    assert concordance(scores, np.zeros(200)) is None


def test_concordance_of_many_rows_is_that_of_some() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(3 * MOST_PAIRED)
    found = concordance(numbers + rng.standard_normal(len(numbers)), numbers)
    assert found == pytest.approx(0.75, abs=0.02)  # 1/2 + asin(r) / pi with r^2 = 1/2


def test_r_squared_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.standard_normal(80).astype(np.float32)
    together, alone = (labels[:, None] + noise * rng.standard_normal((80, 1)) for noise in (0.3, 3.0))
    found = compare(labels, together, alone, "number")
    assert found.metric == "r2"
    assert [found.together, found.alone] == pytest.approx(
        [r2_score(labels, together), r2_score(labels, alone)]
    )
    assert found.alone is not None
    assert found.alone < -1  # below the mean of the labels, and said so
    assert found.gain_low is not None
    assert found.gain_low > 1


def test_the_interval_of_r_squared_covers_the_gain() -> None:
    rng, covered = np.random.default_rng(3), 0
    for _ in range(300):
        told, shared = rng.standard_normal(150), rng.standard_normal(150)
        labels = told + 0.5 * shared
        first, second = told + 0.1 * rng.standard_normal(150), told + 0.5 * rng.standard_normal(150)
        found = compare(labels, first[:, None], second[:, None], "number")
        assert found.gain_low is not None
        assert found.gain_high is not None
        covered += found.gain_low <= (0.25 - 0.01) / 1.25 <= found.gain_high
    assert covered >= 0.9 * 300


def test_labels_that_can_tell_nothing_are_known_before() -> None:
    assert not can_be_scored(np.full(5, 0.5, np.float32), "number")
    assert can_be_scored(np.array([0.5, 0.25]), "number")
    assert not can_be_scored(-np.ones(5), "survival")
    assert not can_be_scored(np.array([0.5, -0.25]), "survival")
    assert can_be_scored(np.array([0.5, -0.5]), "survival")
    assert can_be_scored(np.array([1]), "classes")
    assert not can_be_scored(np.array([], np.uint8), "classes")


def test_the_concordance_index_and_its_interval_cover_the_gain() -> None:
    rng, covered, truth = np.random.default_rng(3), 0, 0.0
    for number in range(151):
        rows = 10_000 if number == 0 else 150
        told = rng.standard_normal(rows)
        until, end = rng.exponential(np.exp(told)), rng.uniform(0.2, 4, rows)
        labels = np.where(until <= end, until, -end) / 50
        first, second = (told + noise * rng.standard_normal(rows) for noise in (0.3, 1.0))
        survival = [1 / (1 + np.exp(-each))[:, None] for each in (first, second)]
        found = compare(labels, survival[0], survival[1], "survival")
        assert found.metric == "c_index"
        assert found.alone is not None
        assert found.gain_low is not None
        assert found.gain_high is not None
        if number == 0:
            truth = found.together - found.alone
        else:
            covered += found.gain_low <= truth <= found.gain_high
    assert 0.02 < truth < 0.2
    assert covered >= 0.88 * 150


def test_all_pairs_count_however_many_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels, survival = rng.uniform(-1, 1, 90).round(1), rng.random((90, 2)).round(1)
    labels[labels == 0] = 0.05
    at_once = compare(labels, survival, survival[::-1], "survival")
    monkeypatch.setattr(scores, "MOST_PAIRED", 20)
    in_blocks = compare(labels, survival, survival[::-1], "survival")
    assert vars(in_blocks) == pytest.approx(vars(at_once))


def test_several_labels_have_the_mean_of_their_scores() -> None:
    rng = np.random.default_rng(0)
    has = rng.random((200, 3)) < [0.5, 0.2, 0.0]
    labels, told = (has * [1, 2, 4]).sum(axis=1), has + rng.standard_normal((200, 3))
    found = compare(labels, told, told[:, ::-1], "multilabel")
    expected = [roc_auc_score(has[:, one], told[:, one]) for one in range(2)]  # nobody has the third
    assert found.metric == "roc_auc"
    assert found.together == pytest.approx(np.mean(expected))
    assert label_scores(labels, told) == [*map(pytest.approx, expected), None]
    assert found.gain_low is not None
    assert found.alone is not None
    assert found.gain_high is not None
    assert found.gain_low < found.together - found.alone < found.gain_high


def test_rows_with_the_same_labels_have_an_accuracy_alone() -> None:
    told = np.array([[0.9, 0.1], [0.4, 0.2]])
    found = compare(np.array([1, 1]), told, None, "multilabel")
    assert (found.metric, found.together) == ("accuracy", 0.75)


def clear(labels: NDArray[Any], together: Any, alone: Any, task: Any) -> bool:
    found = compare(labels, np.asarray(together), np.asarray(alone), task)
    if found.gain_low is None or found.gain_high is None:
        assert too_few(labels, task)
        return False
    return not found.gain_low <= 0 <= found.gain_high


@pytest.mark.parametrize("rows", [2, 4, 9])
def test_a_few_numbers_never_make_a_difference_clear_however_large_it_is(rows: int) -> None:
    labels = np.arange(rows, dtype=np.float64)
    assert not clear(labels, labels[:, None], 100 - labels[:, None], "number")
    assert not clear(labels, 100 - labels[:, None], labels[:, None], "number")


def share_of_clear(draw: Callable[[np.random.Generator], tuple[Any, Any, Any]], task: Any) -> float:
    rng = np.random.default_rng(3)
    return float(np.mean([clear(*draw(rng), task) for _ in range(300)]))


def test_two_equal_models_of_a_rare_class_are_seldom_told_apart() -> None:
    def draw(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        labels = rng.choice(5, 50, p=[0.44, 0.44, 0.04, 0.04, 0.04])
        scores = rng.normal(size=(2, 50, 5))
        scores[:, np.arange(50), labels] += 1
        together, alone = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        return labels, together, alone

    assert share_of_clear(draw, "classes") < 0.08


def test_two_equal_models_of_rare_labels_are_seldom_told_apart() -> None:
    def draw(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        has = rng.random((100, 2)) < 0.03
        scores = rng.normal(size=(2, 100, 2)) + has
        together, alone = 1 / (1 + np.exp(-scores))
        return (has @ np.array([1, 2])).astype(np.int64), together, alone

    assert share_of_clear(draw, "multilabel") < 0.08


def test_two_equal_models_of_few_events_are_seldom_told_apart() -> None:
    def draw(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        truth = rng.normal(size=60)
        times = rng.exponential(np.exp(truth)) + 0.01
        times[5:] *= -1  # five events
        return times, (truth + rng.normal(size=60))[:, None], (truth + rng.normal(size=60))[:, None]

    assert share_of_clear(draw, "survival") < 0.08


def test_enough_rows_of_everything_make_a_difference_clear() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    good, bad = 0.5 + 0.4 * (labels - 0.5) + 0.01 * rng.normal(size=40), rng.random(40)
    assert clear(labels, np.stack([1 - good, good], axis=1), np.stack([1 - bad, bad], axis=1), "classes")
