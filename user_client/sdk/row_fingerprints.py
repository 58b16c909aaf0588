"""Keyed fingerprints of the rows of a table, by which they are known again.

A row is known by the values of all its columns, whatever their order and the file they are in: 1.50 in CSV is
1.5 in Parquet. In a table with other columns it is not known again. A column of something other than numbers,
times and text cannot be in terms, and tells no row here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from user_client.tables.fields import (
    EXACT_BELOW,
    NUMBER,
    as_text,
    doubles,
    finite_numbers,
    number_of,
    together,
)

T = TypeVar("T")
Fingerprints = NDArray[np.uint64]
KEY_BYTES: Final = 32
_FIELD_BYTES: Final = 8
_BLOCK_BYTES: Final = 16
"""Of AES: its key of 128 bits has as many."""
_FIRST: Final = 16
"""If so few texts are not all numbers, all of them are not even tried: Arrow words each refusal."""
_SEVERAL: Final = 4
"""Texts that are each there so many times, in the mean, are read once each."""


class KnownRows(Protocol):
    """What tells the rows of a table apart."""

    def fingerprints(self, key: bytes) -> Fingerprints:
        """Return a number for each row under a key of `KEY_BYTES`."""


@dataclass(frozen=True, repr=False)
class RowValues:
    """The values of each row of a table.

    Attributes
    ----------
    names : sequence of str
        Of the columns, in the order of their fields.
    fields : sequence of (n,) ndarray of float64 or uint64
        The values of each column: numbers, or what tells the fields of any other apart.
    rows : int
        n.
    """

    names: Sequence[str]
    fields: Sequence[NDArray[Any]]
    rows: int

    def fingerprints(self, key: bytes) -> Fingerprints:
        """Return half a CBC-MAC of each row's values, two of them in a block of AES-128.

        A CBC-MAC needs messages of one length: the key follows from the names of the columns too.
        """
        names = "\x1f".join(self.names).encode()
        cipher = AES(hashlib.blake2b(names, key=key, digest_size=_BLOCK_BYTES).digest())
        encryptor = Cipher(cipher, ECB()).encryptor()  # noqa: S305  # the blocks are chained below
        state = np.zeros((self.rows, 2), "<u8")
        room = bytearray(state.nbytes + _BLOCK_BYTES - 1)  # the library wants more than it fills
        values = self._values()
        for _ in range(0, len(self.fields), 2):
            for half, each in enumerate(islice(values, 2)):
                state[:, half] ^= each
            encryptor.update_into(state.reshape(-1).view(np.uint8).data, room)
            state = np.frombuffer(room, "<u8", 2 * self.rows).reshape(-1, 2).copy()
        return state[:, 0].astype(np.uint64)

    def _values(self) -> Iterator[NDArray[np.uint64]]:
        """Yield eight bytes for each field, column by column; they are never there for all at once."""
        for are_numbers, alike in groupby(self.fields, lambda found: found.dtype == np.float64):
            if are_numbers:
                for some in together([*alike], self.rows):
                    yield from _bits(np.stack(some))
            else:
                yield from alike


@dataclass(frozen=True, repr=False)
class RowTexts:
    """The text of each row of a table.

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
        """Return a keyed digest of each row's text."""
        begun = hashlib.blake2b("\x1f".join(self.names).encode() + b"\n", key=key, digest_size=8)
        digests = []
        for data, ends in self.parts:
            for start, end in pairwise(ends):
                row = begun.copy()
                row.update(data[start:end])
                digests.append(row.digest())
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def values_of(table: pa.Table) -> RowValues:
    """Return a number for each field, or a digest of anything else."""
    return RowValues(*_by_name(table, _numbers_or_values), table.num_rows)


def texts_of(table: pa.Table) -> RowTexts:
    """Return the text of each field, by which earlier versions knew a row."""
    names, fields = _by_name(table, as_text)
    joined = pc.binary_join_element_wise(*fields, "\x1f", null_handling="replace", null_replacement="")
    parts = []
    for texts in joined.chunks if isinstance(joined, pa.ChunkedArray) else [joined]:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1].tolist()
        parts.append((memoryview(data if data is not None else b""), ends))
    return RowTexts(names, parts)


def _by_name(table: pa.Table, read: Callable[[pa.ChunkedArray], T]) -> tuple[list[str], list[T]]:
    """Return the columns that can be read, in the order of their names."""
    all_names = table.column_names  # a new list each time it is asked for
    names, found = [], []
    for place in np.argsort(all_names, kind="stable").tolist():
        with suppress(pa.ArrowException):
            found.append(read(table.column(place)))
            names.append(all_names[place])
    return names, found


def _numbers_or_values(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of a column, if their bytes tell its fields apart, or else what does, as uint64."""
    kind = column.type
    if pa.types.is_integer(kind) or (pa.types.is_floating(kind) and not pa.types.is_float32(kind)):
        numbers: NDArray[np.float64] | None = doubles(column).to_numpy()
    else:
        numbers = None if finite_numbers(column.slice(0, _FIRST)) is None else finite_numbers(column)
    if numbers is None:  # as text a float32 of 0.1 is 0.1 again, and a decimal is the nearest float64
        return _values_of_texts(column)
    if max(np.fmax.reduce(numbers, initial=0), -np.fmin.reduce(numbers, initial=0)) < EXACT_BELOW:
        return numbers
    found, beyond = _bits(numbers), np.abs(numbers) >= EXACT_BELOW
    found[beyond] = _values_of_texts(column.filter(pa.array(beyond)))
    return found


def _bits(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bytes of numbers; both zeros are one, and so is all that is none."""
    found, is_none = (numbers + 0.0).view(np.uint64), np.isnan(numbers)
    if is_none.any():
        found[is_none] = np.array(math.nan).view(np.uint64)
    return found


def _values_of_texts(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return the values of the numbers among the fields as text, and digests of all others but empty ones."""
    if pa.types.is_string(column.type):  # most columns of texts have few different ones
        fields = column.combine_chunks().dictionary_encode()
        if len(fields.dictionary) * _SEVERAL < len(fields):
            of_each = _values_of_each(pa.chunked_array([fields.dictionary, pa.nulls(1, pa.string())]))
            found: NDArray[np.uint64] = of_each.take(fields.indices.fill_null(-1))  # -1: the null behind them
            return found
    return _values_of_each(column)


def _values_of_each(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    texts = as_text(column).combine_chunks()
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    numbers = _numbers_among(texts)
    found = _bits(numbers)
    others = ~(np.abs(numbers) < EXACT_BELOW) & texts.is_valid().to_numpy(zero_copy_only=False)
    if others.any():
        distinct = texts.filter(pa.array(others)).dictionary_encode()
        digests = map(_digest, distinct.dictionary.cast(pa.binary()).to_pylist())  # it may be no UTF-8
        found[others] = np.array([*digests], np.uint64)[distinct.indices.to_numpy()]
    return found


def _numbers_among(texts: pa.StringArray) -> NDArray[np.float64]:
    """Return the numbers among texts, NaN for anything else."""
    some = pc.if_else(pc.match_substring_regex(texts, f"^(?:{NUMBER.pattern})$"), texts, None)
    try:
        numbers = some.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # one is too large for it
        numbers = [number_of(text) for text in some.to_pylist()]
    return np.array(numbers, np.float64)


def _digest(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=_FIELD_BYTES).digest(), "little")
