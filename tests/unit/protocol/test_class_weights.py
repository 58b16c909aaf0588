"""Terms with class weights: what they say, where they are refused, and that other terms keep their bytes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError
from protocol.labels import NumberLabel
from protocol.model_terms import (
    AutoTerms,
    KnnTerms,
    LogisticTerms,
    SvmTerms,
    models_with_weights,
    weighted_kinds,
)
from protocol.terms import Terms
from tests.harness.problems import TERMS
from tests.harness.world import make_terms

KINDS = pytest.mark.parametrize("kind", models_with_weights())


def weighted(kind: str = "logistic", **changed: Any) -> Terms:
    return make_terms(model=TERMS[kind](class_weight="balanced"), **changed)


def lines_on_weights(terms: Terms) -> list[str]:
    return [line for line in plain_words(terms).splitlines() if line.startswith("Class weights: ")]


@KINDS
def test_a_model_without_class_weights_has_no_such_field_on_the_wire(kind: str) -> None:
    plain = make_terms(model=TERMS[kind](class_weight="none"))
    assert plain == make_terms(model=TERMS[kind]())
    assert b"class_weight" not in encode(plain)
    assert "class_weight" not in plain.model_dump(mode="json")["model"]
    assert decode(Terms, encode(plain)) == plain


@KINDS
def test_a_model_with_class_weights_comes_back_from_the_wire(kind: str) -> None:
    terms = weighted(kind)
    assert decode(Terms, encode(terms)) == terms
    assert weighted_kinds(terms.model) == [kind]


def test_none_on_the_wire_is_refused() -> None:
    written, field = encode(weighted()), b"class_weight"
    assert written.count(field + b"\xa8balanced") == 1
    with pytest.raises(MalformedMessageError, match="not in canonical form"):
        decode(Terms, written.replace(field + b"\xa8balanced", field + b"\xa4none"))


def test_every_member_reads_of_class_weights_and_of_no_others() -> None:
    (line,) = lines_on_weights(weighted("random-forest"))
    assert line.startswith("Class weights: a model of the kind random-forest is trained so that every class")
    assert lines_on_weights(make_terms(model=LogisticTerms())) == []


def test_where_no_model_comes_back_the_members_read_it_too() -> None:
    """They train a model of their own from its probabilities."""
    terms = weighted(downlink="anchor-predictions", anchor=AnchorTerms(kind="gaussian", rows=80))
    assert len(lines_on_weights(terms)) == 1


def test_of_a_choice_the_kinds_with_class_weights_are_named() -> None:
    balanced: Any = {"class_weight": "balanced"}
    candidates = (SvmTerms(**balanced), LogisticTerms(), LogisticTerms(**balanced), KnnTerms())
    terms = make_terms(model=AutoTerms(candidates=candidates))
    (line,) = lines_on_weights(terms)
    assert "a model of the kind svm or logistic is trained" in line
    assert decode(Terms, encode(terms)) == terms


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"terms_schema": 1}, "class_weight needs terms_schema 2"),
        (
            {"model_privacy": {"epsilon": 3.0, "delta": 1e-5}},
            "class_weight means nothing under model_privacy",
        ),
    ],
)
def test_terms_that_cannot_have_class_weights_refuse_them_in_words(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        weighted(**changed)


@pytest.mark.parametrize("kind", [kind for kind in models_with_weights() if "number" in TERMS[kind].tasks])
def test_numbers_have_no_class_weights(kind: str) -> None:
    schema = make_terms().table_schema.model_copy(
        update={"label_column": NumberLabel(name="days", low=0, high=9)}
    )
    assert make_terms(table_schema=schema, model=TERMS[kind]()).task == "number"
    with pytest.raises(ValidationError, match="class_weight needs a label of classes, not a number"):
        weighted(kind, table_schema=schema)


@pytest.mark.parametrize("kind", [kind for kind in TERMS if kind not in models_with_weights()])
def test_a_model_that_has_no_class_weights_refuses_them(kind: str) -> None:
    with pytest.raises(ValidationError, match="class_weight"):
        TERMS[kind](class_weight="balanced")
