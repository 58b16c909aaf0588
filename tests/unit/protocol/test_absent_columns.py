"""Terms under which an institution takes part without some columns."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words, warnings_of
from protocol.terms import Terms
from tests.harness.world import HOSPITAL, LEAD, make_terms


def absent(*columns: str, party: str = HOSPITAL) -> dict[str, Any]:
    return {"party": party, "columns": columns}


def lacking_terms(*listed: dict[str, Any], **changed: Any) -> Terms:
    return make_terms(**{"absent_columns": listed or (absent("x1"),), **changed})


def test_terms_without_absent_columns_have_no_such_field_on_the_wire() -> None:
    assert b"absent_columns" not in encode(make_terms())
    assert decode(Terms, encode(lacking_terms())) == lacking_terms()


def test_a_party_has_the_other_columns_in_their_order() -> None:
    terms = lacking_terms()
    every = [column.name for column in terms.table_schema.columns]
    assert [column.name for column in terms.schema_of(HOSPITAL).columns] == [
        name for name in every if name != "x1"
    ]
    assert terms.schema_of(LEAD) == terms.table_schema
    assert terms.features_of(LEAD) == list(range(terms.table_schema.width))
    assert terms.features_of(HOSPITAL) == [
        index for index in range(terms.table_schema.width) if index != every.index("x1")
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"absent_columns": (absent("x1", party="hospital-z"),)}, "hospital-z is none"),
        ({"absent_columns": (absent("height"),)}, "height is none"),
        ({"absent_columns": (absent("x1"), absent("x0"))}, "name each party once"),
        ({"absent_columns": (absent("x1", "x1"),)}, "must be distinct"),
        ({"absent_columns": (absent("x1"), absent("x1", party=LEAD))}, "no institution that sends rows"),
        ({"latent_dim": 4}, "latent_dim must be at most the 3 encoded features that"),
        ({"terms_schema": 1}, "absent_columns needs terms_schema 2"),
        (
            {"downlink": "anchor-predictions", "anchor": AnchorTerms(kind="gaussian", rows=60)},
            "do not go with anchor-predictions",
        ),
    ],
)
def test_terms_that_cannot_work_are_refused_in_words(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        lacking_terms(**changed)


def test_a_column_that_only_a_late_consumer_has_trains_nothing() -> None:
    late = {"parties": (LEAD, HOSPITAL, "late"), "late_consumers": ("late",)}
    with pytest.raises(ValidationError, match="no institution that sends rows has the column x1"):
        lacking_terms(absent("x1"), absent("x1", party=LEAD), **late)


def test_people_read_who_lacks_what_and_that_the_alignment_is_approximate() -> None:
    terms = lacking_terms(latent_dim=3)
    assert f"Columns that institutions lack: {HOSPITAL} lacks x1. " in plain_words(terms)
    found = list(warnings_of(terms))
    assert any(warning.startswith("approximate alignment: ") for warning in found)
    assert any(warning.startswith(f"nothing is projected away at {HOSPITAL}: ") for warning in found)


def test_nothing_of_that_is_said_of_other_terms() -> None:
    assert "lack" not in plain_words(make_terms())


def test_they_do_not_go_with_sums() -> None:
    terms = make_terms(parties=(LEAD, HOSPITAL, "third"))
    sums = {"random_features": 0, "kernel_width": None, "penalty": None, "max_rows": 100, "min_rows": 2}
    summed = terms.model_dump(mode="json") | {
        "sums": sums,
        "model": {"kind": "ridge", "inverse_penalty": 1.0},
        "latent_dim": terms.table_schema.width,
    }
    Terms.model_validate(summed, strict=False)
    listed = [{"party": HOSPITAL, "columns": ["x1"]}]
    with pytest.raises(ValidationError, match="absent_columns do not go with sums"):
        Terms.model_validate(summed | {"absent_columns": listed}, strict=False)
