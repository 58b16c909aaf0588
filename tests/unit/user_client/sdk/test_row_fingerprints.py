"""Two rows have one fingerprint if their values are the same, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.table_schema import Schema
from user_client.sdk.row_fingerprints import KEY_BYTES, KnownRows, texts_of, values_of
from user_client.tables.encode import with_numbers_read

KEY = bytes(range(KEY_BYTES))
KINDS = [values_of, texts_of]
SCHEMA = {
    "columns": [{"kind": "numeric", "name": "x", "low": 0, "high": 1}],
    "label_column": {"name": "y", "classes": ["no", "yes"]},
}


def known(values: Any, kind: Callable[[pa.Table], KnownRows] = values_of) -> list[int]:
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return [int(each) for each in kind(pa.table({"x": column})).fingerprints(KEY)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["1.50", "-0.0", "7"], [1.5, 0.0, 7.0]),
        (["1.50", "+0", "7e0"], pa.array([1.5, 0, 7], pa.float32())),
        ([" 12 ", "<150", "12"], ["12", "<150", "12.0"]),
        (["1", "2", "3"], pa.array([1, 2, 3], pa.int8())),
        (["1.25", "2.00"], [Decimal("1.25"), Decimal("2.00")]),
        (["", None, "3"], [None, float("nan"), 3.0]),
        ([None, "yes", "no"], pa.array([None, "yes", "no"]).dictionary_encode()),
        (["1", "0", "yes"], pa.array(["1", "0", "yes"], pa.large_string())),
        (["1", "0"], pa.array(["1", "0"], pa.large_string())),
        (["2024-02-29", ""], [date(2024, 2, 29), None]),
        (["true", "false"], [True, False]),
        (["9007199254740993", "2"], [9007199254740993, 2]),
        (["0.1", "-1234.567", "1e-7", "3e10"], pa.array([0.1, -1234.567, 1e-7, 3e10], pa.float32())),
        (["0.07", "158.39", "1504.62"], [Decimal("0.07"), Decimal("158.39"), Decimal("1504.62")]),
        (["inf", "nan", "-Infinity", "1e400", "5"], ["inf ", " nan", "-Infinity", "1e400", "5.0"]),
    ],
)
def test_the_same_values_are_known_again(one: Any, other: Any) -> None:
    assert known(one) == known(other)


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_are_not(kind: Callable[[pa.Table], KnownRows]) -> None:
    values = [
        "1",
        "1.5",
        "-1.5",
        "",
        "yes",
        "no",
        "Yes",
        "01x",
        "inf",
        "9007199254740993",
        "9007199254740992",
    ]
    assert len(set(known(values, kind))) == len(values)
    assert len(set(known([1.0, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 0.0], kind))) == 7
    assert len(set(known([2**53, 2**53 + 1, 2**53 + 2, 5], kind))) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_is_known_in_its_column_alone(kind: Callable[[pa.Table], KnownRows]) -> None:
    table = pa.table({"a": ["1", "2"], "b": ["2", "1"], "c": ["x", "x"]})
    first, second = kind(table).fingerprints(KEY)
    assert first != second
    for other in (table.select(["c", "b", "a"]), pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        np.testing.assert_array_equal(kind(other).fingerprints(KEY), [first, second])
    for other in (table.select(["a", "b"]), table.rename_columns(["a", "b", "d"])):
        assert not {first, second} & set(kind(other).fingerprints(KEY).tolist())
    assert kind(table).fingerprints(KEY[::-1])[0] != first


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_table_has_the_fingerprints_of_its_rows(kind: Callable[[pa.Table], KnownRows]) -> None:
    table = pa.table({"a": [1.5, None, 3.0, 9.0], "b": ["u", "v", None, "w"]})
    whole = kind(table).fingerprints(KEY)
    np.testing.assert_array_equal(kind(table.slice(1, 2)).fingerprints(KEY), whole[1:3])
    assert len(kind(table.slice(0, 0)).fingerprints(KEY)) == 0


FIELDS = ["1", " 2.50", "", None, "NA", "<150", "+.5e1", "inf", "nan", "9007199254740993", "1e400", "-0"]


@given(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=40), st.integers(0, 39))
def test_a_row_does_not_depend_on_the_part_that_it_comes_in(fields: list[str | None], first: int) -> None:
    """Whether others of its column are numbers, empty or neither: parts end where they may."""
    table = pa.table({"x": pa.array(fields, pa.string())})
    schema = Schema.model_validate({**SCHEMA, "missing": ["NA"]}, strict=False)
    parts = [table.slice(0, first), table.slice(first)]
    found = [each for part in parts for each in known(with_numbers_read(part, schema).column("x"))]
    assert found == known(table.column("x")) == [each for field in fields for each in known([field])]


def test_a_text_that_is_no_utf8_is_told_by_its_bytes() -> None:
    def latin(*texts: bytes) -> pa.Array:
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(pa.string(), len(texts), buffers)

    one, other = known(latin(b"M\xfcller", b"M\xf6ller"))
    assert one != other
    assert known(latin(b"12", b"M\xfcller")) == [*known(["12"]), one]


def test_a_table_without_a_column_that_tells_rows_has_rows_all_the_same() -> None:
    table = pa.table({"x": [[1], [2], [3]]})
    assert len(set(values_of(table).fingerprints(KEY).tolist())) == 1
