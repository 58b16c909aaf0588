"""A model that the terms do not name is told from one that they do, whatever kind either is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from analyst_server.compute.model_registry import model_of
from analyst_server.training.discriminant import SumsDiscriminant, fit_by_class
from analyst_server.training.models import fit_task
from analyst_server.training.onnx_file import export
from analyst_server.training.tasks import Classes, Numbers, Several, Survival
from protocol.model_terms import AutoTerms, KnnTerms, LogisticTerms, QuadraticDiscriminantTerms
from protocol.terms import Terms
from tests.harness.in_process import draft
from tests.harness.models import WIDTH, exported, file_of
from tests.harness.problems import ALL_MODELS, TERMS, blobs, numbers, sets_of_labels, survivals
from user_client.onnx_model.evaluation import Evaluation
from user_client.onnx_model.form import from_bytes, to_bytes
from user_client.onnx_model.profiles import OF_A_ROUND
from user_client.onnx_model.wire import RefusedModelError
from user_client.sdk.model_form import form_of, form_of_several, forms_of

REVEALING = [kind for kind, terms in TERMS.items() if terms.carries_rows]
OTHERS = [kind for kind in TERMS if kind not in REVEALING]
OUTPUTS = {"numbers": 1, "survival": 3, "labels": 3}


def terms_of(kind: str) -> Any:
    """Return the terms of a model that `exported` has, with its options."""
    model, terms = ALL_MODELS[kind], TERMS[kind]
    options = terms.model_fields.keys() & vars(model).keys()
    return terms(**{name: getattr(model, name) for name in options})


def agreed(name: str) -> tuple[Any, int]:
    """Return the terms of a file of `exported` with the number of its outputs."""
    kind, _, task = name.rpartition(" of ")
    outputs = OUTPUTS[task] if task in OUTPUTS else int(task)
    if kind.startswith("private"):
        return (TERMS["mlp"](hidden_units=8) if kind.endswith("8") else LogisticTerms()), outputs
    if kind == "sums":
        return TERMS["ridge"](), outputs
    return (QuadraticDiscriminantTerms() if kind == "sums by class" else terms_of(kind)), outputs


def named(name: str) -> str:
    return name.replace(" with weights", " of 3")


NAMES = pytest.mark.parametrize(
    "name", [name for name in exported() if not name.startswith(tuple(REVEALING))]
)


@NAMES
def test_a_file_of_every_kind_has_the_form_of_its_terms(name: str) -> None:
    model, outputs = agreed(named(name))
    form = (form_of_several if name.endswith(" of labels") else form_of)(model, WIDTH, outputs)
    Evaluation(exported()[name][0], [form])
    assert from_bytes(to_bytes([form])) == ([form], OF_A_ROUND)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("latent_dim", [1, 30])
def test_so_it_has_with_many_numbers_of_a_row_or_one(kind: str, latent_dim: int) -> None:
    rows: dict[str, Any] = {
        "classes": lambda: (Classes(5), *blobs(5, rows=200, latent_dim=latent_dim)),
        "number": lambda: (Numbers(), *numbers(latent_dim=max(latent_dim, 3))),
        "survival": lambda: (Survival((0.5,)), *survivals(latent_dim=max(latent_dim, 2))),
        "multilabel": lambda: (Several(("a", "b", "c")), *sets_of_labels(latent_dim=latent_dim)),
    }
    terms = terms_of(kind)
    if kind == "gradient-boosting":
        terms = terms.model_copy(update={"trees": 5})
    for name in TERMS[kind].tasks:
        task, drawn, labels = rows[name]()
        fitted = fit_task(model_of(terms), drawn, labels, task)
        form = (form_of_several if name == "multilabel" else form_of)(terms, drawn.shape[1], task.width)
        Evaluation(export(fitted, drawn.shape[1]), [form])


def test_a_discriminant_of_many_classes_has_its_form() -> None:
    rows, labels = blobs(10, rows=600, latent_dim=30)
    z = np.hstack([np.ones((len(rows), 1)), rows.astype(np.float64)])
    sums = np.stack([z[labels == each].T @ z[labels == each] for each in range(10)])
    file = export(fit_by_class(SumsDiscriminant(), sums), 30)
    Evaluation(file, [form_of(QuadraticDiscriminantTerms(), 30, 10)])


@pytest.mark.parametrize("kind", [*OTHERS, "quadratic-discriminant"])
@pytest.mark.parametrize("sent", REVEALING)
def test_a_model_with_rows_has_the_form_of_no_other(kind: str, sent: str) -> None:
    terms = QuadraticDiscriminantTerms() if kind == "quadratic-discriminant" else terms_of(kind)
    tried = [name for name in exported() if name.startswith(f"{sent} of")]
    assert tried
    for name in tried:
        outputs = OUTPUTS.get(name.rpartition(" ")[2], 3)
        with pytest.raises(RefusedModelError, match=f"no {kind} model: it has the operator"):
            Evaluation(exported()[name][0], [form_of(terms, WIDTH, outputs)])


def nearness(rows: int) -> bytes:
    """Return a model of plain operators alone that has so many rows in it: each answers for what is near."""
    kept = np.random.default_rng(0).standard_normal((WIDTH, rows)).astype(np.float32)
    shares = np.full((rows, 2), 0.5, np.float32)
    nodes = [
        make_node("MatMul", ["rep", "kept"], ["near"]),
        make_node("Exp", ["near"], ["weights"]),
        make_node("MatMul", ["weights", "shares"], ["probabilities"]),
    ]
    return file_of(nodes, kept=kept, shares=shares)


def test_rows_under_plain_operators_are_told_by_how_many_numbers_there_are() -> None:
    form = form_of(LogisticTerms(), WIDTH, 2)
    Evaluation(nearness(3), [form])
    with pytest.raises(RefusedModelError, match=r"no logistic model: it has 700 numbers, of which .* 76"):
        Evaluation(nearness(100), [form])


def test_rows_beside_trees_are_told_too() -> None:
    with pytest.raises(RefusedModelError, match="no random-forest model: it has 700 numbers"):
        Evaluation(nearness(100), [form_of(TERMS["random-forest"](), WIDTH, 2)])


def test_rows_in_names_make_the_file_too_long() -> None:
    form = form_of(LogisticTerms(), WIDTH, 2)
    names = ["x" * 900 + str(number) for number in range(30)]
    nodes = [make_node("Identity", ["rep"], [name]) for name in [*names, "probabilities"]]
    with pytest.raises(RefusedModelError, match=r"no logistic model: it has .* bytes, of which"):
        Evaluation(file_of(nodes), [form])


def test_trees_are_no_linear_model_and_the_other_way_round() -> None:
    for sent, kind in (("random-forest of 2", "logistic"), ("logistic of 2", "random-forest")):
        with pytest.raises(RefusedModelError, match=f"no {kind} model"):
            Evaluation(exported()[sent][0], [form_of(terms_of(kind), WIDTH, 2)])


def test_of_several_candidates_it_may_be_any() -> None:
    forms = [form_of(terms_of(kind), WIDTH, 2) for kind in ("logistic", "random-forest")]
    for kind in ("logistic", "random-forest"):
        Evaluation(exported()[f"{kind} of 2"][0], forms)
    with pytest.raises(RefusedModelError, match=r"no logistic model: .*, or no random-forest model: "):
        Evaluation(exported()["mlp of 2"][0], forms)


def test_terms_with_rows_in_one_candidate_let_any_model_come() -> None:
    """All have consented to rows: what else it is does not matter."""
    logistic = LogisticTerms()
    assert forms_of(terms_with(AutoTerms(candidates=(logistic, KnnTerms())))) == []
    neither = AutoTerms(candidates=(logistic, LogisticTerms(epochs=7)))
    assert [form.kind for form in forms_of(terms_with(neither))] == ["logistic"] * 2


def terms_with(model: AutoTerms) -> Terms:
    ids = {"consortium_id": "a" * 32, "collaboration_id": "b" * 32}
    content = {**draft(terms_schema=2, model=model.model_dump()), **ids}
    return Terms.model_validate(content, strict=False)
