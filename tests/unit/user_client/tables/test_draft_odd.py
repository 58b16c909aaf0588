"""Columns that look like something else, and columns that terms cannot have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from protocol.errors import InputError
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
    (remark,) = [one for one in draft_schema(with_label(x=values), "y").remarks if "stands in" in one]
    assert "--missing-in x=-999.0," in remark
    for code in ("-999.0", "-999"):
        again = draft_schema(with_label(x=values), "y", missing_in={"x": [code]})
        assert not [one for one in again.remarks if "stands in" in one]


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
