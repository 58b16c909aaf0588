"""Columns of numbers in which some fields are none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from user_client.errors import TableError
from user_client.tables import draft_schema

LABEL = ["yes", "no"] * 20
NUMBERS = [f"{i}.5" for i in range(37)]


def draft(values: list[str], **options: object) -> object:
    return draft_schema(pa.table({"crp": values, "y": LABEL}), "y", **options)  # type: ignore[arg-type]


def test_fields_that_are_no_numbers_are_named_by_their_rows() -> None:
    with pytest.raises(
        TableError, match=r"numbers in 37 rows and other texts in 3 \(data row 38, 39, 40\)"
    ) as caught:
        draft([*NUMBERS, "<150", "-", "n.d."])
    assert "limit or half of it; else correct these fields" in caught.value.hint
    assert "--missing TEXT" in caught.value.hint
    assert "150" not in caught.value.detail + caught.value.hint


@pytest.mark.parametrize(
    ("text", "is_limit"), [("> 90", True), ("\u22640,3", True), ("n.d.", False), ("<", False)]
)
def test_a_limit_of_a_measurement_needs_a_number_instead(text: str, is_limit: bool) -> None:
    with pytest.raises(TableError) as caught:
        draft([*NUMBERS, text, text, text])
    assert ("agree on one with the other institutions" in caught.value.hint) is is_limit


def test_what_stands_for_an_empty_field_is_no_dirt() -> None:
    draft([*NUMBERS, "<150", "-", "n.d."], missing=["<150", "-", "n.d."])
    draft([*NUMBERS, "NA", "", "?"])


def test_decimal_commas_are_told() -> None:
    with pytest.raises(TableError, match="decimal commas, in 39 ") as caught:
        draft(["1", *(f"1{i},5" for i in range(39))])
    assert "decimal points" in caught.value.hint


@pytest.mark.parametrize("values", [["1", "2", "3", "x"] * 10, ["a1", "b2", "c3", "7"] * 10])
def test_categories_may_be_numbers_and_texts(values: list[str]) -> None:
    draft(values)


def test_a_person_may_say_that_they_are_categories() -> None:
    draft([*NUMBERS, "a", "b", "c"], categories=["crp"])


def test_a_column_that_is_there_twice_is_named() -> None:
    table = pa.Table.from_arrays(
        [pa.array(["1"] * 40), pa.array(["2"] * 40), pa.array(LABEL)], ["a", "a", "y"]
    )
    with pytest.raises(TableError, match="'a' is in the table more than once") as caught:
        draft_schema(table, "y")
    assert "rename" in caught.value.hint
