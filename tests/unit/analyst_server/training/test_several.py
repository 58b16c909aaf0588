"""Models of several labels at once: one for each, in one file. Other tests try every kind as a file."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from analyst_server.training.judging import judge
from analyst_server.training.logistic import Logistic
from analyst_server.training.models import fit, fit_task
from analyst_server.training.party_scores import OF_ONE_LABEL
from analyst_server.training.tasks import Several
from tests.harness.problems import MODELS_OF_LABELS, sets_of_labels

NAMES: Final = ("a", "b", "c")
TASK: Final = Several(NAMES)


@pytest.mark.parametrize("kind", MODELS_OF_LABELS)
def test_a_label_is_predicted_as_in_a_round_of_its_own(kind: str) -> None:
    (rows, labels), model = sets_of_labels(300), MODELS_OF_LABELS[kind]
    found = fit_task(model, rows, labels, TASK).predictions(rows)
    for number, has in enumerate(TASK.one_by_one(labels)):
        alone = fit(model, rows, has, 2).predictions(rows)
        np.testing.assert_allclose(found[:, number], alone[:, 1], atol=1e-6)
        assert roc_auc_score(has, found[:, number]) > 0.9


def test_a_label_that_hardly_a_row_has_is_named() -> None:
    rows, labels = sets_of_labels()
    with pytest.raises(ValueError, match="rows with the label b and without it, 1 of either"):
        fit_task(Logistic(), rows, labels & 5, TASK)


def test_scores_are_means_over_the_labels_with_enough_rows() -> None:
    rows, labels = sets_of_labels(300, seed=1)
    has = np.column_stack([*TASK.one_by_one(labels)]) == 1
    found = fit_task(Logistic(), *sets_of_labels(300), TASK).predictions(rows)
    score = TASK.score(labels, found)
    assert score is not None
    areas = [roc_auc_score(has[:, one], found[:, one]) for one in range(3)]
    assert score.figures["roc_auc"].value == pytest.approx(np.mean(areas))
    for name, area in zip(NAMES, areas, strict=True):
        assert score.figures[f"{OF_ONE_LABEL}{name}"].value == pytest.approx(area)
    precise = [average_precision_score(has[:, one], found[:, one]) for one in range(3)]
    assert score.figures["pr_auc"].value == pytest.approx(np.mean(precise))
    assert score.figures["accuracy"].value == pytest.approx(np.mean((found >= 0.5) == has))
    assert score.figures["brier"].value == pytest.approx(np.mean((found - has) ** 2))
    fewer = TASK.score(labels & 3, found)
    assert fewer is not None
    assert fewer.figures["roc_auc"].value == pytest.approx(np.mean(areas[:2]))
    assert f"{OF_ONE_LABEL}c" not in fewer.figures
    assert TASK.score(labels[:4], found[:4]) is None


def test_the_variance_of_the_mean_is_that_of_repeated_draws() -> None:
    model = fit_task(Logistic(), *sets_of_labels(2000, noise=4), TASK)
    found = []
    for seed in range(1, 120):
        rows, labels = sets_of_labels(400, seed=seed, noise=4)
        score = TASK.score(labels, model.predictions(rows))
        assert score is not None
        found.append((score.figures["roc_auc"].value, score.figures["roc_auc"].variance))
    values, variances = map(np.array, zip(*found, strict=True))
    assert np.sqrt(variances.mean()) == pytest.approx(values.std(ddof=1), rel=0.35)


def test_labels_that_are_all_right_are_not_certain() -> None:
    _, labels = sets_of_labels()
    score = TASK.score(labels, np.column_stack([*TASK.one_by_one(labels)]).astype(np.float64))
    assert score is not None
    assert score.figures["roc_auc"].value == 1
    assert score.figures["roc_auc"].variance > 0


def test_a_judgement_has_the_labels_apart() -> None:
    rows, labels = sets_of_labels(600, seed=2)
    senders = np.repeat(np.arange(3), 200)
    found = judge(Logistic(), rows, labels, TASK, senders, ["p", "q", "r"]).as_json()
    assert set(found["within"]) == {"roc_auc", "pr_auc", "accuracy", "brier", "labels", "by_party"}
    assert set(found["within"]["labels"]) == set(NAMES)
    assert set(found["within"]["by_party"]["p"]["labels"]) == set(NAMES)
    assert found["headline"]["labels"] == found["within"]["labels"]
