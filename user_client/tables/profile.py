"""What the terms find in each column of a table: how many fields are empty, outside or of which kind.

It holds counts and no value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocol.table_schema import Column, ColumnOfLevels, RanksColumn, Schema
from user_client.tables.encode import numbers_of
from user_client.tables.fields import as_text, column_of, is_empty
from user_client.tables.read import parts_of

MOST_DISTINCT: Final = 10_000
"""More different values of a column are not counted."""


@dataclass
class ColumnProfile:
    """How the fields of one column go with the terms.

    Attributes
    ----------
    empty : int
        Fields that are empty, or hold a text that stands for an empty field.
    imputed : int
        Those of them that count as a value or as the centre of the column; else they refuse the table.
    clipped : int
        Numbers outside the range of the terms, which are moved to its nearer end.
    distinct : int
        Different values; `MOST_DISTINCT` if there are more.
    """

    name: str
    empty: int = 0
    imputed: int = 0
    clipped: int = 0
    distinct: int = 0
    _seen: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()), repr=False)
    """These values; none once there are `MOST_DISTINCT`. Strings of Python would take ten times as much."""

    def to_json(self) -> dict[str, Any]:
        names = ("name", "empty", "imputed", "clipped", "distinct")
        return {name: getattr(self, name) for name in names}

    def add(self, part: pa.Table, column: Column, schema: Schema) -> None:
        """Count the fields of some more rows."""
        text, missing = as_text(column_of(part, column.name)), schema.missing_in(column)
        if self.distinct < MOST_DISTINCT:
            seen = pc.unique(pa.chunked_array([self._seen, *text.chunks]))
            seen = seen.filter(pc.invert(pc.is_in(seen, value_set=pa.array([None, *missing], pa.string()))))
            self.distinct = min(len(seen), MOST_DISTINCT)
            self._seen = seen if len(seen) < MOST_DISTINCT else pa.array([], pa.string())
        if isinstance(column, ColumnOfLevels):
            empty = is_empty(text, missing)
            empty &= ~np.asarray(pc.is_in(text, value_set=pa.array(list(column.levels), pa.string())))
        else:
            numbers, empty = numbers_of(part, column, missing)
            low, high = _range(column)
            self.clipped += int(((numbers < low) | (numbers > high))[~empty].sum())
        self.empty += int(empty.sum())
        self.imputed = self.empty if _fills(column) else 0


def _range(column: Any) -> tuple[float, float]:
    if isinstance(column, RanksColumn):
        return column.quantiles[0], column.quantiles[-1]
    return column.low, column.high


def _fills(column: Any) -> bool:
    return column.impute is not None if hasattr(column, "impute") else column.empty == "centre"


def profile(data: Any, schema: Schema) -> list[ColumnProfile]:
    """Return the counts of each column of a table that fits the schema.

    The table is read for that alone: beside its encoding, the texts would take memory that grows with it.
    """
    found = [ColumnProfile(column.name) for column in schema.columns]
    for part in parts_of(data):
        for one, column in zip(found, schema.columns, strict=True):
            one.add(part, column, schema)
    return found
