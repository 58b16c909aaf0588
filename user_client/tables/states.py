"""What is public about encoded features: the values that the features of each column can have.

The terms fix how a field is encoded, and whoever has a table of the same columns knows how precisely they
are recorded: years in whole numbers, pressures in steps of five. So a column has few possible values, and an
attacker may look for them alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from protocol.table_schema import (
    CategoricalColumn,
    Column,
    ColumnOfLevels,
    ColumnOfNumbers,
    NumericColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from user_client.tables.encode import encode_rows, numbers_of
from user_client.tables.fields import Matrix64, as_text, is_empty

MOST_STATES: Final = 4096
"""A column with more possible values is taken for one of real numbers."""
DECIMALS: Final = tuple(10.0**decimals for decimals in range(7))
"""Of which parts of one numbers may be multiples."""
DAY_PARTS: Final = (1.0, 24.0, 1440.0, 86400.0)
"""The same of days: hours, minutes and seconds."""


def column_states(table: pa.Table, schema: Schema) -> list[Matrix64]:
    """Return the features that each column of the schema can have.

    Parameters
    ----------
    table : pyarrow.Table
        From which the precision of the numbers is taken. It fits the schema.

    Returns
    -------
    list of (k, w) ndarray of float64
        For each column its k different vectors of w features, an empty field among them where the schema
        allows one; k is 0 for a column of real numbers.

    Raises
    ------
    TableError
        If a field does not fit the schema.
    """
    return [_states(table, column, schema) for column in schema.columns]


def _states(table: pa.Table, column: Column, schema: Schema) -> Matrix64:
    if isinstance(column, ColumnOfLevels):
        values = pa.array(list(column.levels), pa.string())
    else:
        numbers = _possible_numbers(table, column, schema)
        if numbers is None:
            return np.empty((0, column.width))
        values = pa.array(numbers)
    alone = schema.model_copy(update={"columns": (column,)})
    found = encode_rows(pa.table({column.name: values}), alone, dates_as_days=True)
    if _has_empty(table, column, schema):
        null = pa.table({column.name: pa.array([None], values.type)})
        found = np.vstack([found, encode_rows(null, alone, dates_as_days=True)])
    return np.unique(found.round(12), axis=0)


def _has_empty(table: pa.Table, column: Column, schema: Schema) -> bool:
    """Return whether an empty field is to be expected: the terms say so, or the table has one."""
    if not isinstance(column, NumericColumn | CategoricalColumn) and column.missing_share is not None:
        return True
    if isinstance(column, RanksColumn | RangeColumn) and column.dates:
        return bool(numbers_of(table, column, schema.missing_in(column))[1].any())
    return bool(is_empty(as_text(table.column(column.name)), schema.missing_in(column)).any())


def _possible_numbers(table: pa.Table, column: ColumnOfNumbers, schema: Schema) -> Matrix64 | None:
    """Return the numbers in the column's range that are recorded as precisely as those of the table."""
    numbers, empty = numbers_of(table, column, schema.missing_in(column))
    known = np.unique(numbers[~empty])
    low, high = column.ends
    if not len(known):
        return None
    for parts in DAY_PARTS if getattr(column, "dates", None) else DECIMALS:
        scaled = known * parts
        whole = np.rint(scaled)
        if np.abs(scaled - whole).max() < 1e-6 and np.abs(whole).max() < 2**53:
            step = int(np.gcd.reduce(np.diff(whole).astype(np.int64))) or 1
            first, last = low * parts, high * parts
            start = whole[0] + step * np.ceil((first - whole[0]) / step - 1e-9)
            if (last - start) / step >= MOST_STATES:
                return None
            inside = np.arange(start, last + 1e-6, step) / parts
            return np.unique(np.clip(np.concatenate([[low], inside, [high]]), low, high))
    return None
