"""Terms under which the rows of several institutions are joined, and the hashes that they are joined by."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.absent_columns import AbsentColumns
from protocol.alignment_terms import AlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, encode
from protocol.consent import plain_words
from protocol.joined_rows import JoinedRows
from protocol.model_groups import ModelGroupsTerms
from protocol.row_keys import canonical_row_key, hashing_key, part_key, row_hash
from protocol.terms import Terms
from tests.harness.world import HOSPITAL, LEAD, make_terms

THIRD = "hospital-b"
GROUP: dict[str, Any] = {"row_key": "pid", "parties": (LEAD, HOSPITAL), "latent_dims": (1, 2), "labels": LEAD}
LACKING = (
    AbsentColumns(party=LEAD, columns=("x2", "x3")),
    AbsentColumns(party=HOSPITAL, columns=("x0", "x1")),
)


def joined(group: dict[str, Any] | None = None, **changed: Any) -> Terms:
    groups = (JoinedRows(**{**GROUP, **(group or {})}),)
    values = {
        "parties": (LEAD, HOSPITAL, THIRD),
        "latent_dim": 3,
        "absent_columns": LACKING,
        "joined_rows": groups,
    }
    return make_terms(**{**values, **changed})


def test_terms_without_groups_have_no_such_field_on_the_wire() -> None:
    assert b"joined_rows" not in encode(make_terms())
    assert decode(Terms, encode(joined())) == joined()


def test_each_sends_as_many_numbers_as_its_group_says() -> None:
    terms = joined()
    assert [list(terms.latent_dims_of(party)) for party in terms.parties] == [[1], [2], [3]]
    (group,) = terms.joined_rows
    assert (group.block_of(LEAD), group.block_of(HOSPITAL)) == (slice(0, 1), slice(1, 3))
    assert group.others(HOSPITAL) == [LEAD]
    assert (terms.group_of(LEAD), terms.group_of(THIRD)) == (group, None)


@pytest.mark.parametrize(
    ("group", "changed", "says"),
    [
        ({"parties": (LEAD, LEAD)}, {}, "parties of joined_rows must be distinct"),
        ({"parties": (LEAD, "hospital-z")}, {}, "of parties that send rows, hospital-z is none"),
        ({}, {"late_consumers": (HOSPITAL,)}, "of parties that send rows, hospital-a is none"),
        ({"labels": THIRD}, {}, "are of one of their parties, hospital-b is none"),
        ({"row_key": "x1"}, {}, "the row_key x1 must be neither a column nor the label"),
        ({"row_key": "y"}, {}, "the row_key y must be neither a column nor the label"),
        ({}, {"absent_columns": LACKING[:1]}, "x0 is at lead-hospital and hospital-a"),
        (
            {},
            {"absent_columns": (LACKING[0], AbsentColumns(party=HOSPITAL, columns=("x0", "x1", "x3")))},
            "x3 is at none of them",
        ),
        ({"latent_dims": (1, 1, 1)}, {}, "one of latent_dims for each of their parties"),
        ({"latent_dims": (1, 1)}, {}, "must add up to the latent_dim, 3"),
        ({"latent_dims": (1, 3)}, {"latent_dim": 4}, "hospital-a has 2"),
        ({}, {"hold_out": 0.2}, "do not go with a hold_out"),
        ({}, {"model_groups": ModelGroupsTerms(largest_distance=0.2)}, "do not go with model_groups"),
        (
            {},
            {"least_latent_dim": 1, "alignment": AlignmentTerms(method="imakura")},
            "do not go with a least_latent_dim",
        ),
        (
            {},
            {
                "own_maps": ("onnx",),
                "alignment": AlignmentTerms(method="imakura"),
                "anchor": AnchorTerms(kind="gaussian", rows=40),
            },
            "do not go with own_maps",
        ),
        ({}, {"terms_schema": 1}, "needs terms_schema 2"),
    ],
)
def test_terms_that_cannot_work_are_refused_in_words(
    group: dict[str, Any], changed: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        joined(group, **changed)


def test_a_party_is_in_one_group_at_most() -> None:
    with pytest.raises(ValidationError, match="in one group of joined_rows at most, hospital-a is in two"):
        joined(joined_rows=(JoinedRows(**GROUP), JoinedRows(**GROUP)))


def test_people_read_by_which_column_and_what_the_analyst_learns() -> None:
    text = plain_words(joined())
    assert "which the column pid names: lead-hospital all but x2, x3; hospital-a all but x0, x1." in text
    assert (
        "Of a row they send lead-hospital 1, hospital-a 2; the labels are those of lead-hospital alone."
        in text
    )
    assert "The analyst learns which rows these tables have in common" in text
    assert "by hashing every pid that may be" in text
    assert "Columns that institutions lack" not in text
    lacking = (*LACKING, AbsentColumns(party=THIRD, columns=("x0",)))
    assert "Columns that institutions lack: hospital-b lacks x0." in plain_words(
        joined(absent_columns=lacking)
    )


@pytest.mark.parametrize(
    ("field", "key"),
    [(" P 1\t", "P 1"), ("007", "007"), ("7.00", "7"), ("7.5", "7.5"), ("a", "a"), ("A", "A"), ("  ", "")],
)
def test_a_key_is_text_without_what_programs_add(field: str, key: str) -> None:
    assert canonical_row_key(field) == key


def test_composed_and_decomposed_letters_are_one_key() -> None:
    assert canonical_row_key("Zoe\u0308") == canonical_row_key("Zo\u00eb")


def test_a_row_has_another_hash_in_another_round_and_in_another_group() -> None:
    seed, group, ids = bytes(32), JoinedRows(**GROUP), ("a" * 32, "b" * 32)
    other = JoinedRows(**{**GROUP, "parties": (LEAD, THIRD)})
    keys = [hashing_key(seed, one, each) for one in ids for each in (group, other)]
    keys += [part_key(seed, ids[0], group), hashing_key(bytes([1] * 32), ids[0], group)]
    assert len({row_hash(key, "P-1") for key in keys}) == len(keys)
    assert len(row_hash(keys[0], "P-1")) == 16
