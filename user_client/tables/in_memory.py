"""Tables from anything that offers Arrow data: Arrow tables, data frames of pandas and polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from protocol.errors import InputError
from user_client.tables.fields import without_views


def table_in_memory(data: Any) -> pa.Table:
    """Return the Arrow table of a table in memory; raises `InputError` if it is none."""
    if isinstance(data, pa.Table):
        return without_views(data)
    try:
        table = pa.Table.from_pandas(data, preserve_index=False) if hasattr(data, "iloc") else pa.table(data)
        return without_views(table)
    except pa.ArrowMemoryError:
        raise
    except _NO_TABLE:  # without its text, which quotes a value
        raise _why_no_table(data) from None


_NO_TABLE: Final = (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError)
"""What Arrow raises where it makes no table of something."""


def _why_no_table(data: Any) -> InputError:
    if type(data).__name__ == "LazyFrame":  # to ask it for its columns would make it look for them
        error = InputError("a LazyFrame of polars has no rows yet")
        error.hint = "give it as `frame.collect()`"
        return error
    if not hasattr(data, "columns") and not isinstance(data, Mapping):
        error = InputError(
            f"a table is a path, a data frame or an Arrow table, and this is a {type(data).__name__}"
        )
        error.hint = "make it a data frame whose columns have names"
        return error
    names = list(map(str, data if isinstance(data, Mapping) else data.columns))
    if twice := next((name for name in names if names.count(name) > 1), None):
        return InputError(f"column '{twice}' is in the data frame more than once: rename one of them")
    error = InputError(
        f"{_unusable_column(data)} of the data frame has values of several kinds, or of one that no table has"
    )
    error.hint = "make all of them numbers below 2^63, or all of them texts"
    return error


def _unusable_column(frame: Any) -> str:
    """Return which column of a data frame Arrow has no type for, in words."""
    for name in frame if isinstance(frame, Mapping) else frame.columns:
        try:
            pa.array(frame[name], from_pandas=True)
        except _NO_TABLE:
            return f"column '{name}'"
    return "a column"
