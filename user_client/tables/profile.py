"""What the terms find in each column of a table: how many fields are empty, outside or of which kind.

It holds counts, and no value but numbers that tables use for "not known".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.table_schema import (
    CENTRED_COLUMNS,
    Column,
    ColumnOfLevels,
    ColumnOfNumbers,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RanksColumn,
    Schema,
)
from user_client.tables.codes import CODES, DATE_CODES, Ends, FarCode
from user_client.tables.encode import numbers_of
from user_client.tables.fields import Mask, Matrix64, as_text, column_of, is_empty, read_levels
from user_client.tables.misfits import filling_line
from user_client.tables.read import parts_of

MOST_DISTINCT: Final = 10_000
"""More different values of a column are not counted."""
MOST_MOVED: Final = 0.25
"""Of a column of which the terms take more for something else, something is wrong."""
NEARLY_ALL: Final = 0.9
"""Of a column of which a larger share is empty, an institution as good as lacks it."""
FEWEST_FIELDS: Final = 20
"""Of fewer, chance alone may put so many outside."""
FEWEST_OUTSIDE: Final = 5
"""Chance does not put all of so many outside."""
ROUNDED: Final = 0.06
_SHOWN: Final = 3
"""So many levels of the terms are named."""


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
    other : int
        Texts that are none of the levels of the terms, and count as the level for all others.
    coded : int
        Numbers that tables use for "not known", apart from all others, and that the terms take for numbers.
    distinct : int
        Different values; `MOST_DISTINCT` if there are more.
    """

    name: str
    empty: int = 0
    imputed: int = 0
    clipped: int = 0
    other: int = 0
    coded: int = 0
    distinct: int = 0
    codes: list[FarCode] = field(default_factory=list)
    """Those numbers as the table writes them: for people at this machine, and in no JSON."""
    line: str = ""
    """What the terms need to say for them to count as empty fields."""
    filled: int = 0
    """Fields that are not empty."""
    level_rows: dict[str, int] = field(default_factory=dict)
    """Rows of each level that is a feature of its own; as the codes, in no JSON."""
    among: NDArray[np.int64] | None = None
    """How many numbers are below, and how many up to, each quantile of the terms; None of other columns."""
    empty_in: list[int] = field(default_factory=list)
    """Empty fields among the rows of each group of the label."""
    _ends: Ends | None = field(default=None, repr=False)
    _seen: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()), repr=False)
    """These values; none once there are `MOST_DISTINCT`. Strings of Python would take ten times as much."""

    def to_json(self) -> dict[str, Any]:
        names = ("name", "empty", "imputed", "clipped", "other", "coded", "distinct")
        return {name: getattr(self, name) for name in names}

    def add(self, part: pa.Table, column: Column, schema: Schema, groups: Sequence[Mask] = ()) -> None:
        """Count the fields of some more rows, of which the groups of the label are masks."""
        values, missing = column_of(part, column.name), schema.missing_in(column)
        if self.distinct < MOST_DISTINCT:
            seen = pc.unique(pa.chunked_array([self._seen, *as_text(values).chunks]))
            seen = seen.filter(pa.array(~is_empty(seen, missing)))
            self.distinct = min(len(seen), MOST_DISTINCT)
            self._seen = seen if len(seen) < MOST_DISTINCT else pa.array([], pa.string())
        if isinstance(column, ColumnOfLevels):
            empty = self._count_levels(values, column, missing)
        else:
            numbers, empty = self._count_numbers(part, column, missing)
            self._add_codes(numbers, empty, values, column, schema)
            if isinstance(column, RanksColumn):
                among = counts_among(numbers[~empty], column.quantiles)
                self.among = among if self.among is None else self.among + among
        before = self.empty_in or [0] * len(groups)
        self.empty_in = [count + int((empty & one).sum()) for count, one in zip(before, groups, strict=True)]
        self.imputed = self.empty if column.takes_empty else 0

    def count(self, part: pa.Table, column: Column, schema: Schema) -> None:
        """Count no more than what is needed to say that a column is strange."""
        missing = schema.missing_in(column)
        if isinstance(column, ColumnOfLevels):
            self._count_levels(column_of(part, column.name), column, missing)
        else:
            self._count_numbers(part, column, missing)

    def _count_levels(self, values: pa.ChunkedArray, column: ColumnOfLevels, missing: Sequence[str]) -> Mask:
        other = column.other if isinstance(column, LevelsColumn) else None
        chosen, empty = read_levels(values, column.name, column.levels, missing, other)
        self._fill(empty)
        if not isinstance(column, OrdinalColumn) or len(column.levels) == 2:  # a place in between is no level
            counts = np.bincount(chosen[~empty], minlength=len(column.levels)).tolist()
            self.level_rows = {
                level: self.level_rows.get(level, 0) + count
                for level, count in zip(column.levels, counts, strict=True)
            }
        if other is not None:
            named = np.asarray(pc.fill_null(pc.equal(as_text(values), other), False))
            self.other += int(((chosen == column.levels.index(other)) & ~empty & ~named).sum())
        return empty

    def _count_numbers(self, part: pa.Table, column: Any, missing: Sequence[str]) -> tuple[Matrix64, Mask]:
        numbers, empty = numbers_of(part, column, missing)
        low, high = column.ends
        self._fill(empty)
        self.clipped += int(((numbers < low) | (numbers > high))[~empty].sum())
        return numbers, empty

    def _fill(self, empty: Mask) -> None:
        self.empty += int(empty.sum())
        self.filled += int((~empty).sum())

    def _add_codes(
        self, numbers: Matrix64, empty: Mask, values: pa.ChunkedArray, column: Column, schema: Schema
    ) -> None:
        if getattr(column, "since", None) is not None:  # no code is a duration
            return
        if self._ends is None:
            codes = CODES if isinstance(column, CENTRED_COLUMNS) else CODES - {0}  # else for all columns
            self._ends = Ends(codes if getattr(column, "dates", None) is None else DATE_CODES)
        known = np.where(empty, np.nan, numbers) if empty.any() else numbers
        self._ends.add(known, lambda some: as_text(values.filter(pa.array(some))))
        self.codes = self._ends.far()
        self.coded = sum(one.rows for one in self.codes)
        self.line = _line_of([text for one in self.codes for text in one.texts], column, schema)


def _moves(column: Column) -> TypeGuard[ColumnOfNumbers]:
    """Return whether the numbers of a column that lie outside of the terms' count as the nearer end."""
    is_refused = isinstance(column, NumericColumn) and column.out_of_range == "refuse"
    return isinstance(column, ColumnOfNumbers) and not is_refused


def strangeness(found: ColumnProfile, column: Column) -> str | None:
    """Return what a person should look at where the terms take much of a column for something else.

    It names the terms' own figures, and no value of the table.
    """
    fields, expected = found.filled + found.empty, getattr(column, "missing_share", None) or 0.0
    if fields >= FEWEST_FIELDS and found.empty > fields * max(NEARLY_ALL, MOST_MOVED + expected):
        return (
            f"column '{found.name}': {found.empty:,} of {fields:,} fields are empty, and count as what"
            " the terms put instead of an empty field: look whether the table has the column under"
            " another name, or ask the lead for terms that say that we lack it ([[absent_columns]], which go"
            " with rows and not with sums)"
        )
    if found.filled < (FEWEST_OUTSIDE if found.clipped == found.filled else FEWEST_FIELDS):
        return None
    if isinstance(column, LevelsColumn) and column.other is not None:
        known = [level for level in column.levels if level != column.other]
        some = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
        if found.other > found.filled * (MOST_MOVED + column.shares[column.levels.index(column.other)]):
            return (
                f"column '{found.name}': {found.other:,} of {found.filled:,} texts are none of the levels in"
                f" the terms ({some}) and count as {column.other}: look at how they are written"
            )
    elif found.clipped > MOST_MOVED * found.filled and _moves(column):
        low, high = column.ends
        ends = "" if getattr(column, "dates", None) is not None else f", {low:g} to {high:g},"
        return (
            f"column '{found.name}': {found.clipped:,} of {found.filled:,} values lie outside of the range"
            f" in the terms{ends} and count as its nearer end: compare their unit with the lead's, or ask for"
            " terms with a range that fits"
        )
    return None


def _line_of(texts: list[str], column: Column, schema: Schema) -> str:
    """Return the line of the terms by which texts of a column count as empty fields."""
    is_own = isinstance(column, CENTRED_COLUMNS)  # those of the papers share a list
    before = (getattr(column, "missing", None) or ()) if is_own else schema.missing
    listed = ", ".join(json.dumps(text, ensure_ascii=False) for text in (*before, *texts))
    line = f"missing = [{listed}] {'in this column' if is_own else 'in table_schema'}"
    return line if column.takes_empty else f"{line}, and {filling_line(column)} in this column"


def strange_columns(table: pa.Table, schema: Schema) -> list[str]:
    """Return what is strange about the columns of a table that fits the schema, in words."""
    found = []
    for column in schema.columns:
        one = ColumnProfile(column.name)
        one.count(table, column, schema)
        found.append(strangeness(one, column))
    return [words for words in found if words is not None]


def profile(data: Any, schema: Schema, groups: Sequence[Mask] = ()) -> list[ColumnProfile]:
    """Return the counts of each column of a table that fits the schema.

    The table is read for that alone: beside its encoding, the texts would take memory that grows with it.

    Parameters
    ----------
    groups : sequence of (n,) ndarray of bool
        The rows of each group of the label, among which empty fields are counted too.
    """
    found = [ColumnProfile(column.name) for column in schema.columns]
    start = 0
    for part in parts_of(data):
        of_part = [one[start : start + part.num_rows] for one in groups]
        for one, column in zip(found, schema.columns, strict=True):
            one.add(part, column, schema, of_part)
        start += part.num_rows
    return found


def counts_among(numbers: Matrix64, quantiles: Sequence[float]) -> NDArray[np.int64]:
    """Return how many numbers are below, and how many up to, each quantile: (2, q).

    A draft has rounded the quantiles, by at most `ROUNDED` of the distance to the nearest different one:
    a number so near to a quantile counts as the same.
    """
    ascending, known = np.sort(numbers), np.asarray(quantiles, np.float64)
    different = np.unique(known)
    gaps = np.concatenate([[np.inf], np.diff(different), [np.inf]])
    nearest = np.minimum(gaps[:-1], gaps[1:])[np.searchsorted(different, known)]
    near = ROUNDED * np.where(np.isfinite(nearest), nearest, 0.0)
    return np.stack(
        [np.searchsorted(ascending, known - near, "left"), np.searchsorted(ascending, known + near, "right")]
    )
