from __future__ import annotations

import numpy as np
import pytest

from analyst_server.training.logistic import Logistic
from analyst_server.training.metrics import measure, score
from tests.harness.problems import MODELS, blobs


def test_scores_of_a_known_case() -> None:
    labels = np.array([0, 0, 1, 1])
    found = np.array([0.1, 0.6, 0.4, 0.9])
    # one row of each class on the wrong side; of the four pairs three are in order
    assert score(labels, np.stack([1 - found, found], axis=1)) == {"accuracy": 0.5, "roc_auc": 0.75}


def test_perfect_scores_of_three_classes() -> None:
    labels = np.array([0, 1, 2, 1])
    assert score(labels, np.eye(3)[labels]) == {"accuracy": 1.0, "roc_auc": 1.0}


@pytest.mark.parametrize("classes", [2, 3])
def test_the_roc_auc_is_left_out_when_a_class_is_missing(classes: int) -> None:
    labels = np.zeros(4, int)
    assert set(score(labels, np.full((4, classes), 1 / classes))) == {"accuracy"}


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("classes", [2, 3])
def test_what_can_be_learned_scores_well_on_rows_held_out(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    found = measure(MODELS[kind], rows, labels, classes)
    assert found is not None
    assert found["accuracy"] > 0.75
    assert found["roc_auc"] > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_noise_scores_like_chance_on_rows_held_out(seed: int) -> None:
    """A model that was measured on rows it had seen would score far better."""
    rng = np.random.default_rng(seed)
    rows, labels = rng.standard_normal((600, 40)), rng.integers(0, 2, 600)
    found = measure(Logistic(inverse_penalty=100), rows, labels, 2)
    assert found is not None
    assert abs(found["accuracy"] - 0.5) < 0.18  # 120 rows: four standard errors


def test_measuring_again_gives_the_same_scores() -> None:
    rows, labels = blobs(3)
    assert measure(MODELS["mlp"], rows, labels, 3) == measure(MODELS["mlp"], rows, labels, 3)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([0, 1] * 2, 2), ([0] * 50 + [1], 2), ([0, 1, 2] * 4, 3), ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], 5)],
    ids=["too few rows", "one row of a class", "fewer held out than classes", "two rows of each class"],
)
def test_too_few_rows_are_not_measured(labels: list[int], classes: int) -> None:
    rows = np.random.default_rng(0).standard_normal((len(labels), 3))
    assert measure(MODELS["logistic"], rows, np.array(labels), classes) is None


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "mlp"])  # a network takes too long
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("rows", range(4, 40, 3))
def test_any_small_table_is_measured_or_not_but_never_fails(kind: str, rows: int, classes: int) -> None:
    data = np.random.default_rng(rows).standard_normal((rows, 3))
    found = measure(MODELS[kind], data, np.arange(rows) % classes, classes)
    assert found is None or 0 <= found["accuracy"] <= 1


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "mlp"])  # a network takes too long
@pytest.mark.parametrize("rows", range(10, 60, 5))
def test_a_rare_class_of_two_rows_never_fails(kind: str, rows: int) -> None:
    data = np.random.default_rng(rows).standard_normal((rows, 3))
    found = measure(MODELS[kind], data, np.array([1, 1] + [0] * (rows - 2)), 2)
    assert found is None or 0 <= found["accuracy"] <= 1
