from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import onnx
import pytest

from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Model, fit, fit_task
from analyst_server.training.onnx_file import export
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import MissingClassError, Numbers
from tests.harness.problems import MODELS, MODELS_OF_NUMBERS, blobs, haar, numbers

KINDS = pytest.mark.parametrize("kind", list(MODELS))
CLASSES = pytest.mark.parametrize("classes", [2, 3])


@KINDS
@CLASSES
def test_the_same_seed_gives_the_same_model(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    one, other = (fit(MODELS[kind], rows, labels, classes) for _ in range(2))
    np.testing.assert_array_equal(one.pipeline.predict_proba(rows), other.pipeline.predict_proba(rows))


def test_another_seed_gives_another_network() -> None:
    rows, labels = blobs(2)
    one, other = (fit(replace(MODELS["mlp"], seed=seed), rows, labels, 2) for seed in (1, 2))
    assert np.abs(one.pipeline.predict_proba(rows) - other.pipeline.predict_proba(rows)).max() > 1e-6


@KINDS
@CLASSES
def test_a_model_learns_what_can_be_learned(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    model = fit(MODELS[kind], rows, labels, classes)
    assert model.pipeline.score(rows, labels) > 0.85  # the classes overlap; chance is a half or a third


@CLASSES
@pytest.mark.parametrize("seed", range(5))
def test_logistic_regression_does_not_see_which_target_was_chosen(seed: int, classes: int) -> None:
    """Its penalty is a norm and the scale is one number, so a common rotation changes no score."""
    rows, labels = blobs(classes, seed=seed)
    turn = haar(rows.shape[1], np.random.default_rng(seed))
    plain = fit(MODELS["logistic"], rows.astype(np.float64), labels, classes).pipeline
    turned = fit(MODELS["logistic"], rows @ turn, labels, classes).pipeline
    np.testing.assert_array_equal(plain.predict(rows), turned.predict(rows @ turn))
    # the solver stops when its gradient is below 1e-4, each time after a slightly different path
    np.testing.assert_allclose(
        plain.predict_proba(rows), turned.predict_proba(rows @ turn), rtol=0, atol=5e-3
    )


@KINDS
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_model_does_not_depend_on_the_units_of_the_representation(kind: str, scale: float) -> None:
    rows, labels = blobs(2)
    rows = rows.astype(np.float64)
    plain, scaled = (fit(MODELS[kind], data, labels, 2).pipeline for data in (rows, scale * rows + 5))
    np.testing.assert_array_equal(plain.predict(rows), scaled.predict(scale * rows + 5))


@pytest.mark.parametrize("kind", ["mlp", "logistic", "svm", "random-feature-svm"])
@CLASSES
def test_the_parameters_are_counted_as_the_onnx_file_holds_them(kind: str, classes: int) -> None:
    """N of formula (4). A binary model may stand in the file with a column for each class."""
    rows, labels = blobs(classes)
    model = fit(MODELS[kind], rows, labels, classes)
    graph = onnx.load_from_string(export(model, rows.shape[1])).graph
    held = sum(int(np.prod(tensor.dims)) for tensor in graph.initializer) + sum(
        len(attribute.floats) for node in graph.node for attribute in node.attribute
    )
    # beside a second column: what the kernel, the vote and Platt's formula stand in as constants
    others = {"mlp": 12 + 1, "logistic": 5 + 1, "svm": 7 * classes, "random-feature-svm": 64 * classes}[kind]
    assert abs(held - model.parameters) <= others + classes + 4


@CLASSES
def test_the_nodes_of_trees_are_counted(classes: int) -> None:
    rows, labels = blobs(classes)
    for kind, numbers_of_a_leaf in (("random-forest", classes), ("gradient-boosting", 1)):
        model = fit(MODELS[kind], rows, labels, classes)
        graph = onnx.load_from_string(export(model, rows.shape[1])).graph
        (trees,) = [node for node in graph.node if node.op_type == "TreeEnsembleClassifier"]
        modes = next(list(one.strings) for one in trees.attribute if one.name == "nodes_modes")
        leaves = modes.count(b"LEAF")
        held = len(modes) - leaves + numbers_of_a_leaf * leaves
        counted = model.parameters - 2 * rows.shape[1]
        assert held == counted if kind == "random-forest" else counted / 3 < held <= counted


@pytest.mark.parametrize(("classes", "expected"), [(2, 5 + 1), (3, 3 * (5 + 1))])
def test_logistic_regression_has_a_weight_for_each_direction_and_an_intercept(
    classes: int, expected: int
) -> None:
    rows, labels = blobs(classes)
    assert fit(MODELS["logistic"], rows, labels, classes).parameters == expected + 2 * 5  # shift and scale


@pytest.mark.parametrize(("classes", "outputs"), [(2, 1), (3, 3)])
def test_a_network_has_its_two_layers(classes: int, outputs: int) -> None:
    rows, labels = blobs(classes)
    found = fit(MODELS["mlp"], rows, labels, classes).parameters
    assert found == (5 + 1) * 12 + (12 + 1) * outputs + 2 * 5


@KINDS
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_class_without_rows_is_refused_by_its_number(kind: str, missing: int) -> None:
    rows, labels = blobs(3)
    kept = labels != missing
    with pytest.raises(ValueError, match=f"class number {missing}"):
        fit(MODELS[kind], rows[kept], labels[kept], 3)


@pytest.mark.parametrize("model", [Mlp(epochs=1), Logistic(inverse_penalty=1e6, epochs=1)])
def test_a_fit_that_was_cut_off_says_so(model: Model) -> None:
    rows, labels = blobs(2)
    assert not fit(model, rows, labels, 2).converged


def test_a_fit_that_settled_says_so() -> None:
    rows, labels = blobs(2)
    assert fit(MODELS["logistic"], rows, labels, 2).converged


def test_rows_that_are_all_alike_can_be_fitted() -> None:
    model = fit(MODELS["logistic"], np.ones((10, 3), np.float32), np.arange(10) % 2, 2)
    np.testing.assert_allclose(model.pipeline.predict_proba(np.ones((1, 3))), 0.5, atol=1e-6)


def test_an_svm_carries_rows_of_its_training_set() -> None:
    """Why its kind is row-revealing."""
    rows, labels = blobs(2)
    onnx_file = export(fit(MODELS["svm"], rows, labels, 2), rows.shape[1])
    (machine,) = [
        node for node in onnx.load_from_string(onnx_file).graph.node if node.op_type == "SVMClassifier"
    ]
    carried = next(np.array(one.floats) for one in machine.attribute if one.name == "support_vectors")
    scaled = (rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0).mean())
    gaps = np.abs(carried.reshape(-1, 1, 5) - scaled).max(axis=2).min(axis=1)
    assert len(gaps) > 5
    assert gaps.max() < 1e-5


def test_an_svm_needs_two_rows_of_every_class() -> None:
    rows, labels = blobs(2)
    kept = np.concatenate([[0], np.flatnonzero(labels)])
    with pytest.raises(ValueError, match="needs 2 rows of every class, and one has fewer"):
        fit(MODELS["svm"], rows[kept], labels[kept], 2)


def test_random_features_are_drawn_without_looking_at_the_rows() -> None:
    drawn = [
        fit(MODELS["random-feature-svm"], *blobs(2, seed=seed), 2).pipeline["classify"]["features"]
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(drawn[0].random_weights_, drawn[1].random_weights_)


OF_NUMBERS = pytest.mark.parametrize("kind", MODELS_OF_NUMBERS)


@OF_NUMBERS
def test_a_number_that_can_be_learned_is_learned_whatever_its_range(kind: str) -> None:
    """A model of numbers in a corner of the terms' range is the same model: its labels are scaled."""
    rows, labels = numbers(rows=400)
    plain = fit_task(MODELS_OF_NUMBERS[kind], rows, labels, Numbers())
    narrow = fit_task(MODELS_OF_NUMBERS[kind], rows, labels / 64 - 0.5, Numbers())
    assert np.corrcoef(plain.predictions(rows)[:, 0], labels)[0, 1] > 0.85
    expected = plain.predictions(rows) / 64 - 0.5
    np.testing.assert_allclose(narrow.predictions(rows), expected, rtol=0, atol=2e-4)
    assert plain.parameters > 2 * rows.shape[1]


@OF_NUMBERS
def test_the_same_seed_gives_the_same_numbers(kind: str) -> None:
    one, other = (fit_task(MODELS_OF_NUMBERS[kind], *numbers(), Numbers()) for _ in range(2))
    np.testing.assert_array_equal(one.predictions(numbers()[0]), other.predictions(numbers()[0]))


def test_one_number_everywhere_is_refused() -> None:
    with pytest.raises(ValueError, match="different labels"):
        fit_task(MODELS_OF_NUMBERS["ridge"], numbers()[0], np.full(150, 0.25), Numbers())


def test_ridge_minimises_half_the_squared_errors_and_its_penalty() -> None:
    rows, labels = numbers()
    fitted = fit_task(Ridge(inverse_penalty=0.02), rows, labels, Numbers())
    scaled = fitted.pipeline["scale"].transform(rows).astype(np.float64)
    aims = (labels - labels.mean()) / labels.std()
    expected = np.linalg.solve(scaled.T @ scaled + np.eye(5) / 0.02, scaled.T @ aims)
    np.testing.assert_allclose(fitted.pipeline["classify"].coef_, expected, atol=1e-4)


def test_a_flag_without_reason_does_not_end_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the BLAS raises one now and then for products of finite float32 numbers."""

    def flagging(self: Logistic, labels: np.ndarray, latent_dim: int) -> object:
        np.float32(np.inf) - np.float32(np.inf)
        return made(self, labels, latent_dim)

    made = Logistic.classifier
    monkeypatch.setattr(Logistic, "classifier", flagging)
    rows, labels = blobs(2)
    assert fit(Logistic(), rows, labels, 2).pipeline.score(rows, labels) > 0.85


def test_a_missing_class_is_known_by_its_number_in_another_process_too() -> None:
    copied = pickle.loads(pickle.dumps(MissingClassError(2)))  # noqa: S301  # our own
    assert (copied.number, str(copied)) == (2, str(MissingClassError(2)))
