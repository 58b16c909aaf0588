"""The model of a party's own rows is that of the analyst, fitted without scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from analyst_server.training.averaged import Averaged
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Classifier, Labels, Model, fit, fit_task
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Numbers
from tests.harness.peaks import peak_bytes
from tests.harness.problems import numbers
from user_client.rows import Block, Rows
from user_client.secret import local_model
from user_client.secret.local_model import (
    FITTED_ROWS,
    LogisticOptions,
    NetworkOptions,
    Options,
    RidgeOptions,
    fit_local_model,
)
from user_client.secret.network import loss_and_gradients

Array = np.ndarray[Any, np.dtype[np.float64]]
SEEDS = 4
LOGISTIC = LogisticOptions(inverse_penalty=0.1, epochs=1000)
SHORT = NetworkOptions(hidden_units=256, learning_rate=0.002, epochs=20, weight_penalty=1.0)
LONG = NetworkOptions(hidden_units=64, learning_rate=0.002, epochs=200, weight_penalty=1e-4)


def hard() -> tuple[Array, Any]:
    rows, labels = make_classification(
        900, 20, n_informative=6, n_redundant=4, n_classes=3, class_sep=0.7, flip_y=0.1, random_state=0
    )
    return rows, labels


def bundled(load: Callable[..., Any]) -> tuple[Array, Any]:
    rows, labels = load(return_X_y=True)
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1), labels


TABLES = {
    "breast cancer": bundled(load_breast_cancer),
    "wine": bundled(load_wine),
    "digits": bundled(load_digits),
    "three noisy classes": hard(),
}


def split(name: str, seed: int) -> tuple[Array, Array, Any, Any]:
    """Return few rows to fit on, and the others: a score of 100 % would hide a difference."""
    rows, labels = TABLES[name]
    kept, tested, kept_labels, tested_labels = train_test_split(
        rows, labels, train_size=150, stratify=labels, random_state=seed
    )
    return kept, tested, kept_labels, tested_labels


def auc(labels: Any, found: Array) -> float:
    return float(roc_auc_score(labels, found[:, 1] if found.shape[1] == 2 else found, multi_class="ovr"))


class Exact(Logistic):
    """The analyst's logistic regression, iterated to the end: it stops a little earlier."""

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:
        return super().classifier(labels, latent_dim).set_params(tol=1e-8)


@pytest.mark.parametrize("table", TABLES)
def test_the_probabilities_of_a_logistic_regression_are_those_of_the_analyst(table: str) -> None:
    rows, tested, labels, _ = split(table, 0)
    classes = len(np.unique(labels))
    expected = fit(Exact(inverse_penalty=0.1), rows, labels, classes).pipeline.predict_proba(tested)
    model = fit_local_model([LOGISTIC], rows, labels, classes, np.random.default_rng(0))
    assert model is not None
    np.testing.assert_allclose(model.predictions(tested), expected, atol=1e-3)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ([LOGISTIC, SHORT], Averaged()),
        ([SHORT], Mlp(epochs=20, weight_penalty=1.0)),
        ([LONG], Mlp(hidden_units=64)),
    ],
    ids=["averaged", "short network", "long network"],
)
def test_the_score_is_within_half_a_point_of_the_analysts_model(
    table: str, options: list[Options], kind: Model
) -> None:
    gaps = []
    for seed in range(SEEDS):
        rows, tested, labels, answers = split(table, seed)
        classes = len(np.unique(labels))
        theirs = fit(type(kind)(**{**vars(kind), "seed": seed}), rows, labels, classes)
        ours = fit_local_model(options, rows, labels, classes, np.random.default_rng(seed))
        assert ours is not None
        gaps.append(
            auc(answers, ours.predictions(tested)) - auc(answers, theirs.pipeline.predict_proba(tested))
        )
    assert abs(np.mean(gaps)) < 0.005


def test_a_network_stops_where_the_loss_does_not_fall_any_more() -> None:
    rows, labels = np.zeros((20, 2)), np.arange(20) % 2
    endless = NetworkOptions(hidden_units=2, learning_rate=1e-6, epochs=10**9, weight_penalty=0.0)
    model = fit_local_model([endless], rows, labels, 2, np.random.default_rng(0))
    assert model is not None
    np.testing.assert_allclose(model.predictions(rows).sum(axis=1), 1, atol=1e-6)


def test_a_class_that_it_has_not_seen_has_probability_zero() -> None:
    rows, _, labels, _ = split("wine", 0)
    labels = np.where(labels == 1, 2, labels)
    model = fit_local_model([LOGISTIC, SHORT], rows, labels, 4, np.random.default_rng(0))
    assert model is not None
    found = model.predictions(rows)
    np.testing.assert_array_equal(found[:, [1, 3]], 0)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("count", [0, 5])
def test_rows_of_one_class_have_no_model(count: int) -> None:
    one_class = np.ones(count, dtype=np.uint8)
    assert fit_local_model([LOGISTIC], np.eye(5)[:count], one_class, 2, np.random.default_rng(0)) is None


def test_of_many_rows_some_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "FITTED_ROWS", 100)
    rows, _, labels, _ = split("wine", 0)
    model = fit_local_model([LOGISTIC], rows, labels, 3, np.random.default_rng(0))
    assert model is not None
    assert (model.fitted_rows, len(rows)) == (100, 150)


def test_the_same_seed_gives_the_same_model_and_rows_are_left_as_they_are() -> None:
    rows, tested, labels, _ = split("wine", 0)
    before = rows.copy()
    found = [fit_local_model([SHORT], rows, labels, 3, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(rows, before)
    first, second = (model.predictions(tested) for model in found if model is not None)
    np.testing.assert_array_equal(first, second)


def test_the_repr_of_a_model_shows_no_numbers() -> None:
    rows, _, labels, _ = split("wine", 0)
    model = fit_local_model([LOGISTIC], rows, labels, 3, np.random.default_rng(0))
    assert repr(model) == "<LocalModel of 1 networks>"


@pytest.mark.parametrize("inverse_penalty", [0.1, 1.0])
def test_the_numbers_of_a_ridge_regression_are_those_of_the_analyst(inverse_penalty: float) -> None:
    rows, labels = numbers(rows=200)
    expected = fit_task(Ridge(inverse_penalty=inverse_penalty), rows.astype(np.float64), labels, Numbers())
    model = fit_local_model(
        [RidgeOptions(inverse_penalty)], rows.astype(np.float64), labels, 0, np.random.default_rng(0)
    )
    assert model is not None
    np.testing.assert_allclose(model.predictions(rows), expected.predictions(rows), atol=1e-6)


def test_the_default_of_numbers_scores_as_the_analysts_does() -> None:
    rows, labels = numbers(rows=400)
    train, test = slice(0, 250), slice(250, None)
    options: list[Options] = [RidgeOptions(0.1), NetworkOptions(256, 0.002, 20, 1.0)]
    theirs = fit_task(Averaged(), rows[train], labels[train], Numbers()).predictions(rows[test])
    ours = fit_local_model(
        options, rows[train].astype(np.float64), labels[train], 0, np.random.default_rng(0)
    )
    assert ours is not None
    scores = [r2_score(labels[test], each) for each in (ours.predictions(rows[test]), theirs)]
    assert min(scores) > 0.6
    assert abs(scores[0] - scores[1]) < 0.02


def test_one_number_everywhere_has_no_model() -> None:
    rows, _ = numbers()
    assert fit_local_model([RidgeOptions(1.0)], rows, np.full(150, 0.25), 0, np.random.default_rng(0)) is None


# class weights


def imbalanced() -> tuple[Array, Any]:
    rng = np.random.default_rng(0)
    labels = (np.arange(300) < 40).astype(int) + (np.arange(300) < 15)
    return rng.standard_normal((300, 4)) + np.eye(3, 4)[labels], labels


@pytest.mark.parametrize("classes", [2, 3])
def test_a_weighted_logistic_regression_is_that_of_the_analyst(classes: int) -> None:
    rows, labels = imbalanced()
    labels = np.minimum(labels, classes - 1)
    ours = fit_local_model([LOGISTIC], rows, labels, classes, np.random.default_rng(0), balanced=True)
    assert ours is not None
    theirs = fit(Exact(inverse_penalty=0.1, class_weight="balanced"), rows, labels, classes)
    assert ours.predictions(rows) == pytest.approx(theirs.predictions(rows), abs=1e-4)
    plain = fit_local_model([LOGISTIC], rows, labels, classes, np.random.default_rng(0))
    assert plain is not None
    assert np.abs(plain.predictions(rows) - ours.predictions(rows)).max() > 0.1


def test_a_weighted_network_is_about_as_sure_as_that_of_the_analyst() -> None:
    """They start elsewhere, so that their means over some starts are compared."""
    rows, labels = imbalanced()
    ours, theirs = [], []
    for seed in range(SEEDS):
        model = fit_local_model([SHORT], rows, labels, 3, np.random.default_rng(seed), balanced=True)
        assert model is not None
        ours.append(model.predictions(rows))
        network = Mlp(epochs=20, weight_penalty=1.0, seed=seed, class_weight="balanced")
        theirs.append(fit(network, rows, labels, 3).predictions(rows))
    assert np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)).mean() < 0.02


def test_the_gradient_of_a_weighted_loss_is_its_slope() -> None:
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((12, 3)), np.eye(3)[np.arange(12) % 3]
    layers = [
        (rng.standard_normal((3, 5)), rng.standard_normal(5)),
        (rng.standard_normal((5, 3)), np.zeros(3)),
    ]
    weights = rng.random(12)

    def loss() -> float:
        return loss_and_gradients(layers, rows, targets, 0.1, weights_of_rows=weights)[0]

    _, gradients = loss_and_gradients(layers, rows, targets, 0.1, weights_of_rows=weights)
    for layer, gradient in zip(layers, gradients, strict=True):
        for numbers_of, slopes in zip(layer, gradient, strict=True):
            for place in np.ndindex(numbers_of.shape):
                before = numbers_of[place]
                ends = []
                for step in (1e-6, -1e-6):
                    numbers_of[place] = before + step
                    ends.append(loss())
                numbers_of[place] = before
                assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_the_rows_that_a_model_of_many_is_fitted_on_are_in_memory_once() -> None:
    rng, features = np.random.default_rng(0), 40
    part = rng.standard_normal((5000, features))
    rows = Rows([Block(part.copy, len(part)) for _ in range(12)], features)
    labels = np.tile((part[:, 0] > 0).astype(np.uint8), 12)
    taken_bytes = FITTED_ROWS * features * 8
    call = partial(fit_local_model, [LogisticOptions(1.0, 20)], rows, labels, 2, rng)
    assert peak_bytes(call) < 1.75 * taken_bytes
