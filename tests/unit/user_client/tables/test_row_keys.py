"""What names each row of a table, hashed; errors name rows and never a key."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from protocol.row_keys import row_hash
from user_client.errors import EmptyFieldError, FieldError, MissingColumnError, RepeatedRowKeyError
from user_client.tables import RowKeys, beside

KEY = bytes(range(32))


def read(*parts: list[Any], missing: tuple[str, ...] = ("", "NA")) -> RowKeys:
    keys = RowKeys(KEY, "pid", missing)
    for part in parts:
        keys.look(pa.table({"pid": part}))()
    return keys


def hashed(*keys: str) -> list[bytes]:
    return [row_hash(KEY, key) for key in keys]


def test_hashes_are_in_the_order_of_the_table_whatever_the_type_of_the_column() -> None:
    assert [*read([" b", "a"], ["c"]).hashes()] == hashed("b", "a", "c")
    assert [*read([3, 1]).hashes()] == [*read([3.0, 1.0]).hashes()] == hashed("3", "1")
    dictionary = pa.array(["x", "y"]).dictionary_encode()
    assert [*read(dictionary).hashes()] == hashed("x", "y")


@pytest.mark.parametrize("key", [12345678901, 2**53 - 1, 10**10])
def test_a_long_number_is_its_digits_also_where_a_program_has_stored_it_as_a_float(key: int) -> None:
    written = [*read([str(key)]).hashes()]
    for stored in (
        pa.array([float(key)]),
        pa.array([float(key)]).dictionary_encode(),
        pa.array([Decimal(f"{key}.00")]),
    ):
        assert [*read(stored).hashes()] == written


@pytest.mark.parametrize(
    ("kind", "largest"), [(pa.float16(), 2**11), (pa.float32(), 2**24), (pa.float64(), 2**53)]
)
def test_a_float_that_is_another_key_as_well_is_refused(kind: pa.DataType, largest: int) -> None:
    keys = np.array([largest - 1.0, largest], kind.to_pandas_dtype())
    assert [*read(pa.array(keys[:1])).hashes()] == hashed(str(largest - 1))
    for stored in (pa.array(keys), pa.array(keys).dictionary_encode()):
        with pytest.raises(
            FieldError, match=r"column 'pid', data row 2: .* cannot hold all digits"
        ) as caught:
            read(stored)
        assert "as text" in str(caught.value.hint)
        assert str(largest) not in str(caught.value)


def test_parts_count_in_the_order_in_which_they_are_noted_not_looked_at() -> None:
    keys = RowKeys(KEY, "pid", ())
    second, first = (keys.look(pa.table({"pid": [name]})) for name in ("b", "a"))
    first()
    second()
    assert [*keys.hashes()] == hashed("a", "b")


@pytest.mark.parametrize("empty", [None, "", "NA", "   "])
def test_a_row_without_a_key_is_refused_by_its_number(empty: str | None) -> None:
    with pytest.raises(EmptyFieldError, match="column 'pid', data row 2: the field is empty") as caught:
        read(["secret-name", empty])
    assert "cannot be joined" in caught.value.hint


def test_a_key_that_is_there_twice_is_refused_by_row_and_not_by_name() -> None:
    keys = read(["secret-name", "b"], [" secret-name ", "c", "b"])
    with pytest.raises(RepeatedRowKeyError) as caught:
        keys.hashes()
    assert caught.value.rows.tolist() == [3, 5]
    assert "row 3: an earlier row has the same key, and 1 more" in str(caught.value)
    assert "secret-name" not in str(caught.value)


def test_a_table_without_the_column_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="'pid' is not in the table"):
        RowKeys(KEY, "pid", ()).look(pa.table({"other": ["a"]}))


def test_two_can_look_at_a_part() -> None:
    keys, seen = RowKeys(KEY, "pid", ()), []
    part = pa.table({"pid": ["a"]})
    beside(lambda some, _read: lambda: seen.append(some.num_rows), keys.look)(part, part)()
    assert seen == [1]
    assert np.array_equal(keys.hashes(), np.array(hashed("a")))
