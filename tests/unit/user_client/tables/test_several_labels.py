"""Several labels of a table: how they are drafted, read and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.errors import InputError
from protocol.labels import BinaryLabel, MultiLabel
from protocol.table_schema import RangeColumn, Schema
from user_client.errors import EmptyFieldError, MissingColumnError, UnknownLevelError
from user_client.tables import draft_schema, encode_labels, find_misfits, strata, with_labels
from user_client.tables.dictionary import Dictionary, draft_from_dictionary

FELL = BinaryLabel(name="fell", absent="never", present="once")
ILL = BinaryLabel(name="ill", absent="0", present="1")
SCHEMA = Schema(
    columns=(RangeColumn(name="x", low=0, high=1, centre=0.5),), label_column=MultiLabel(labels=(FELL, ILL))
)


def table(**changed: list[Any]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "x": [0.1, 0.2, 0.3, 0.4],
        "fell": ["once", "never", "once", "never"],
        "ill": [1, 1, 0, 0],
    }
    return pa.table(columns | changed)


def test_a_label_is_a_bit() -> None:
    found = encode_labels(table(), SCHEMA)
    assert found.tolist() == [3, 2, 1, 0]
    assert found.dtype == np.uint8


def test_more_than_eight_labels_have_two_bytes() -> None:
    many = tuple(BinaryLabel(name=f"label {number}", absent="0", present="1") for number in range(9))
    schema = SCHEMA.model_copy(update={"label_column": MultiLabel(labels=many)})
    found = encode_labels(pa.table({one.name: [0, int(one is many[8])] for one in many}), schema)
    assert found.tolist() == [0, 256]
    assert found.dtype == np.uint16


def test_a_field_that_says_neither_is_refused_by_its_column() -> None:
    with pytest.raises(EmptyFieldError, match="column 'ill'"):
        encode_labels(table(ill=[1, None, 0, 0]), SCHEMA)
    with pytest.raises(UnknownLevelError, match="column 'fell'"):
        encode_labels(table(fell=["once", "twice", "once", "never"]), SCHEMA)
    with pytest.raises(MissingColumnError, match="ill"):
        encode_labels(table().drop_columns(["ill"]), SCHEMA)


def test_every_label_that_does_not_fit_is_named() -> None:
    found, rows = find_misfits(table(fell=["twice", None, None, "never"], ill=[1, 0, None, 2]), SCHEMA)
    assert rows == 4
    assert {(one.column, one.code, one.rows, one.first_row) for one in found} == {
        ("fell", "unknown-level", 1, 1),
        ("fell", "empty-field", 2, 2),
        ("ill", "empty-field", 1, 3),
        ("ill", "unknown-level", 1, 4),
    }
    (missing,), _ = find_misfits(table().drop_columns(["fell"]), SCHEMA)
    assert (missing.column, missing.code) == ("fell", "missing-column")


def test_an_empty_label_is_not_told_to_be_imputed() -> None:
    with pytest.raises(EmptyFieldError) as refused:
        encode_labels(table(fell=["once", None, "once", "never"]), SCHEMA)
    assert refused.value.hint == refused.value.in_whole_table(10).hint
    assert "the terms impute no label" in refused.value.hint


def test_rows_without_all_labels_are_left_out_where_labels_are_needed() -> None:
    some = table(fell=["once", None, "once", "never"], ill=[1, 1, None, 0])
    assert with_labels(some, SCHEMA).column("x").to_pylist() == [0.1, 0.4]


def test_the_groups_of_rows_are_those_with_a_label_and_those_without() -> None:
    assert strata(np.array([0, 3, 1, 0], np.uint8), "multilabel").tolist() == [0, 1, 1, 0]


def test_a_draft_takes_the_second_of_two_values_for_the_label() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    drafted = draft_schema(
        pa.table(
            {"x": x, "y": x + 1e-3, "ill": (x > 0).astype(int), "fell": rng.choice(["never", "once"], 200)}
        ),
        ["ill", "fell"],
        task="multilabel",
    )
    assert drafted.content["label_column"] == {
        "kind": "multilabel",
        "labels": [ILL.model_dump(), FELL.model_dump()],
    }
    assert [column["name"] for column in drafted.content["columns"]] == ["x", "y"]
    leaks = [remark for remark in drafted.remarks if "predicts the label" in remark]
    assert [leak.split(" alone")[0] for leak in leaks] == [
        "x: predicts the label ill",
        "y: predicts the label ill",
    ]
    assert Schema.model_validate(drafted.content, strict=False).label_column.columns == ("ill", "fell")


@pytest.mark.parametrize("values", [[1, 1, 1, 1], [0, 1, 2, 0]])
def test_a_draft_needs_two_values_of_each_label(values: list[int]) -> None:
    with pytest.raises(
        InputError, match=r"column 'ill' has [13] distinct values; one of several labels has 2"
    ):
        draft_schema(table(ill=values), ["fell", "ill"], task="multilabel")


def test_a_dictionary_names_the_level_without_the_label_first(tmp_path: Any) -> None:
    path = tmp_path / "dictionary.csv"
    path.write_text(
        "name,type,low,high,levels\nx,number,0,1,\nfell,category,,,never|once\nill,category,,,0|1\n"
    )
    content = draft_from_dictionary(Dictionary.read(path), ["fell", "ill"], task="multilabel").content
    assert content["label_column"]["labels"] == [FELL.model_dump(), ILL.model_dump()]
    with pytest.raises(InputError, match="column 'x' needs to be a category of two levels"):
        draft_from_dictionary(Dictionary.read(path), ["fell", "x"], task="multilabel")
