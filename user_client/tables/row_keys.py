"""What names each row of a table: read as text, hashed, and put into the order of the hashes.

Errors name the column and rows, and never a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.joined_rows import ROW_KEY_BYTES
from protocol.row_keys import canonical_row_key, row_hash
from user_client.errors import FieldError, RepeatedRowKeyError
from user_client.tables.encoded import Note
from user_client.tables.fields import (
    Mask,
    column_of,
    doubles,
    is_empty,
    readable,
    refuse_empty,
    rows_of,
    whole_as_digits,
)

NO_ROW_KEY = "a row without a key cannot be joined with those of others: fill in the field or drop the row"
LOST_DIGITS = "store the column as text or as whole numbers, from where it still has all of its digits"
_WHOLE_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
"""Below two to this, a float is every whole number."""
Hashes = NDArray[np.bytes_]


class RowKeys:
    """The hashes of a table that is read part by part; 16 bytes of each row are in memory.

    Parameters
    ----------
    key : bytes
        Of the hashes (`protocol.row_keys.hashing_key`).
    column : str
        That names a row.
    missing : sequence of str
        Texts that stand for an empty field.
    """

    def __init__(self, key: bytes, column: str, missing: Sequence[str]) -> None:
        self._key, self._column, self._missing = key, column, missing
        self._found = bytearray()

    def __repr__(self) -> str:
        return f"<RowKeys of {len(self._found) // ROW_KEY_BYTES} rows>"

    def look(self, part: pa.Table, _read: pa.Table | None = None) -> Note:
        """Hash the keys of a part; what is returned appends them, once its turn has come.

        Raises `TableError` if the column is missing or a field is empty.
        """
        hashes = hashes_of(part, self._key, self._column, self._missing)
        return lambda: self._found.extend(hashes)

    def hashes(self) -> Hashes:
        """Return the hashes, (n,), in the order of the table.

        Raises `RepeatedRowKeyError` if two rows have the same key.
        """
        found = np.frombuffer(bytes(self._found), f"S{ROW_KEY_BYTES}")
        require_distinct(found, self._column)
        return found


def beside(first: Callable[..., Note], second: Callable[..., Note]) -> Callable[[pa.Table, pa.Table], Note]:
    """Return what looks at a part of a table in two ways."""

    def look(part: pa.Table, read: pa.Table) -> Note:
        notes = first(part, read), second(part, read)

        def note() -> None:
            for each in notes:
                each()

        return note

    return look


def hashes_of(part: pa.Table, key: bytes, column: str, missing: Sequence[str]) -> bytes:
    """Return the hashes of a part of a table, one after another; raises `TableError`."""
    values = column_of(part, column)
    with readable(column):
        text = whole_as_digits(values)
        lost = _lost_digits(values)
        empty = is_empty(text, missing)
    found = ["" if value is None else canonical_row_key(value) for value in text.to_pylist()]
    refuse_empty(column, empty | np.array([not value for value in found], np.bool_), NO_ROW_KEY)
    if lost.any():
        error = FieldError(
            column, rows_of(lost), "the column's type of numbers cannot hold all digits of a key"
        )
        error.hint = LOST_DIGITS
        raise error
    return b"".join(row_hash(key, value) for value in found)


def _lost_digits(values: pa.ChunkedArray) -> Mask:
    """Return a mask of the floats that are so large that a neighbour of them has no float of its own."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_floating(values.type):
        return np.zeros(len(values), np.bool_)
    found: Mask = np.abs(doubles(values).to_numpy()) >= 2.0 ** _WHOLE_BITS[values.type]
    return found


def require_distinct(hashes: Hashes, column: str) -> None:
    """Raise `RepeatedRowKeyError` if two rows have the same hash."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(again):
        raise RepeatedRowKeyError(column, np.sort(order[again]) + 1)
