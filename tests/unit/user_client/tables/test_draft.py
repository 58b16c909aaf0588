from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InputError
from protocol.table_schema import Schema
from user_client.errors import MissingColumnError
from user_client.tables import draft_schema, encode_labels, encode_rows
from user_client.tables.draft import MAX_DRAFT_LEVELS

LABELS = ["no", "yes"]


def draft(values: Any, **options: Any) -> dict[str, Any]:
    """Return the draft of one column."""
    labels = [LABELS[index % 2] for index in range(len(values))]
    (column,) = draft_schema(pa.table({"x": values, "y": labels}), "y", **options)["columns"]
    return dict(column)


def test_a_column_of_numbers_is_numeric() -> None:
    assert draft(["2", "4", "12"]) == {
        "kind": "numeric",
        "name": "x",
        "low": 1.0,  # lower by a tenth of the width of 10, rounded to the second digit
        "high": 13.0,
        "impute": 4.0,
        "out_of_range": "refuse",
    }


def test_the_exact_extremes_are_not_shown() -> None:
    found = draft([17.377, 30.1, 83.991])
    assert found["low"] < 17.377
    assert found["high"] > 83.991
    assert (found["low"], found["high"]) == (10.0, 91.0)


def test_numbers_that_are_never_negative_get_no_negative_range() -> None:
    assert draft([0.0, 1.0, 2.0])["low"] == 0


def test_negative_numbers_get_a_wider_range_on_both_sides() -> None:
    found = draft([-20, -10, -5])
    assert found["low"] < -20
    assert found["high"] > -5


def test_a_constant_column_gets_a_range() -> None:
    for value in (5, -5, 0, 0.7, 123456789.0):
        found = draft([value, value])
        assert found["low"] <= value <= found["high"]
        assert found["low"] < found["high"]


@pytest.mark.parametrize("empty", ["", "?", "NA", None, "nan"])
def test_the_median_stands_in_for_empty_numbers(empty: str | None) -> None:
    found = draft(["1", "2", "9", empty])
    assert (found["kind"], found["impute"]) == ("numeric", 2.0)


def test_numbers_in_a_parquet_column_with_gaps_are_numeric() -> None:
    assert draft(pa.array([1.0, float("nan"), None, 3.0]))["kind"] == "numeric"


def test_the_choice_for_numbers_out_of_range_is_passed_on() -> None:
    assert draft([1, 2], out_of_range="clip")["out_of_range"] == "clip"


def test_a_column_of_words_is_categorical() -> None:
    assert draft(["b", "a", "b", ""]) == {
        "kind": "categorical",
        "name": "x",
        "levels": ["a", "b"],
        "impute": "b",
    }


def test_words_among_numbers_make_a_category_that_lists_numbers_first() -> None:
    assert draft(["10", "9", "other"])["levels"] == ["9", "10", "other"]


@pytest.mark.parametrize("count", [1, MAX_DRAFT_LEVELS + 1])
def test_a_column_that_is_no_feature_is_refused_with_a_hint(count: int) -> None:
    values = [f"name {index}" for index in range(count)] * 2
    with pytest.raises(InputError, match="--exclude x"):
        draft(values)


def test_as_many_levels_as_allowed_are_drafted() -> None:
    assert len(draft([f"name {index}" for index in range(MAX_DRAFT_LEVELS)])["levels"]) == MAX_DRAFT_LEVELS


def test_a_column_of_empty_fields_is_refused() -> None:
    with pytest.raises(InputError, match="0 distinct"):
        draft(["", "", ""])


def test_an_excluded_column_is_left_out() -> None:
    rows = pa.table({"name": ["p", "q"], "x": [1, 2], "y": LABELS})
    found = draft_schema(rows, "y", ["name"])
    assert [column["name"] for column in found["columns"]] == ["x"]


def test_the_classes_are_the_labels_that_are_not_empty() -> None:
    found = draft_schema(pa.table({"x": [1, 2, 3], "y": ["2", "10", ""]}), "y")
    assert found["label_column"] == {"name": "y", "classes": ["2", "10"]}


def test_a_label_of_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="has 1 distinct values"):
        draft_schema(pa.table({"x": [1, 2], "y": ["a", "a"]}), "y")


def test_a_missing_label_column_is_refused() -> None:
    with pytest.raises(MissingColumnError):
        draft_schema(pa.table({"x": [1]}), "y")


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=30),
    st.lists(st.sampled_from(["a", "b", "NA"]), min_size=30, max_size=30),
)
def test_a_draft_is_valid_and_fits_its_own_table(numbers: list[float], words: list[str]) -> None:
    rows = len(numbers)
    categories = ["a", "b", *words][:rows]
    labels = [LABELS[index % 2] for index in range(rows)]
    made = pa.table({"x": numbers, "c": categories, "y": labels})
    schema = Schema.model_validate(draft_schema(made, "y"), strict=False)
    encoded = encode_rows(made, schema)
    assert np.abs(encoded).max() <= 1
    assert len(encode_labels(made, schema)) == rows
