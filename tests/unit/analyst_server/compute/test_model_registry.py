"""Every model that terms can name is registered, and every registered one keeps what its terms promise."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import onnx
import pytest

from analyst_server.compute.model_registry import model_of, private_model_of, task_of, trainable_of
from analyst_server.training.choosing import Auto
from analyst_server.training.discriminant import SumsDiscriminant, fit_by_class, of_all_classes
from analyst_server.training.from_sums import SumsRidge, fit_total
from analyst_server.training.models import fit, fit_task
from analyst_server.training.onnx_file import export
from analyst_server.training.tasks import Classes, Numbers, Several, Survival
from protocol.labels import BinaryLabel, Label, MultiLabel, NumberLabel, SurvivalLabel, Task
from protocol.model_terms import (
    PRIVATE_MODELS,
    AutoTerms,
    LogisticTerms,
    MlpTerms,
    ModelPrivacyTerms,
    ModelTerms,
    QuadraticDiscriminantTerms,
    RidgeTerms,
    default_candidates,
    models_with_weights,
)
from tests.harness.problems import (
    ALL_MODELS,
    MODELS,
    TERMS,
    blobs,
    numbers,
    sets_of_labels,
    survivals,
)

KINDS = pytest.mark.parametrize("kind", list(TERMS))
TASKS = {
    "classes": Classes(2),
    "number": Numbers(),
    "survival": Survival((0.2, 0.6)),
    "multilabel": Several(("a", "b", "c")),
}
ROWS = {
    "classes": lambda: blobs(2),
    "number": numbers,
    "survival": survivals,
    "multilabel": sets_of_labels,
}
OF_SUMS = (QuadraticDiscriminantTerms, RidgeTerms)
"""Kinds that are made of sums over rows."""


def another(value: Any) -> Any:
    """Return another value that is as good for any option."""
    if value == "none":
        return "balanced"
    return 0.5 if value is None else value + 1 if isinstance(value, int) else value / 2


def test_every_model_of_the_terms_is_registered_and_no_other() -> None:
    assert set(model_of.registry) - {object} == set(TERMS.values())


def test_what_is_no_terms_of_a_model_is_refused() -> None:
    with pytest.raises(TypeError, match="no model is registered for str"):
        model_of("mlp")


@KINDS
def test_each_kind_is_a_model_of_its_own(kind: str) -> None:
    others = {type(model_of(terms())) for other, terms in TERMS.items() if other != kind}
    assert type(model_of(TERMS[kind]())) not in others


@KINDS
def test_the_defaults_of_a_model_are_those_of_its_terms(kind: str) -> None:
    model = model_of(TERMS[kind]())
    assert model == type(model)()


@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, option) for kind, terms in TERMS.items() for option in terms.model_fields if option != "kind"],
)
def test_every_option_of_the_terms_reaches_the_model(kind: str, option: str) -> None:
    plain = TERMS[kind]()
    value = another(getattr(plain, option))
    assert getattr(model_of(TERMS[kind](**{option: value})), option) == value


@KINDS
def test_the_terms_say_whether_a_model_carries_rows(kind: str) -> None:
    assert TERMS[kind].carries_rows == bool(model_of(TERMS[kind]()).carried_rows)


@pytest.mark.parametrize(("kind", "task"), [(kind, task) for kind in TERMS for task in TERMS[kind].tasks])
def test_a_model_carries_rows_if_it_says_so_and_only_then(kind: str, task: Task) -> None:
    """Whoever gets the file looks for its training rows, on the model's own scale and as they were."""
    (rows, labels), model = ROWS[task](), ALL_MODELS[kind]
    fitted = fit_task(model, rows, labels, TASKS[task])
    scaled = np.asarray(fitted.pipelines[0]["scale"].transform(rows))
    found = np.concatenate(list(numbers_in(export(fitted, rows.shape[1]))))
    carried = sum(holds(found, row) for row in np.concatenate([scaled, rows]))
    assert (carried > 5) if model.carried_rows else (carried == 0)


def test_every_kind_of_the_terms_is_searched_for_rows() -> None:
    kinds, *_ = get_args(ModelTerms)
    assert set(get_args(kinds)) == {*TERMS.values(), *OF_SUMS, AutoTerms}


@pytest.mark.parametrize("terms", OF_SUMS)
def test_a_model_of_sums_carries_no_row(terms: type[Any]) -> None:
    """The fewest rows of a class that terms may have come from three institutions with two each."""
    rows, labels = blobs(2, rows=12)
    z = np.hstack([np.ones((len(rows), 1)), rows.astype(np.float64)])
    by_class = np.stack([z[labels == each].T @ z[labels == each] for each in range(2)])
    if terms is QuadraticDiscriminantTerms:
        fitted = fit_by_class(SumsDiscriminant(terms().pooled_share), by_class)
    else:
        fitted = fit_total(SumsRidge(), of_all_classes(by_class), rows.shape[1], Classes(2))
    found = np.concatenate(list(numbers_in(export(fitted, rows.shape[1]))))
    assert len(found) > 10
    assert not any(holds(found, row) for row in rows)
    assert not terms.carries_rows


def numbers_in(onnx_file: bytes) -> Any:
    graph = onnx.load_from_string(onnx_file).graph
    for tensor in graph.initializer:
        yield onnx.numpy_helper.to_array(tensor).astype(np.float64).ravel()
    for node in graph.node:
        for attribute in node.attribute:
            yield np.array(attribute.floats, np.float64)


def holds(found: np.ndarray[Any, Any], row: np.ndarray[Any, Any]) -> bool:
    """Whether the numbers of a row stand one behind the other."""
    windows = np.lib.stride_tricks.sliding_window_view(found, len(row))
    return bool((np.abs(windows - row).max(axis=1) < 1e-4 * math.sqrt(len(row))).any())


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_model_is_fitted_on_as_few_rows_of_a_class_as_it_says(kind: str, classes: int) -> None:
    rows, labels = blobs(classes)
    least = MODELS[kind].rows_per_class
    few = np.concatenate([np.flatnonzero(labels)[:60], np.flatnonzero(labels == 0)[:least]])
    assert fit(MODELS[kind], rows[few], labels[few], classes).parameters > 2 * rows.shape[1]
    with pytest.raises(ValueError, match="rows of every class"):
        fit(MODELS[kind], rows[few[:-1]], labels[few[:-1]], classes)


@KINDS
def test_a_model_refuses_the_labels_that_its_terms_do_not_allow(kind: str) -> None:
    model = model_of(TERMS[kind]())
    refused = {*TASKS} - {*TERMS[kind].tasks}
    if kind == "knn":  # it could, and its file would have the rows once for each label
        refused -= {"multilabel"}
    for task, found in TASKS.items():
        if task in refused:
            rows, labels = ROWS[task]()
            with pytest.raises(TypeError, match="predicts no"):
                fit_task(model, rows, labels, found)


def test_a_label_of_the_terms_is_a_task_with_the_same_output() -> None:
    survival = SurvivalLabel(name="t", event="e", seen="1", censored="0", horizon=50, times=(12.5, 25))
    several = MultiLabel(
        labels=tuple(BinaryLabel(name=name, absent="0", present="1") for name in ("a", "b", "c"))
    )
    assert task_of(several) == TASKS["multilabel"]
    number = NumberLabel(name="y", low=10, high=30)
    for label in (Label(name="y", classes=("a", "b", "c")), number, survival, several):
        task = task_of(label)
        assert (task.output, task.width) == (label.model_output, label.outputs)
    assert task_of(number) == Numbers(unit=10)
    assert task_of(survival) == Survival((0.25, 0.5))


@KINDS
def test_the_terms_say_which_models_have_a_private_training(kind: str) -> None:
    terms, privacy = TERMS[kind](), ModelPrivacyTerms(epsilon=2.0, delta=1e-6, steps=7)
    if kind not in PRIVATE_MODELS:
        with pytest.raises(TypeError, match=f"{kind} has no private training"):
            private_model_of(terms, privacy, 5)
        return
    model = private_model_of(terms, privacy, 5)
    assert (model.features, model.training.epsilon, model.training.steps) == (5, 2.0, 7)
    for option in PRIVATE_MODELS[kind]:
        value = another(getattr(terms, option))
        changed = TERMS[kind](**{option: value})
        assert getattr(private_model_of(changed, privacy, 5), option) == value


@pytest.mark.parametrize("task", get_args(Task))
def test_a_choice_is_made_among_the_models_of_its_terms(task: Task) -> None:
    candidates = default_candidates(task)
    found = trainable_of(AutoTerms(candidates=candidates, budget_s=7, seed=3))
    models = tuple(map(model_of, candidates))
    names = ("cox", "cox, inverse_penalty 0.01", "cox, inverse_penalty 1.0")
    expected = names if task == "survival" else tuple(one.kind for one in candidates)
    assert found == Auto(candidates=tuple(zip(expected, models, strict=True)), budget_s=7, seed=3)


@KINDS
def test_a_party_that_consents_to_no_rows_can_be_sent_no_model_with_rows(kind: str) -> None:
    """What may be chosen is known from the terms alone, for every model that they can name."""
    other = LogisticTerms(epochs=7)
    terms = AutoTerms(candidates=(other, TERMS[kind]()))
    asked = trainable_of(terms)
    assert isinstance(asked, Auto)
    assert terms.carries_rows == any(model.carried_rows for _, model in asked.candidates)


def test_the_options_of_terms_are_taken_over() -> None:
    model = model_of(MlpTerms(hidden_units=7, learning_rate=0.01, epochs=3, seed=2, class_weight="balanced"))
    assert repr(model) == (
        "Mlp(seed=2, class_weight='balanced', hidden_units=7, learning_rate=0.01, epochs=3,"
        " weight_penalty=0.0001)"
    )


@KINDS
def test_the_terms_say_which_models_have_class_weights(kind: str) -> None:
    assert (kind in models_with_weights()) == hasattr(model_of(TERMS[kind]()), "class_weight")


def test_a_candidate_with_class_weights_is_called_so() -> None:
    terms = AutoTerms(candidates=(LogisticTerms(), LogisticTerms(class_weight="balanced")))
    asked = trainable_of(terms)
    assert isinstance(asked, Auto)
    assert [name for name, _ in asked.candidates] == ["logistic", "logistic, class_weight balanced"]
