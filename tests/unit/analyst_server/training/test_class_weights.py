"""With class weights every class counts the same; without them a model is what it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from analyst_server.training.logistic import Logistic
from analyst_server.training.models import Model, fit, fit_task
from analyst_server.training.party_scores import score_classes
from analyst_server.training.tasks import Numbers
from tests.harness.problems import MODELS, MODELS_OF_NUMBERS, WEIGHTED, numbers

KINDS = pytest.mark.parametrize("kind", list(WEIGHTED))
RARE = 0.1


def imbalanced(rows: int = 800, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Return rows that overlap, of which the last class has one in ten, and the others equally many."""
    rng = np.random.default_rng(seed)
    shares = np.append(np.full(classes - 1, (1 - RARE) / (classes - 1)), RARE)
    labels = np.repeat(np.arange(classes), np.round(shares * rows).astype(int))
    drawn = rng.standard_normal((rows, 4)) + 1.2 * np.eye(classes, 4)[labels]
    return drawn.astype(np.float32), labels


def test_the_weights_make_every_class_count_the_same_and_all_rows_as_many_as_there_are() -> None:
    labels = np.array([0] * 6 + [1] * 3 + [2])
    weights = Logistic(class_weight="balanced").row_weights(labels)
    assert weights is not None
    assert [weights[labels == one].sum() for one in range(3)] == pytest.approx([10 / 3] * 3)
    assert Logistic().row_weights(labels) is None


@KINDS
@pytest.mark.parametrize("classes", [2, 3])
def test_the_probabilities_of_new_rows_are_those_of_equally_many_of_every_class(
    kind: str, classes: int
) -> None:
    """The mean probability, with every class counted the same, is the same for every class."""
    rows, labels = imbalanced(rows=3000, classes=classes)
    new, of_class = imbalanced(rows=2000, classes=classes, seed=1)

    def means(model: Model) -> Any:
        found = fit(model, rows, labels, classes).predictions(new)
        return np.mean([found[of_class == one].mean(axis=0) for one in range(classes)], axis=0)

    # what fits its rows too well is less sure of new ones of the class with few
    assert means(WEIGHTED[kind]) == pytest.approx(np.full(classes, 1 / classes), abs=0.12)
    assert means(WEIGHTED[kind])[-1] > means(MODELS[kind])[-1] + 0.02
    assert means(MODELS[kind])[-1] < 1 / classes - 0.05


def scored(model: Model) -> tuple[dict[str, float], float, float]:
    """Return scores of new rows, and the shares of the rare class that are predicted and above its share."""
    rows, labels = imbalanced(rows=3000)
    new, of_class = imbalanced(rows=4000, seed=1)
    found = fit(model, rows, labels, 2).predictions(new).astype(np.float64)
    score = score_classes(of_class, found)
    assert score is not None
    rare = found[of_class == 1]
    figures = {name: figure.value for name, figure in score.figures.items()}
    return figures, float(rare.argmax(axis=1).mean()), float((rare[:, 1] >= RARE).mean())


@KINDS
def test_more_of_a_rare_class_is_found_and_its_probabilities_are_too_high(kind: str) -> None:
    """What docs/scores.md says of class weights."""
    plain, found, above = scored(MODELS[kind])
    weighted, found_with_weights, _ = scored(WEIGHTED[kind])
    assert found_with_weights > found + 0.3
    assert weighted["accuracy"] < plain["accuracy"] - 0.05
    assert weighted["brier"] > plain["brier"] + 0.03
    assert abs(plain["calibration_intercept"]) < 0.2
    assert weighted["calibration_intercept"] < -1.3
    if kind == "svm":  # without weights, its margin hardly sees the rare class
        assert weighted["roc_auc"] > plain["roc_auc"] + 0.05
    else:
        assert weighted["roc_auc"] == pytest.approx(plain["roc_auc"], abs=0.02)
        assert above > found_with_weights - 0.1  # a threshold without weights finds as many


def test_a_weight_is_worth_as_many_copies_of_a_row() -> None:
    """Nine rows of a class for one of the other: each of the latter nine times."""
    rows, labels = imbalanced(rows=400)
    copied = np.repeat(np.arange(400), np.where(labels == 1, 9, 1))
    exact: Any = {"C": np.inf, "tol": 1e-10, "max_iter": 10_000}
    weights = Logistic(class_weight="balanced").row_weights(labels)
    weighted = LogisticRegression(**exact).fit(rows, labels, sample_weight=weights)
    twice = LogisticRegression(**exact).fit(rows[copied], labels[copied])
    ours = fit(Logistic(inverse_penalty=1e9, class_weight="balanced"), rows, labels, 2)
    assert weighted.predict_proba(rows) == pytest.approx(twice.predict_proba(rows), abs=1e-5)
    assert ours.predictions(rows) == pytest.approx(twice.predict_proba(rows), abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "estimator"),
    [
        ("logistic", LogisticRegression),
        ("mlp", MLPClassifier),
        ("random-forest", RandomForestClassifier),
        ("gradient-boosting", HistGradientBoostingClassifier),
    ],
)
def test_the_library_is_handed_the_weights(
    kind: str, estimator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Any] = []
    original = estimator.fit

    def noting(self: Any, rows: Any, labels: Any, sample_weight: Any = None) -> Any:
        handed.append(sample_weight)
        return original(self, rows, labels, sample_weight=sample_weight)

    monkeypatch.setattr(estimator, "fit", noting)
    rows, labels = imbalanced(rows=100)
    for model in (WEIGHTED[kind], MODELS[kind]):
        fit(model, rows, labels, 2)
    assert handed[0] == pytest.approx(np.where(labels == 1, 5.0, 5 / 9))
    assert handed[1] is None


@KINDS
def test_equal_classes_are_weighted_by_one(kind: str) -> None:
    rows, labels = imbalanced(rows=300)
    even = np.concatenate([np.flatnonzero(labels == one)[:30] for one in (0, 1)])
    plain, weighted = (fit(model, rows[even], labels[even], 2) for model in (MODELS[kind], WEIGHTED[kind]))
    apart = np.abs(weighted.predictions(rows) - plain.predictions(rows))
    if kind == "random-forest":  # it draws other rows if they have weights
        assert apart.mean() < 0.1
    else:
        assert apart.max() < 2e-3


@pytest.mark.parametrize("kind", [kind for kind in WEIGHTED if kind in MODELS_OF_NUMBERS])
def test_a_model_of_numbers_knows_no_weights(kind: str) -> None:
    rows, labels = numbers()
    model = MODELS_OF_NUMBERS[kind]
    weighted = replace(model, class_weight="balanced")  # type: ignore[call-arg]  # those that have it
    one, other = (fit_task(each, rows, labels, Numbers()).predictions(rows) for each in (model, weighted))
    assert np.array_equal(one, other)
