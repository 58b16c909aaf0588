"""The fields of one column, as text, as numbers or as numbers of levels.

Errors name a row and a column, never a value. Rows are counted from 1, as people count below the header.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from user_client.errors import (
    EmptyFieldError,
    MissingColumnError,
    NotANumberError,
    TableError,
    UnknownLevelError,
)

T = TypeVar("T")
Matrix64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
_WHOLE: Final = r"^(-?[0-9]+)\.0+$"
SPELLINGS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
"""How other programs write a boolean, and what it is in a file that has booleans."""
NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""The grammar of a number (docs/protocol.md, "Texts and numbers of a table"). What Arrow casts is part of it,
but for infinities and NaN."""
EXACT_BELOW: Final = 2.0**53
"""From here on two whole numbers may be one float64: their digits tell them apart."""
_NUMBERS_TOGETHER: Final = 2**16
"""More of them leave the processor's cache between one call and the next."""


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return every value as text without surrounding white space; nulls and NaN are nulls."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    text = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        unknown = pc.is_nan(values)
        return pc.if_else(unknown, pa.scalar(None, pa.string()), text) if pc.any(unknown).as_py() else text
    return pc.utf8_trim_whitespace(text)


def whole_as_digits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return what `as_text` does, but a whole number of a column of numbers in its digits: 12, not 12.00.

    A program that has no empty integers stores the numbers of patients as float64, whose text is 1e+15 from
    there on.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    text = as_text(values)
    if pa.types.is_decimal(values.type):
        return pc.replace_substring_regex(text, pattern=_WHOLE, replacement=r"\1")
    if not pa.types.is_floating(values.type):
        return text
    numbers = values.cast(pa.float64())
    is_whole = pc.and_(pc.equal(pc.trunc(numbers), numbers), pc.less(pc.abs(numbers), EXACT_BELOW))
    digits = pc.if_else(is_whole, numbers, 0.0).cast(pa.int64()).cast(pa.string())
    return pc.if_else(pc.fill_null(is_whole, False), digits, text)


def without_views(table: pa.Table) -> pa.Table:
    """Return the table with texts in the place of categories of polars, which Arrow cannot decode."""
    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and field.type.value_type == pa.string_view():
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.string()))
                for chunk in table.column(number).chunks
            ]
            indices = pa.dictionary(field.type.index_type, pa.string())
            decoded = pa.chunked_array(chunks, indices).cast(pa.string())
            table = table.set_column(number, field.name, decoded)
    return table


def read_numbers(values: pa.ChunkedArray, name: str, missing: Sequence[str]) -> tuple[Matrix64, Mask]:
    """Return a column as numbers, and a mask of its empty fields; raises `NotANumberError`."""
    numbers, empty = as_numbers(values, missing)
    unreadable = ~empty & ~np.isfinite(numbers)
    if unreadable.any():
        raise NotANumberError(name, rows_of(unreadable))
    return numbers, empty


def read_levels(
    values: pa.ChunkedArray,
    name: str,
    levels: Sequence[str],
    missing: Sequence[str],
    other: str | None = None,
) -> tuple[NDArray[np.int64], Mask]:
    """Return the index of each value's level, and a mask of the empty fields; raises `UnknownLevelError`.

    A text that is a level is that level, even if it also stands for an empty field. One that is neither is
    another spelling of one, such as 1.0 of 1 and True of true, or the level ``other``, if there is one. The
    index of an empty field means nothing.
    """
    text = as_text(values)
    numbers = _index_among(text, levels)
    empty = numbers < 0
    if not empty.any():
        return numbers, empty
    unknown = empty & ~_is_among(text, missing)
    if unknown.any():
        numbers[unknown] = _index_among(_plain_all(text.filter(pa.array(unknown))), list(map(plain, levels)))
        empty &= (numbers < 0) | ~unknown
        unknown = empty & ~is_empty(text, missing)
    if unknown.any():
        if other is None:
            raise UnknownLevelError(name, rows_of(unknown), levels)
        numbers[unknown] = levels.index(other)
        empty &= ~unknown
    return numbers, empty


def _index_among(text: pa.ChunkedArray, levels: Sequence[str]) -> NDArray[np.int64]:
    """Return the index of the first level that each text is, -1 for none."""
    found = pc.index_in(text, value_set=pa.array(list(levels), pa.string()))
    return np.array(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def plain(text: str) -> str:
    """Return a whole number without a decimal point, true and false in small letters, and others as they are.

    Programs write 1 as 1.0 where a field of the column is empty, and a boolean as True or TRUE.
    """
    return SPELLINGS.get(text) or re.sub(_WHOLE, r"\1", text)


def _plain_all(text: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = pc.replace_substring_regex(text, pattern=_WHOLE, replacement=r"\1")
    for boolean in sorted(set(SPELLINGS.values())):
        also = pa.array([spelling for spelling, meant in SPELLINGS.items() if meant == boolean], pa.string())
        whole = pc.if_else(pc.is_in(whole, value_set=also), pa.scalar(boolean), whole)
    return whole


def refuse_empty(name: str, empty: Mask, hint: str | None = None) -> None:
    """Raise `EmptyFieldError` if a field is empty; ``hint`` takes the place of its own."""
    if empty.any():
        error = EmptyFieldError(name, rows_of(empty))
        if hint is not None:
            error.hint = hint
        raise error


def doubles(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of integers or floats as float64, without a cast of one that is."""
    return values if values.type == pa.float64() else values.cast(pa.float64(), safe=False)


def as_numbers(values: pa.ChunkedArray, missing: Sequence[str]) -> tuple[Matrix64, Mask]:
    """Return a column as float64, and a mask of its empty fields: a null, a NaN or a code for missing.

    Both an empty field and a field that is not a number are NaN in the result, which may be read-only without
    either.
    """
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = doubles(values).to_numpy()
        empty = np.isnan(numbers)
    elif (found := finite_numbers(values)) is not None:
        numbers, empty = found, np.zeros(len(found), dtype=np.bool_)
    else:
        text = as_text(values)
        empty = is_empty(text, missing)
        mask = pa.chunked_array([pa.array(empty)])
        numbers = _numbers_in(pc.if_else(mask, pa.scalar(None, pa.string()), text))
    if codes := _numbers_among(tuple(missing)):
        empty |= np.isin(numbers, codes)
    return np.where(empty, math.nan, numbers) if empty.any() else numbers, empty


@lru_cache
def _numbers_among(missing: tuple[str, ...]) -> tuple[float, ...]:
    """Return the numbers among the texts for an empty field, such as -999: every column of a table asks."""
    return tuple(code for code in map(number_of, missing) if math.isfinite(code))


def _numbers_in(text: pa.ChunkedArray) -> Matrix64:
    """Return texts as numbers, NaN for those that are none."""
    try:
        return np.array(pc.cast(text, pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid:
        return np.array([number_of(item) for item in text.to_pylist()])


def finite_numbers(values: pa.ChunkedArray) -> Matrix64 | None:
    """Return a text column as numbers if all its fields are finite numbers, which is the usual case."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    try:
        numbers: Matrix64 = pc.cast(values, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def number_of(text: str | None) -> float:
    """Return a text as a number, NaN if it is none, as what `float` reads besides is: 1_000, inf, digits of
    other scripts."""
    return float(text) if text is not None and NUMBER.fullmatch(text) else math.nan


def is_empty(text: pa.ChunkedArray, missing: Sequence[str]) -> Mask:
    """Return a mask of the texts that are null, or stand for an empty field, in whatever spelling."""
    empty = _is_among(text, missing)
    spelt = [
        code for code in map(plain, missing) if re.fullmatch("-?[0-9]+", code) or code in SPELLINGS.values()
    ]
    return empty | _is_among(_plain_all(text), spelt) if spelt else empty


def _is_among(text: pa.ChunkedArray, missing: Sequence[str]) -> Mask:
    """Return a mask of the texts that are null or among those for an empty field."""
    listed = pc.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return np.asarray(pc.or_(pc.is_null(text), listed), dtype=np.bool_)


def rows_of(mask: Mask) -> NDArray[np.int64]:
    """Return the numbers of the rows of a mask, counted from 1."""
    return np.flatnonzero(mask) + 1


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column; raises `TableError` if there is none, or more than one."""
    found = table.schema.get_all_field_indices(name)
    if not found:
        raise MissingColumnError(name)
    if len(found) > 1:
        error = TableError(f"column '{name}' is in the table more than once")
        error.hint = "rename one of them in the first line of the file, or leave one out of the export"
        raise error
    return table.column(found[0])


def together(columns: Sequence[T], rows: int) -> Iterator[Sequence[T]]:
    """Yield so many columns of so many rows as one call of NumPy best takes.

    Of few numbers a call takes as long as its numbers do, and threads that take turns at short calls wait for
    each other most of the time.
    """
    at_once = max(1, _NUMBERS_TOGETHER // max(1, rows))
    for start in range(0, len(columns), at_once):
        yield columns[start : start + at_once]


@contextmanager
def readable(name: str, hint: str | None = None) -> Iterator[None]:
    """Turn Arrow's errors about a column into a `TableError`, because their text may quote a value."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError):
        error = TableError(f"column '{name}' holds neither numbers nor text")
        error.hint = hint or error.hint
        raise error from None
