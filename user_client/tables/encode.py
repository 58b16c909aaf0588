"""From a table and the schema of the terms to the matrix X_i and the class numbers.

Errors name a row and a column, never a value. Rows are counted from 1, as people count below the header.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.labels import SHORTEST_TIME, Label, MultiLabel, NumberLabel, SurvivalLabel, Task
from protocol.table_schema import (
    CategoricalColumn,
    CentredColumn,
    ColumnOfLevels,
    ColumnOfNumbers,
    LevelsColumn,
    NumericColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from user_client.errors import (
    LabelOutsideError,
    NegativeTimeError,
    OutOfRangeError,
)
from user_client.tables.dates import read_days
from user_client.tables.fields import (
    EXACT_BELOW,
    Mask,
    Matrix64,
    column_of,
    finite_numbers,
    is_empty,
    read_levels,
    read_numbers,
    readable,
    refuse_empty,
    rows_of,
    together,
    whole_as_digits,
)
from user_client.tables.ranks import ranks

EMPTY_LABEL: Final = "fill in the label or drop the row: the terms impute no label"
_LARGE_BYTES: Final = 2**20
"""From here on the C library maps memory for an array alone, and unmaps it when it is freed."""


def encode_rows(table: pa.Table, schema: Schema, *, dates_as_days: bool = False) -> Matrix64:
    """Return the encoded features, each kind of column as docs/protocol.md says.

    Columns that the schema does not name are ignored.

    Parameters
    ----------
    dates_as_days : bool
        The table has the numbers of days, a NaN or a null for none, in the place of the dates.

    Returns
    -------
    (n, m) ndarray of float64
        ``m = schema.width``.

    Raises
    ------
    TableError
        If a field does not fit the schema; it names the column and the row.
    """
    encoded = _room_for(table.num_rows, schema.width)
    start, ranked = 0, defaultdict[int, list[_Numbers]](list)
    for column in schema.columns:
        part, missing = encoded[:, start : start + column.width], schema.missing_in(column)
        if dates_as_days and isinstance(column, RanksColumn | RangeColumn) and column.dates:
            column, missing = column.model_copy(update={"dates": None, "since": None}), ()
        if isinstance(column, RanksColumn):
            read = _Numbers(column, *_filled(table, column, missing), part)
            ranked[len(column.quantiles)].append(read)
        else:
            _encode_column(table, column, missing, part)
        start += column.width
    for alike in ranked.values():
        _encode_ranks(alike)
    return encoded


def _room_for(rows: int, width: int) -> Matrix64:
    """Return a matrix whose numbers are not set.

    Large ones come from an allocator that keeps what is freed for the next part of the table: from the C
    library's they would come anew, page by page (`runtime.memory`), which takes as long as to fill them.
    """
    size = rows * width * np.dtype(np.float64).itemsize
    pool = _keeping_pool()
    if size < _LARGE_BYTES or pool is None:
        return np.empty((rows, width))
    kept = pa.allocate_buffer(size, memory_pool=pool)
    return np.frombuffer(kept, np.float64).reshape(rows, width)


def give_room_back() -> None:
    """Return the memory of encoded parts that nobody has any more: there are no more parts."""
    if (pool := _keeping_pool()) is not None:
        pool.release_unused()


@cache
def _keeping_pool() -> pa.MemoryPool | None:
    return pa.mimalloc_memory_pool() if "mimalloc" in pa.supported_memory_backends() else None


def with_numbers_read(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table whose texts are numbers already, in columns that `encode_rows` reads as nothing else.

    Where several need them, they are read once.
    """
    columns = table.columns
    for column in schema.columns:
        has_dates = getattr(column, "dates", None) is not None
        if isinstance(column, ColumnOfLevels) or has_dates:
            continue
        places = table.schema.get_all_field_indices(column.name)
        if len(places) != 1 or (numbers := finite_numbers(columns[places[0]])) is None:
            continue
        if not len(numbers) or np.abs(numbers).max() < EXACT_BELOW:  # from there on it takes the digits
            columns[places[0]] = pa.array(numbers)
    return pa.Table.from_arrays(columns, table.column_names)


def _encode_column(
    table: pa.Table,
    column: ColumnOfLevels | NumericColumn | RangeColumn,
    missing: Sequence[str],
    out: Matrix64,
) -> None:
    """Write the features of one column."""
    if isinstance(column, ColumnOfLevels):
        _encode_levels(table, column, missing, out)
        return
    numbers, empty = _filled(table, column, missing)
    if isinstance(column, NumericColumn):
        _encode_numeric(numbers, column, out)
    else:
        _encode_centred(_in_range(numbers, column)[:, None], empty, column, out)


def _filled(table: pa.Table, column: ColumnOfNumbers, missing: Sequence[str]) -> tuple[Matrix64, Mask]:
    """Return a column's numbers with what the terms impute, and a mask of the fields that were empty."""
    numbers, empty = numbers_of(table, column, missing)
    if not column.takes_empty:
        refuse_empty(column.name, empty)
    if column.impute is not None and empty.any():  # without an empty field, the numbers may be read-only
        numbers[empty] = column.impute
    return numbers, empty


def numbers_of(table: pa.Table, column: ColumnOfNumbers, missing: Sequence[str]) -> tuple[Matrix64, Mask]:
    """Return a column's numbers, or days if it has dates, and a mask of empty fields; raises `TableError`."""
    if not isinstance(column, NumericColumn) and column.dates is not None:
        return read_days(table, column.name, column.dates, column.since, missing)
    with readable(column.name):
        return read_numbers(column_of(table, column.name), column.name, missing)


def _encode_levels(table: pa.Table, column: ColumnOfLevels, missing: Sequence[str], out: Matrix64) -> None:
    other = column.other if isinstance(column, LevelsColumn) else None
    with readable(column.name):
        values = column_of(table, column.name)
        chosen, empty = read_levels(values, column.name, column.levels, missing, other)
    if not column.takes_empty:
        refuse_empty(column.name, empty)
    if column.impute is not None:
        chosen[empty] = column.levels.index(column.impute)
    if isinstance(column, CategoricalColumn):
        out[:] = 0
        out[np.arange(len(chosen)), chosen] = 1
    elif isinstance(column, LevelsColumn):
        _encode_centred(_of_levels(chosen, column), empty, column, out)
    else:
        places = np.linspace(-1, 1, len(column.levels))
        _encode_centred(places[chosen][:, None] - column.centre, empty, column, out)


def _encode_numeric(numbers: Matrix64, column: NumericColumn, out: Matrix64) -> None:
    if len(numbers) and (numbers.min() < column.low or numbers.max() > column.high):
        if column.out_of_range == "refuse":
            outside = (numbers < column.low) | (numbers > column.high)
            raise OutOfRangeError(column.name, rows_of(outside), column.low, column.high)
        numbers = numbers.clip(column.low, column.high)
    out[:, 0] = 2 * ((numbers - column.low) / (column.high - column.low)) - 1


def _encode_centred(features: Matrix64, empty: Mask, column: CentredColumn, out: Matrix64) -> None:
    if column.empty == "centre":
        features[empty] = 0
    out[:, : column.value_width] = features
    if column.missing_share is not None:
        out[:, -1] = empty - column.missing_share


def _of_levels(chosen: NDArray[np.int64], column: LevelsColumn) -> Matrix64:
    features = np.tile(-np.array(column.shares), (len(chosen), 1))
    features[np.arange(len(chosen)), chosen] += 1
    return features * column.weight


@dataclass(frozen=True, repr=False)
class _Numbers:
    """A column of ranks whose numbers are read, and where its features go."""

    column: RanksColumn
    numbers: Matrix64
    empty: Mask
    out: Matrix64


def _encode_ranks(columns: Sequence[_Numbers]) -> None:
    """Write the features of columns with as many quantiles each."""
    for some in together(columns, len(columns[0].numbers)):
        quantiles = np.array([each.column.quantiles for each in some])
        found = ranks(np.stack([each.numbers for each in some]), quantiles)
        for each, places in zip(some, found, strict=True):
            _encode_centred(places[:, None], each.empty, each.column, each.out)


def _in_range(numbers: Matrix64, column: RangeColumn) -> Matrix64:
    inside = numbers.clip(column.low, column.high)
    low, high, centre = column.on_scale
    return 2 * ((inside if column.scale is None else np.log(inside)) - centre) / (high - low)


def encode_labels(table: pa.Table, schema: Schema, *, in_range: bool = True) -> NDArray[Any]:
    """Return the labels as they are on the wire, (n,): class numbers, numbers or times from -1 to 1, or bits.

    Parameters
    ----------
    in_range : bool
        Whether a number outside of the range of the terms is refused. One that is not sent may lie beyond.

    Raises
    ------
    TableError
        If a label is empty, no class of the terms, or outside their range; it names the row.
    """
    label = schema.label_column
    if isinstance(label, MultiLabel):
        return _bits(table, schema, label)
    values = column_of(table, label.name)
    with readable(label.name):
        if isinstance(label, Label):
            chosen, empty = read_levels(values, label.name, label.classes, schema.missing)
        else:
            numbers, empty = read_numbers(values, label.name, schema.missing)
    refuse_empty(label.name, empty, EMPTY_LABEL)
    if isinstance(label, Label):
        return chosen.astype(label.wire_dtype)
    if isinstance(label, SurvivalLabel):
        return _survival(table, schema, label, numbers).astype(label.wire_dtype)
    outside = (numbers < label.low) | (numbers > label.high)
    if in_range and outside.any():
        raise LabelOutsideError(label.name, rows_of(outside), label.low, label.high)
    return (2 * ((numbers - label.low) / (label.high - label.low)) - 1).astype(label.wire_dtype)


def _survival(table: pa.Table, schema: Schema, label: SurvivalLabel, times: Matrix64) -> Matrix64:
    """Return the times of survival, negative without the event."""
    if (times < 0).any():
        raise NegativeTimeError(label.name, rows_of(times < 0))
    values = column_of(table, label.event)
    with readable(label.event):
        seen, empty = read_levels(values, label.event, (label.censored, label.seen), schema.missing)
    refuse_empty(label.event, empty, EMPTY_LABEL)
    part = np.clip(times / label.horizon, SHORTEST_TIME, 1.0)
    return np.where((seen == 1) & (times <= label.horizon), part, -part)


def _bits(table: pa.Table, schema: Schema, label: MultiLabel) -> NDArray[Any]:
    """Return which labels each row has, one bit for each."""
    found = np.zeros(table.num_rows, label.wire_dtype)
    for number, one in enumerate(label.labels):
        values = column_of(table, one.name)
        with readable(one.name):
            chosen, empty = read_levels(values, one.name, (one.absent, one.present), schema.missing)
        refuse_empty(one.name, empty, EMPTY_LABEL)
        found |= (chosen << number).astype(found.dtype)
    return found


def decode_numbers(encoded: NDArray[np.floating], label: NumberLabel) -> Matrix64:
    """Return numbers in the unit of the column; the inverse of what `encode_labels` does to them."""
    return (np.asarray(encoded, np.float64) + 1) * label.unit + label.low


QUARTERS: Final = 4
GROUPS: Final = {"number": QUARTERS, "survival": 2, "multilabel": 2}
"""How many groups `strata` makes of labels that are no classes."""


def strata(labels: NDArray[Any], task: Task) -> NDArray[np.integer]:
    """Return the group of each row: its class, the quarter of its number, or if it has event or labels."""
    if task == "classes":
        return labels.astype(np.int64)
    if task in ("survival", "multilabel"):
        return (labels > 0).astype(np.uint8)
    inner = np.quantile(labels, np.arange(1, QUARTERS) / QUARTERS) if len(labels) else []
    found = np.zeros(len(labels), np.uint8)
    for each in inner:  # to search for all rows at once would take eight bytes for each
        found += labels > each
    return found


def with_labels(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the rows whose label is not empty."""
    return table.filter(pa.array(are_labelled(table, schema)))


def are_labelled(table: pa.Table, schema: Schema) -> Mask:
    """Return a mask of the rows whose label is not empty, (n,); raises `TableError`."""
    found = np.ones(table.num_rows, np.bool_)
    for name in schema.label_column.columns:
        found &= ~is_empty(text_of(table, name), schema.missing)
    return found


def text_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column as text, whole numbers without a point or exponent; raises `TableError`."""
    values = column_of(table, name)
    with readable(name):
        return whole_as_digits(values)
