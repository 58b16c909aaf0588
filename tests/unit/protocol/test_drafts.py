"""Terms as people write them: nothing is taken for another thing, because everybody signs what they say."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from protocol.alignment_terms import AutoAlignmentTerms
from protocol.drafts import fields_of_json, terms_of
from protocol.model_terms import candidates_of, default_candidates
from tests.vectors.examples import TERMS_2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latent_dim", True),
        ("latent_dim", "5"),
        ("dither", True),
        ("dither", "0.5"),
        ("hold_out", "0.2"),
        ("returns_scores", "yes"),
        ("returns_scores", 1),
        ("title", 3),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        terms_of({**TERMS_2, field: value}, {})
    assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_lists_and_whole_numbers_are_what_they_mean() -> None:
    draft = {**TERMS_2, "dither": 1, "parties": list(TERMS_2["parties"])}
    ids = {name: draft.pop(name) for name in ("consortium_id", "collaboration_id")}
    found = terms_of(draft, ids)
    assert (found.dither, found.parties) == (1.0, tuple(TERMS_2["parties"]))


def test_a_date_of_toml_is_a_text() -> None:
    assert terms_of({**TERMS_2, "purpose": date(2026, 1, 31)}, {}).purpose == "2026-01-31"


def test_a_key_that_is_there_twice_is_refused_wherever_it_stands() -> None:
    assert fields_of_json('{"a": {"b": 1}}') == {"a": {"b": 1}}
    for text in ('{"title": "one", "title": "two"}', '{"a": [{"title": 1, "title": 1}]}'):
        with pytest.raises(ValueError, match='the key "title" is there twice'):
            fields_of_json(text)


@pytest.mark.parametrize("text", ["[]", "3", "null", json.dumps("x")])
def test_what_is_no_object_is_no_draft(text: str) -> None:
    with pytest.raises(ValueError, match="not an object"):
        fields_of_json(text)


def test_auto_without_candidates_has_those_of_its_task() -> None:
    draft = {**TERMS_2, "model": {"kind": "auto"}, "alignment": {"method": "auto"}}
    found = terms_of(draft, {})
    assert candidates_of(found.model) == default_candidates("classes")
    assert isinstance(found.alignment, AutoAlignmentTerms)
    assert len(found.alignment.candidates) > 1
