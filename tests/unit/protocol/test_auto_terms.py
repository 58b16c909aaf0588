"""Terms that have the analyst choose a model: what they name, what they refuse, what their reader is told."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from pydantic import ValidationError

from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError
from protocol.labels import Label, NumberLabel, SurvivalLabel, Task
from protocol.model_terms import (
    AutoTerms,
    KnnTerms,
    LogisticTerms,
    MlpTerms,
    ModelPrivacyTerms,
    RidgeTerms,
    SvmTerms,
    default_candidates,
)
from protocol.table_schema import NumericColumn, Schema
from protocol.terms import Terms
from tests.harness.problems import TERMS

LABELS: dict[Task, Any] = {
    "classes": Label(name="ill", classes=("no", "yes")),
    "number": NumberLabel(name="days", low=0, high=80),
    "survival": SurvivalLabel(
        name="days", event="died", seen="1", censored="0", horizon=50, times=(12.5, 25)
    ),
}


def make(model: Any, task: Task = "classes", **changes: Any) -> Terms:
    fields: dict[str, Any] = {
        "consortium_id": "a" * 32,
        "collaboration_id": "b" * 32,
        "title": "Choice",
        "parties": ("hospital-a", "hospital-b"),
        "lead": "hospital-a",
        "table_schema": Schema(
            columns=(NumericColumn(name="age", low=0.0, high=120.0),), label_column=LABELS[task]
        ),
        "latent_dim": 1,
        "anchor": AnchorTerms(kind="haar", rows=1),
        "model": model,
    }
    return Terms.model_validate({**fields, **changes}, strict=False)


@pytest.mark.parametrize("task", LABELS)
def test_a_draft_without_candidates_gets_those_of_its_task_and_names_them(task: Task) -> None:
    terms = make({"kind": "auto"}, task)
    assert isinstance(terms.model, AutoTerms)
    assert terms.model.candidates == default_candidates(task)
    assert not terms.is_row_revealing
    assert decode(Terms, encode(terms)) == terms


def test_terms_on_the_wire_name_their_candidates() -> None:
    whole = encode(make({"kind": "auto"}))
    named = encode(make({"kind": "auto"}).model)
    assert whole.count(named) == 1
    with pytest.raises(MalformedMessageError):
        decode(Terms, whole.replace(named, b"\x81\xa4kind\xa4auto"))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"candidates": [{"kind": "logistic"}]}, "at least 2 items"),
        ({"candidates": [{"kind": "logistic"}] * 2}, "candidates must be distinct"),
        ({"candidates": [{"kind": "logistic"}, {"kind": "auto"}]}, "'auto' .* does not match"),
        ({"candidates": [{"kind": "logistic"}, {"kind": "ridge"}]}, "a ridge model does not predict classes"),
        ({"candidates": [{"kind": "svm", "seed": seed} for seed in range(9)]}, "at most 8 items"),
        ({"budget_s": 0}, "budget_s"),
    ],
)
def test_what_is_no_choice_is_refused_in_words(model: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make({"kind": "auto", **model})


def test_one_kind_with_other_options_is_another_candidate() -> None:
    both = ({"kind": "cox", "inverse_penalty": 0.1}, {"kind": "cox", "inverse_penalty": 1.0})
    assert make({"kind": "auto", "candidates": both}, "survival").task == "survival"


def test_a_private_model_is_not_chosen() -> None:
    """Its choice would have to be private as well."""
    privacy = ModelPrivacyTerms(epsilon=1, delta=1e-5)
    both = AutoTerms(candidates=(LogisticTerms(), MlpTerms()))
    with pytest.raises(ValidationError, match="auto has no private training: take mlp or logistic"):
        make(both, model_privacy=privacy)


def test_terms_of_schema_1_know_no_choice() -> None:
    with pytest.raises(ValidationError, match="a model of the kind auto needs terms_schema 2"):
        make({"kind": "auto"}, terms_schema=1)


@pytest.mark.parametrize(("one", "other"), list(combinations(TERMS, 2)))
def test_a_choice_needs_consent_if_any_of_its_candidates_does(one: str, other: str) -> None:
    found = AutoTerms(candidates=(TERMS[one](), TERMS[other]()))
    assert found.carries_rows == (TERMS[one].carries_rows or TERMS[other].carries_rows)


def test_the_plain_words_name_what_may_come_back_and_what_reveals_rows() -> None:
    words = plain_words(make(AutoTerms(candidates=(LogisticTerms(), SvmTerms(), KnnTerms()))))
    assert "of these kinds: logistic, svm, knn)" in words
    assert "row-revealing model: a model of the kind svm or knn contains training rows" in words
    harmless = plain_words(make(AutoTerms(candidates=(RidgeTerms(), MlpTerms())), "number"))
    assert "of these kinds: ridge, mlp)" in harmless
    assert "row-revealing" not in harmless


def test_a_choice_of_one_kind_names_it_once() -> None:
    assert "of these kinds: cox)" in plain_words(make({"kind": "auto"}, "survival"))


def test_no_model_comes_back_under_anchor_predictions_and_so_no_row() -> None:
    changes: dict[str, Any] = {
        "anchor": AnchorTerms(kind="gaussian", rows=4),
        "downlink": "anchor-predictions",
    }
    both = AutoTerms(candidates=(LogisticTerms(), SvmTerms()))
    assert not make(both, **changes).is_row_revealing
