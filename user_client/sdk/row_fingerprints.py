"""Keyed fingerprints of the rows of a table, by which they are known again.

A row is known by the values of all its columns, whatever their order and the file they are in: 1.50 in CSV is
1.5 in Parquet. In a table with other columns it is not known again. A column of something other than numbers,
times and text cannot be in terms, and tells no row here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from user_client.tables.fields import as_text, finite_numbers, number_of

T = TypeVar("T")
Fingerprints = NDArray[np.uint64]
KEY_BYTES: Final = 32
_EXACT_BELOW: Final = 2.0**53
"""From here on two whole numbers may be one float64: their digits tell them apart."""
_FIELD_BYTES: Final = 8


@dataclass(frozen=True, repr=False)
class RowBytes:
    """The bytes of each row of a table.

    Attributes
    ----------
    names : sequence of str
        Of the columns, in the order of their fields.
    parts : sequence of (memoryview, sequence of int)
        The rows of each part one after another, and where they end, with a 0 before.
    """

    names: Sequence[str]
    parts: Sequence[tuple[memoryview, Sequence[int]]]

    def fingerprints(self, key: bytes) -> Fingerprints:
        """Return a number for each row: a keyed digest of its bytes."""
        begun = hashlib.blake2b("\x1f".join(self.names).encode() + b"\n", key=key, digest_size=8)
        digests = []
        for data, ends in self.parts:
            for start, end in pairwise(ends):
                row = begun.copy()
                row.update(data[start:end])
                digests.append(row.digest())
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def bytes_of_values(table: pa.Table) -> RowBytes:
    """Return eight bytes for each field: a number as float64, and a digest of anything else."""
    names, fields = _by_name(table, _values)
    rows = np.empty((table.num_rows, len(fields)), "<u8")
    for place, values in enumerate(fields):
        rows[:, place] = values
    data = rows.reshape(-1).view(np.uint8).data
    return RowBytes(names, [(data, range(0, len(data) + 1, _FIELD_BYTES * len(fields)))])


def bytes_of_texts(table: pa.Table) -> RowBytes:
    """Return the text of each field, by which earlier versions knew a row."""
    names, fields = _by_name(table, as_text)
    joined = pc.binary_join_element_wise(*fields, "\x1f", null_handling="replace", null_replacement="")
    parts = []
    for texts in joined.chunks if isinstance(joined, pa.ChunkedArray) else [joined]:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1].tolist()
        parts.append((memoryview(data if data is not None else b""), ends))
    return RowBytes(names, parts)


def _by_name(table: pa.Table, read: Callable[[pa.ChunkedArray], T]) -> tuple[list[str], list[T]]:
    """Return the columns that can be read, in the order of their names."""
    all_names = table.column_names  # a new list each time it is asked for
    names, found = [], []
    for place in np.argsort(all_names, kind="stable").tolist():
        with suppress(pa.ArrowException):
            found.append(read(table.column(place)))
            names.append(all_names[place])
    return names, found


def _values(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return what tells the fields of a column apart."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
    else:
        numbers = finite_numbers(column)
    if numbers is None:
        return _values_of_texts(column)
    found = _bits(numbers)
    beyond = np.abs(numbers) >= _EXACT_BELOW
    if beyond.any():
        found[beyond] = _values_of_texts(column.filter(pa.array(beyond)))
    return found


def _bits(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bytes of numbers; both zeros are one, and so is all that is none."""
    found = (numbers + 0.0).view(np.uint64)
    found[np.isnan(numbers)] = np.array(math.nan).view(np.uint64)
    return found


def _values_of_texts(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    texts = as_text(column).combine_chunks().dictionary_encode()
    of_each = [_value_of_text(text) for text in texts.dictionary.to_pylist()]
    values = np.array([*of_each, _value_of_text(None)], np.uint64)
    found: NDArray[np.uint64] = values[pc.fill_null(texts.indices, len(of_each)).to_numpy()]
    return found


def _value_of_text(text: str | None) -> int:
    number = number_of(text)
    if not text or abs(number) < _EXACT_BELOW:
        return int(_bits(np.array([number]))[0])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_FIELD_BYTES).digest(), "little")
