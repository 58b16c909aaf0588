"""Two rows have one fingerprint if their values are the same, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from user_client.sdk.row_fingerprints import KEY_BYTES, RowBytes, bytes_of_texts, bytes_of_values

KEY = bytes(range(KEY_BYTES))
KINDS = [bytes_of_values, bytes_of_texts]


def known(values: Any, kind: Callable[[pa.Table], RowBytes] = bytes_of_values) -> list[int]:
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
    ],
)
def test_the_same_values_are_known_again(one: Any, other: Any) -> None:
    assert known(one) == known(other)


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_are_not(kind: Callable[[pa.Table], RowBytes]) -> None:
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
def test_a_field_is_known_in_its_column_alone(kind: Callable[[pa.Table], RowBytes]) -> None:
    table = pa.table({"a": ["1", "2"], "b": ["2", "1"], "c": ["x", "x"]})
    first, second = kind(table).fingerprints(KEY)
    assert first != second
    for other in (table.select(["c", "b", "a"]), pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        np.testing.assert_array_equal(kind(other).fingerprints(KEY), [first, second])
    for other in (table.select(["a", "b"]), table.rename_columns(["a", "b", "d"])):
        assert not {first, second} & set(kind(other).fingerprints(KEY).tolist())
    assert kind(table).fingerprints(KEY[::-1])[0] != first


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_table_has_the_fingerprints_of_its_rows(kind: Callable[[pa.Table], RowBytes]) -> None:
    table = pa.table({"a": [1.5, None, 3.0, 9.0], "b": ["u", "v", None, "w"]})
    whole = kind(table).fingerprints(KEY)
    np.testing.assert_array_equal(kind(table.slice(1, 2)).fingerprints(KEY), whole[1:3])
    assert len(kind(table.slice(0, 0)).fingerprints(KEY)) == 0
