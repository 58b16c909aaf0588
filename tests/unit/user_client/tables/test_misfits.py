"""What does not fit the terms is told all at once, with counts, what to do, and never a value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from protocol.table_schema import Schema
from user_client.tables import Misfit, find_misfits

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "numeric", "low": 0.0, "high": 120.0},
    "dose": {"kind": "range", "low": 0.0, "high": 10.0, "centre": 5.0},
    "ward": {"kind": "levels", "levels": ("a", "b"), "shares": (0.5, 0.5)},
    "stage": {"kind": "ordinal", "levels": ("i", "ii")},
    "born": {"kind": "range", "low": 0.0, "high": 20000.0, "centre": 9000.0, "dates": "iso"},
}
GOOD: dict[str, list[str | None]] = {
    "age": ["61"] * 6,
    "dose": ["2"] * 6,
    "ward": ["a"] * 6,
    "stage": ["i"] * 6,
    "born": ["1999-12-31"] * 6,
    "ill": ["no"] * 6,
}


def schema(*names: str) -> Schema:
    return Schema.model_validate(
        {
            "columns": tuple({"name": name, **COLUMNS[name]} for name in names),
            "label_column": {"name": "ill", "classes": ("no", "yes")},
        }
    )


def found_in(*names: str, **columns: list[str | None]) -> list[Misfit]:
    misfits, rows = find_misfits(pa.table({**GOOD, **columns}), schema(*names))
    assert rows == 6
    return misfits


def test_a_table_that_fits_has_none() -> None:
    assert found_in(*COLUMNS) == []


def test_one_column_may_fail_in_several_ways_each_with_its_rows() -> None:
    found = found_in("age", age=["61", "x", "", "130", "-1", ""])
    assert [(one.code, one.rows, one.first_row) for one in found] == [
        ("not-a-number", 1, 2),
        ("empty-field", 2, 3),
        ("out-of-range", 2, 4),
    ]
    assert found[1].detail == "column 'age', 2 data rows, the first is 3: the field is empty"


@pytest.mark.parametrize(
    ("name", "field", "fix"),
    [
        ("age", "", "write impute = VALUE"),
        ("dose", "", 'write empty = "centre"'),
        ("dose", "n.d.", "to missing in the terms"),
        ("dose", "<0.5", "agree on one with the other institutions"),
        ("born", "31.12.1999", "dates written as dd.mm.yyyy: write them as the terms say"),
        ("born", "n.d.", "to missing in the terms"),
        ("ward", "c", "a draft with --other ward has"),
        ("ward", "A", "differ from the levels in capitals alone"),
        ("stage", "iv", "add them to levels"),
        ("ill", "NO", "differ from the levels in capitals alone"),
        ("ill", "perhaps", "to the classes of the label"),
        ("age", "130", 'out_of_range = "clip"'),
        ("ill", "", "cannot train"),
    ],
)
def test_each_has_a_line_for_the_terms_or_a_change_of_the_table(name: str, field: str, fix: str) -> None:
    values: list[str | None] = [*GOOD[name][:5], field]
    (found,) = found_in(*COLUMNS, **{name: values})
    assert (found.column, found.rows, found.first_row) == (name, 1, 6)
    assert fix in found.fix


def test_all_is_named_at_once_that_another_level_needs_in_the_terms() -> None:
    (levels,) = found_in(*COLUMNS, ward=["c", *GOOD["ward"][1:]])
    for part in ("levels", "shares", "anchor.rows", "under sums latent_dim"):
        assert part in levels.fix
    (ordinal,) = found_in(*COLUMNS, stage=["iv", *GOOD["stage"][1:]])
    assert ordinal.fix == "correct the fields, or add them to levels in this column of the terms"


def test_where_no_field_is_a_level_another_level_is_no_help() -> None:
    (found,) = found_in(*COLUMNS, ward=["ward a"] * 6)
    assert "look at how they are written" in found.fix
    assert "other" not in found.fix


def test_a_label_of_other_words_throughout_is_written_as_the_terms_do() -> None:
    (found,) = found_in(*COLUMNS, ill=["0", "1", "0", "1", "0", "1"])
    assert found.fix == "none of this column is a class of the label: write them as no and yes"


def test_a_label_that_is_missing_cannot_be_left_out() -> None:
    (missing,), _ = find_misfits(pa.table({"age": ["61"]}), schema("age"))
    assert missing.fix == "add the column to the table: it is the label"


def test_a_column_that_is_missing_names_the_one_that_may_be_meant() -> None:
    table = pa.table({" Age": ["61"], "ill": ["no"]})
    (near,), _ = find_misfits(table, schema("age"))
    assert near.fix == "if the table's column ' Age' is meant, rename it to 'age'"
    (missing,), _ = find_misfits(table, schema("stage"))
    assert (missing.column, missing.rows, missing.detail) == (
        "stage",
        0,
        "column 'stage' is not in the table",
    )
    assert "add the column" in missing.fix


def test_no_value_of_the_table_is_told() -> None:
    secret = "4711-Jane"
    found = found_in(*COLUMNS, **{name: [secret, *GOOD[name][1:]] for name in GOOD})
    assert {one.column for one in found} == set(GOOD)
    assert secret not in str([one.to_json() for one in found])
