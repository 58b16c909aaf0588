"""Models of several labels at once: one for each, in one file."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from analyst_server.compute.model_registry import model_of, task_of
from analyst_server.training.judging import judge
from analyst_server.training.models import fit, fit_task
from analyst_server.training.onnx_file import export, parity_gap
from analyst_server.training.party_scores import OF_ONE_LABEL
from analyst_server.training.tasks import Several
from protocol.labels import BinaryLabel, MultiLabel
from protocol.model_terms import (
    AveragedTerms,
    GradientBoostingTerms,
    LogisticTerms,
    MlpTerms,
    RandomFeatureSvmTerms,
    RandomForestTerms,
    SvmTerms,
    models_for,
)
from user_client.onnx_model.process import Model
from user_client.sdk.model_form import forms_of

NAMES: Final = ("a", "b", "c")
TASK: Final = Several(NAMES)
MODELS: Final[dict[str, Any]] = {
    "mlp": MlpTerms(epochs=30),
    "logistic": LogisticTerms(),
    "averaged": AveragedTerms(),
    "svm": SvmTerms(),
    "random-feature-svm": RandomFeatureSvmTerms(random_features=64),
    "random-forest": RandomForestTerms(trees=20),
    "gradient-boosting": GradientBoostingTerms(trees=20),
}


def rows_and_labels(seed: int = 0, rows: int = 300, noise: float = 0.5) -> tuple[Any, Any, Any]:
    """Return rows, labels with a bit for each of three, and whether each row has each."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((rows, 5))
    weights = np.random.default_rng(9).standard_normal((5, 3))
    has = found @ weights + noise * rng.standard_normal((rows, 3)) > [0.0, 0.5, 2.0]
    return found.astype(np.float32), (has * [1, 2, 4]).sum(axis=1).astype(np.int64), has


def test_all_models_of_several_labels_are_tried_here() -> None:
    assert {*MODELS, "auto"} == set(models_for("multilabel"))


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_predicts_every_label_and_leaves_as_one_file(kind: str) -> None:
    rows, labels, has = rows_and_labels()
    fitted = fit_task(model_of(MODELS[kind]), rows, labels, TASK)
    file = export(fitted, rows.shape[1])
    assert parity_gap(fitted, file, rows) < 1e-5
    found = Model(file).run(rows, "probabilities")
    np.testing.assert_allclose(found, fitted.predictions(rows), atol=1e-5)
    assert min(roc_auc_score(has[:, one], found[:, one]) for one in range(3)) > 0.9
    alone = fit(model_of(MODELS[kind]), rows, has[:, 1].astype(np.int64), 2)
    np.testing.assert_allclose(fitted.predictions(rows)[:, 1], alone.predictions(rows)[:, 1], atol=1e-6)


@pytest.mark.parametrize("kind", [name for name in MODELS if name != "svm"])
def test_the_file_is_within_what_the_terms_allow(kind: str) -> None:
    rows, labels, _ = rows_and_labels()
    file = export(fit_task(model_of(MODELS[kind]), rows, labels, TASK), rows.shape[1])

    class Schema:
        label_column = MultiLabel(
            labels=tuple(BinaryLabel(name=name, absent="0", present="1") for name in NAMES)
        )

    class Terms:
        model, latent_dim, is_row_revealing, table_schema = MODELS[kind], 5, False, Schema()

    Model(file, forms_of(Terms()))  # type: ignore[arg-type]  # what is read of terms
    assert task_of(Schema.label_column) == TASK


def test_a_label_that_hardly_a_row_has_is_named() -> None:
    rows, labels, _ = rows_and_labels()
    with pytest.raises(ValueError, match="rows with the label b and without it, 1 of either"):
        fit_task(model_of(MODELS["logistic"]), rows, labels & 5, TASK)


def test_scores_are_means_over_the_labels_with_enough_rows() -> None:
    rows, labels, has = rows_and_labels(1)
    found = fit_task(model_of(MODELS["logistic"]), *rows_and_labels(0)[:2], TASK).predictions(rows)
    score = TASK.score(labels, found)
    assert score is not None
    areas = [roc_auc_score(has[:, one], found[:, one]) for one in range(3)]
    assert score.figures["roc_auc"].value == pytest.approx(np.mean(areas))
    for name, area in zip(NAMES, areas, strict=True):
        assert score.figures[f"{OF_ONE_LABEL}{name}"].value == pytest.approx(area)
    precise = [average_precision_score(has[:, one], found[:, one]) for one in range(3)]
    assert score.figures["pr_auc"].value == pytest.approx(np.mean(precise))
    assert score.figures["accuracy"].value == pytest.approx(np.mean((found > 0.5) == has))
    assert score.figures["brier"].value == pytest.approx(np.mean((found - has) ** 2))
    fewer = TASK.score(labels & 3, found)
    assert fewer is not None
    assert fewer.figures["roc_auc"].value == pytest.approx(np.mean(areas[:2]))
    assert f"{OF_ONE_LABEL}c" not in fewer.figures
    assert TASK.score(labels[:4], found[:4]) is None


def test_the_variance_of_the_mean_is_that_of_repeated_draws() -> None:
    model = fit_task(model_of(MODELS["logistic"]), *rows_and_labels(0, 2000, noise=4)[:2], TASK)
    found = []
    for seed in range(1, 120):
        rows, labels, _ = rows_and_labels(seed, 400, noise=4)
        score = TASK.score(labels, model.predictions(rows))
        assert score is not None
        found.append((score.figures["roc_auc"].value, score.figures["roc_auc"].variance))
    values, variances = map(np.array, zip(*found, strict=True))
    assert np.sqrt(variances.mean()) == pytest.approx(values.std(ddof=1), rel=0.35)


def test_labels_that_are_all_right_are_not_certain() -> None:
    _, labels, has = rows_and_labels(1)
    score = TASK.score(labels, has.astype(np.float64))
    assert score is not None
    assert score.figures["roc_auc"].value == 1
    assert score.figures["roc_auc"].variance > 0


def test_a_judgement_has_the_labels_apart() -> None:
    rows, labels, _ = rows_and_labels(2, 600)
    senders = np.repeat(np.arange(3), 200)
    found = judge(model_of(MODELS["logistic"]), rows, labels, TASK, senders, ["p", "q", "r"]).as_json()
    assert set(found["within"]) == {"roc_auc", "pr_auc", "accuracy", "brier", "labels", "by_party"}
    assert set(found["within"]["labels"]) == set(NAMES)
    assert set(found["within"]["by_party"]["p"]["labels"]) == set(NAMES)
    assert found["headline"]["labels"] == found["within"]["labels"]
