"""Columns that look like something else, and columns that terms cannot have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from protocol.errors import InputError
from user_client.errors import MissingColumnError, TableError
from user_client.tables import draft_schema


def with_label(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "y": [("no", "yes")[index % 2] for index in range(rows)]})


def draft(values: Any, **options: Any) -> dict[str, Any]:
    """Return the draft of one column."""
    (column,) = draft_schema(with_label(x=values), "y", **options).content["columns"]
    return dict(column)


def test_bands_that_python_reads_as_numbers_are_levels() -> None:
    found = draft(["0_4", "5_9", "10_14", "15_19"] * 10)
    assert (found["kind"], len(found["levels"])) == ("levels", 4)


def test_a_code_is_named_as_the_table_writes_it() -> None:
    """It is the same code with and without the point."""
    values = [*(f"{number / 7:.3f}" for number in range(60)), "-999.0", "-999.0", "-999.0"]
    (remark,) = [one for one in draft_schema(with_label(x=values), "y").remarks if "apart from all" in one]
    assert "--missing-in x=-999.0," in remark
    for code in ("-999.0", "-999"):
        again = draft_schema(with_label(x=values), "y", missing_in={"x": [code]})
        assert not [one for one in again.remarks if "apart from all" in one]


def test_a_label_written_with_and_without_a_point_has_two_classes() -> None:
    found = draft_schema(pa.table({"x": list(range(60)), "y": ["0", "1", "1.0"] * 20}), "y")
    assert found.content["label_column"]["classes"] == ["0", "1"]


def test_a_code_written_with_a_point_is_no_level() -> None:
    assert draft(["a", "b", "-9.0"] * 20, missing=["", "-9"])["levels"] == ["a", "b"]


def test_a_class_that_counts_as_an_empty_field_is_told() -> None:
    table = pa.table({"x": list(range(60)), "y": ["None", "Mild", "Severe"] * 20})
    found = draft_schema(table, "y")
    assert found.content["label_column"]["classes"] == ["Mild", "Severe"]
    assert [one for one in found.remarks if one.startswith("y: 20 rows say None, which counts as an empty")]


@pytest.mark.parametrize("values", [[[1, 2], [3]] * 20, [b"\xff", b"\xfe"] * 20], ids=["lists", "bytes"])
def test_a_column_of_something_else_is_named_with_what_to_do(values: list[Any]) -> None:
    with pytest.raises(InputError, match="column 'x' holds neither numbers nor text") as caught:
        draft_schema(with_label(x=values, z=list(range(40))), "y")
    assert "--exclude x" in (caught.value.hint or "")


def test_an_empty_column_of_categories_is_named() -> None:
    with pytest.raises(InputError, match="column 'x' is empty: leave it out with --exclude x"):
        draft(pa.array([None] * 40, pa.string()), categories=["x"], encoding="plain")


def remarks_on_x(values: Any, **options: Any) -> list[str]:
    """Return the remarks of a draft that begin with the name of its one column."""
    found = draft_schema(with_label(x=values), "y", **options)
    return [one for one in found.remarks if one.startswith("x:")]


def test_codes_with_leading_zeros_are_names() -> None:
    postcodes = [f"{6000 + 17 * number:05}" for number in range(40)] * 5
    found = draft(postcodes)
    assert (found["kind"], found["levels"][0]) == ("levels", "06000")
    assert "leading zeros" in remarks_on_x(postcodes)[0]


def test_many_numbers_with_leading_zeros_are_asked_about() -> None:
    times = [f"{number:04}" for number in range(800, 1000)]
    assert draft(times)["kind"] == "ranks"
    assert "--other x" in " ".join(remarks_on_x(times))


@pytest.mark.parametrize(
    "values", [["0", "1", "2"] * 30, ["00.5", "01.5"] * 30, ["01", "2", "10"] * 30, ["10", "20"] * 30]
)
def test_other_numbers_are_no_codes(values: list[str]) -> None:
    assert draft(values)["kind"] == "ranks"


def test_a_code_that_alone_is_negative_is_asked_about() -> None:
    """A laboratory value from 0.3 to 12, of which every sixth is not known."""
    values = [round(0.3 + number / 8, 2) for number in range(95)] + [-9.0] * 15
    assert "x: -9 is in 15 rows, apart from all other numbers" in remarks_on_x(values)[0]
    assert not remarks_on_x([*values, -3.0])


def test_a_number_for_every_row_is_asked_about() -> None:
    assert "--exclude x" in remarks_on_x(list(range(5_000_001, 5_000_101)))[0]
    assert not remarks_on_x([*range(5_000_001, 5_000_101), 5_000_001])
    assert not remarks_on_x([number / 2 for number in range(101)])


@pytest.mark.parametrize("typed", [True, False])
def test_a_text_for_empty_fields_that_no_field_has_is_told(typed: bool) -> None:
    numbers = [*range(60), -999, -999]
    values = numbers if typed else [f"{number}.0" for number in numbers]
    assert "x: --missing-in x=-9 is in no row" in " ".join(remarks_on_x(values, missing_in={"x": ["-9"]}))
    assert "in no row" not in " ".join(remarks_on_x(values, missing_in={"x": ["-999"]}))
    unused = draft_schema(with_label(x=values), "y", missing=["777", "-999"]).remarks
    assert [one for one in unused if one.startswith("--missing")] == [
        "--missing 777: no field of this table is 777, as the file was read"
    ]


@pytest.mark.parametrize(("name", "hint"), [("Y", "has the column 'y'"), ("outcome", "the table has x, y")])
def test_a_column_that_is_not_there_is_told_with_those_that_are(name: str, hint: str) -> None:
    with pytest.raises(MissingColumnError) as caught:
        draft_schema(with_label(x=list(range(40))), name)
    assert hint in (caught.value.hint or "")


def test_a_column_of_one_value_and_gaps_is_left_out_with_a_way_to_keep_it() -> None:
    table = with_label(x=["yes", "", "yes", ""] * 20, z=list(range(80)))
    (said,) = [one for one in draft_schema(table, "y").remarks if one.startswith("x:")]
    assert "wherever it is not empty" in said
    assert "--impute x=no" in said
    kept = draft_schema(table, "y", imputes={"x": "no"}).content["columns"][0]
    assert (kept["name"], kept["levels"]) == ("x", ["no", "yes"])


def test_numbers_written_with_and_without_a_point_do_not_hide_a_text_among_them() -> None:
    values = [*map(str, range(20)), *(f"{number}.0" for number in range(20))] * 6
    values[5] = "abc"
    with pytest.raises(TableError, match=r"other texts in 1 \(data row 6\)"):
        draft(values)


def test_what_a_person_says_of_a_column_of_padded_numbers_holds() -> None:
    months = [f"{1 + number % 12:02}" for number in range(240)]
    assert draft(months)["kind"] == "levels"
    assert draft(months, logarithms=["x"])["kind"] == "range"
    gaps = [None if number % 9 == 0 else month for number, month in enumerate(months)]
    assert draft(gaps, imputes={"x": "0"})["kind"] == "ranks"
    assert "none" in draft(gaps, imputes={"x": "none"})["levels"]


@pytest.mark.parametrize(
    ("value", "advice"), [("1", "--impute x=0"), ("yes", "--impute x=no"), ("2020-01-31", None)]
)
def test_the_advice_for_one_value_and_gaps_can_be_followed(value: str, advice: str | None) -> None:
    table = with_label(x=[value, ""] * 40, z=list(range(80)))
    (said,) = [one for one in draft_schema(table, "y").remarks if one.startswith("x:")]
    assert (advice in said) if advice else ("--impute" not in said)
    if advice:
        kept = draft_schema(table, "y", imputes={"x": advice.partition("=")[2]}).content["columns"]
        assert [column["name"] for column in kept] == ["x", "z"]


@pytest.mark.parametrize(
    "spellings", [["True", "TRUE", "False"], ["1.0", "1.00", "0"], ["true", "True", "FALSE"]]
)
def test_spellings_of_one_value_are_one_class(spellings: list[str]) -> None:
    found = draft_schema(pa.table({"x": list(range(60)), "y": spellings * 20}), "y")
    assert len(found.content["label_column"]["classes"]) == 2
