"""From a table and the schema of the terms to the matrix X_i and the class numbers.

Errors name a row and a column, never a value. Rows are counted from 1, as people count below the header.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.table_schema import CategoricalColumn, NumericColumn, Schema
from user_client.errors import (
    EmptyFieldError,
    MissingColumnError,
    NotANumberError,
    OutOfRangeError,
    TableError,
    UnknownLevelError,
)

Matrix64 = NDArray[np.float64]


def encode_rows(table: pa.Table, schema: Schema) -> Matrix64:
    """Return the encoded features.

    A numeric column is mapped linearly from its range to [-1, 1]; a categorical one becomes one 0/1
    feature per level. Columns that the schema does not name are ignored.

    Returns
    -------
    (n, m) ndarray of float64
        ``m = schema.width``.

    Raises
    ------
    TableError
        If a field does not fit the schema; it names the column and the row.
    """
    encoded = np.empty((table.num_rows, schema.width))
    start = 0
    for column in schema.columns:
        _encode_column(table, column, schema.missing, encoded[:, start : start + column.width])
        start += column.width
    return encoded


def _encode_column(
    table: pa.Table, column: NumericColumn | CategoricalColumn, missing: Sequence[str], out: Matrix64
) -> None:
    values = _column(table, column.name)
    with _readable(column.name):
        if isinstance(column, NumericColumn):
            out[:, 0] = _numeric(values, column, missing)
        else:
            numbers = _levels(values, column.name, column.levels, column.impute, missing)
            out[:] = 0
            out[np.arange(len(numbers)), numbers] = 1


def encode_labels(table: pa.Table, schema: Schema) -> NDArray[np.unsignedinteger[Any]]:
    """Return the class numbers, (n,), in the number type of labels on the wire; raises `TableError`."""
    label = schema.label_column
    values = _column(table, label.name)
    with _readable(label.name):
        numbers = _levels(values, label.name, label.classes, None, schema.missing)
    return numbers.astype(label.wire_dtype)


def misfits(table: pa.Table, schema: Schema) -> list[TableError]:
    """Return the first error of each column that cannot be encoded, that of the label column last."""
    found = []
    for column in schema.columns:
        try:
            _encode_column(table, column, schema.missing, np.empty((table.num_rows, column.width)))
        except TableError as error:
            found.append(error)
    try:
        encode_labels(table, schema)
    except TableError as error:
        found.append(error)
    return found


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn Arrow's errors about a column into a `TableError`, because their text may quote a value."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError):
        raise TableError(f"column '{name}' holds neither numbers nor text") from None


def text_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column as text; raises `TableError`."""
    values = _column(table, name)
    with _readable(name):
        return as_text(values)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    found = table.schema.get_all_field_indices(name)
    if not found:
        raise MissingColumnError(name)
    if len(found) > 1:
        raise TableError(f"column '{name}' is in the table more than once")
    return table.column(found[0])


def as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return every value as text without surrounding spaces; nulls stay nulls."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return pc.utf8_trim_whitespace(values.cast(pa.string()))


def _first(mask: NDArray[np.bool_]) -> int:
    return int(mask.argmax()) + 1


def _missing(text: pa.ChunkedArray, missing: Sequence[str]) -> NDArray[np.bool_]:
    listed = pc.is_in(text, value_set=pa.array(list(missing), pa.string()))
    return np.asarray(pc.or_(pc.is_null(text), listed).to_numpy(), dtype=np.bool_)


def _numeric(values: pa.ChunkedArray, column: NumericColumn, missing: Sequence[str]) -> Matrix64:
    numbers, empty = as_numbers(values, missing)
    unreadable = ~empty & ~np.isfinite(numbers)
    if unreadable.any():
        raise NotANumberError(column.name, _first(unreadable))
    if empty.any():
        if column.impute is None:
            raise EmptyFieldError(column.name, _first(empty))
        numbers[empty] = column.impute
    outside = (numbers < column.low) | (numbers > column.high)
    if outside.any() and column.out_of_range == "refuse":
        raise OutOfRangeError(column.name, _first(outside), column.low, column.high)
    numbers = numbers.clip(column.low, column.high)
    return 2 * ((numbers - column.low) / (column.high - column.low)) - 1


def as_numbers(values: pa.ChunkedArray, missing: Sequence[str]) -> tuple[Matrix64, NDArray[np.bool_]]:
    """Return a column as float64, and a mask of its empty fields: a null, a NaN or a code for missing.

    Both an empty field and a field that is not a number are NaN in the result.
    """
    codes = [code for code in map(_number, missing) if not math.isnan(code)]
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = np.array(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        empty = np.isnan(numbers) | np.isin(numbers, codes)
        numbers[empty] = math.nan
        return numbers, empty
    if not codes and (found := _finite(values)) is not None:
        return found, np.zeros(len(found), dtype=np.bool_)
    text = as_text(values)
    empty = _missing(text, missing)
    blanked = pc.if_else(pa.chunked_array([pa.array(empty)]), pa.scalar(None, pa.string()), text)
    try:
        return np.array(pc.cast(blanked, pa.float64()).to_numpy(), dtype=np.float64), empty
    except pa.ArrowInvalid:
        return np.array([_number(item) for item in blanked.to_pylist()]), empty


def _finite(values: pa.ChunkedArray) -> Matrix64 | None:
    """Return a text column as numbers if all its fields are finite numbers, which is the usual case."""
    if not pa.types.is_string(values.type):
        return None
    try:
        numbers: Matrix64 = pc.cast(values, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _number(text: str | None) -> float:
    """Return a text as a number, NaN if it is none. Unlike `float`, this refuses 1_000."""
    try:
        return float(text) if text is not None and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _levels(
    values: pa.ChunkedArray,
    name: str,
    levels: Sequence[str],
    impute: str | None,
    missing: Sequence[str],
) -> NDArray[np.int64]:
    """Return the index of each value's level; raises `EmptyFieldError` or `UnknownLevelError`."""
    text = as_text(values)
    found = pc.fill_null(pc.index_in(text, value_set=pa.array(list(levels), pa.string())), -1)
    numbers = np.array(found.to_numpy(), dtype=np.int64)
    unknown = numbers < 0
    if unknown.any():
        empty = _missing(text, missing) & unknown
        if (unknown & ~empty).any():
            raise UnknownLevelError(name, _first(unknown & ~empty), len(levels))
        if impute is None:
            raise EmptyFieldError(name, _first(empty))
        numbers[empty] = levels.index(impute)
    return numbers
