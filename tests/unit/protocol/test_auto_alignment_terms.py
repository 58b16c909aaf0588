"""Terms that have the analyst choose the alignment: what they name and refuse, what their reader is told."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from protocol.alignment_terms import (
    DEFAULT_METHODS,
    LEAST_SQUARES_METHODS,
    AlignmentMethod,
    AlignmentTerms,
    AutoAlignmentTerms,
    alignment_in_words,
)
from protocol.anchor_terms import ANCHORS, AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.errors import MalformedMessageError
from protocol.model_terms import AutoTerms, LogisticTerms, ModelPrivacyTerms
from protocol.terms import Terms
from tests.harness.problems import TERMS
from tests.harness.world import make_terms


def drafted(alignment: Any, **changes: Any) -> Terms:
    """Return the terms of a draft, as the operator submits them."""
    draft = make_terms(**changes).model_dump(mode="json")
    return Terms.model_validate({**draft, "alignment": alignment}, strict=False)


@pytest.mark.parametrize("kind", ANCHORS)
@pytest.mark.parametrize("target", ["identity", "haar", "invertible"])
def test_a_draft_without_candidates_gets_those_of_its_target_and_names_them(target: str, kind: Any) -> None:
    anchor = AnchorTerms(kind=kind, rows=4)
    terms = drafted({"method": "auto", "target": target}, anchor=anchor)
    assert isinstance(terms.alignment, AutoAlignmentTerms)
    assert terms.alignment.candidates == DEFAULT_METHODS[target == "invertible"]
    assert (terms.alignment.target, terms.alignment.budget_s) == (
        target,
        AutoTerms.model_fields["budget_s"].default,
    )
    assert decode(Terms, encode(terms)) == terms


def test_the_default_is_the_first_candidate() -> None:
    assert DEFAULT_METHODS[False][0] == AlignmentTerms().method
    assert set(DEFAULT_METHODS[True]) <= LEAST_SQUARES_METHODS


@pytest.mark.parametrize("method", get_args(AlignmentMethod))
def test_terms_that_name_a_method_keep_their_bytes(method: Any) -> None:
    """No field of a choice is in them, and a draft without a method still has the default."""
    terms = make_terms(alignment=AlignmentTerms(method=method, seed=7))
    named = encode(terms.alignment)
    assert encode(terms).count(named) == 1
    assert set(terms.model_dump()["alignment"]) == {"method", "target", "seed"}
    assert drafted({"seed": 7}).alignment == AlignmentTerms(seed=7)


def test_terms_on_the_wire_name_their_candidates() -> None:
    terms = drafted({"method": "auto"})
    whole, named = encode(terms), encode(terms.alignment)
    assert whole.count(named) == 1
    with pytest.raises(MalformedMessageError, match="canonical"):
        decode(Terms, whole.replace(named, b"\x81\xa6method\xa4auto"))


@pytest.mark.parametrize(
    ("alignment", "words"),
    [
        ({"candidates": ["odc"]}, "at least 2 items"),
        ({"candidates": ["odc", "odc"]}, "candidates must be distinct"),
        ({"candidates": ["odc", "auto"]}, "should be 'odc'"),
        ({"candidates": ["imakura", "odc"], "target": "invertible"}, "other methods keep lengths"),
        ({"budget_s": 0}, "budget_s"),
    ],
)
def test_what_is_no_choice_is_refused_in_words(alignment: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        drafted({"method": "auto", **alignment})


def test_a_named_method_has_no_candidates() -> None:
    with pytest.raises(ValidationError, match="candidates"):
        drafted({"method": "odc", "candidates": ["odc", "gopp"]})


def test_for_a_private_model_no_alignment_is_chosen() -> None:
    """Its choice would have to be private as well."""
    with pytest.raises(ValidationError, match="the alignment auto reads labels without privacy"):
        drafted({"method": "auto"}, model_privacy=ModelPrivacyTerms(epsilon=1, delta=1e-5))


def test_terms_of_schema_1_know_no_choice_of_the_alignment() -> None:
    with pytest.raises(ValidationError, match="the alignment auto needs terms_schema 2"):
        drafted({"method": "auto"}, terms_schema=1)


@pytest.mark.parametrize("kind", [kind for kind, model in TERMS.items() if "classes" in model.tasks])
def test_a_choice_of_the_alignment_changes_nothing_about_consent(kind: str) -> None:
    """Whichever is chosen, the model that comes back is of the kinds that the terms name."""
    for model in (TERMS[kind](), AutoTerms(candidates=(LogisticTerms(epochs=7), TERMS[kind]()))):
        terms = drafted({"method": "auto"}, model=model)
        assert terms.is_row_revealing == TERMS[kind].carries_rows
        assert (
            "Signing these terms needs a separate consent" in plain_words(terms)
        ) == terms.is_row_revealing


def test_the_plain_words_name_what_may_be_chosen_and_nothing_where_there_is_no_choice() -> None:
    candidates = ["kawakami", "odc"]
    shown = plain_words(drafted({"method": "auto", "candidates": candidates}))
    assert "several ways to bring the rows into the common representation (kawakami, odc). It takes" in shown
    assert "several ways" not in plain_words(make_terms())


def test_members_that_erase_their_bases_are_told_too() -> None:
    forgetful = {"anchor": AnchorTerms(kind="gaussian", rows=20), "downlink": "anchor-predictions"}
    assert "several ways" in plain_words(drafted({"method": "auto"}, **forgetful))


def test_the_words_for_an_alignment_name_its_candidates() -> None:
    assert alignment_in_words(AlignmentTerms(method="gopp")) == "gopp"
    chosen = AutoAlignmentTerms(candidates=("odc", "rdp"))
    assert alignment_in_words(chosen) == "auto: the best of odc, rdp"
