"""What people sign about the columns: how each is read, and what their figures tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import Final

from protocol.table_schema import (
    CENTRED_COLUMNS,
    CategoricalColumn,
    Column,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
)
from protocol.terms import Terms
from protocol.texts import decimal_text

_OUTSIDE: Final = {"refuse": "is refused", "clip": "is moved to the nearer end"}


def warnings_of_columns(terms: Terms) -> Iterator[str]:
    if any(isinstance(column, CENTRED_COLUMNS) for column in terms.table_schema.columns):
        yield (
            "figures of a table: the quantiles, ranges, centres and shares below describe one institution's"
            " table or a public one. The analyst and every institution read them."
        )
    if any(getattr(column, "dates", None) for column in terms.table_schema.columns):
        yield (
            "dates: a day may be known of one person alone, and so may the days between two. Whoever has them"
            " from elsewhere can recognise the row by them."
        )


def column_in_words(column: Column) -> str:
    also = getattr(column, "missing", None)
    empty = f"; texts that also stand for an empty field: {', '.join(also)}" if also else ""
    return f"- {column.name}: {_values(column)}; {_empty(column)}{empty}"


def _values(column: Column) -> str:
    if isinstance(column, NumericColumn):
        outside = f"a number outside {_OUTSIDE[column.out_of_range]}"
        return f"from {decimal_text(column.low)} to {decimal_text(column.high)}; {outside}"
    if isinstance(column, CategoricalColumn):
        return f"one of {', '.join(column.levels)}"
    if isinstance(column, LevelsColumn):
        others = "" if column.other is None else f"; any other text counts as {column.other}"
        return (
            f"one of {', '.join(column.levels)}, with the shares {_numbers(column.shares)}, each less its"
            f" share and times {decimal_text(column.weight)}{others}"
        )
    if isinstance(column, OrdinalColumn):
        return (
            f"one of {', '.join(column.levels)}, as its place in this order from -1 to 1, less"
            f" {decimal_text(column.centre)}"
        )
    return f"{_read_as(column)}{_mapped(column)} outside {_OUTSIDE['clip']}"


def _read_as(column: RanksColumn | RangeColumn) -> str:
    if column.dates is None:
        return ""
    if column.since is None:
        return f"a date written as {column.dates}, "
    return f"the days since the date in {column.since}, both written as {column.dates}, "


def _mapped(column: RanksColumn | RangeColumn) -> str:
    shown, one = (_day, "a date") if _is_date(column) else (decimal_text, "a number")
    if isinstance(column, RangeColumn):
        low, high, centre = map(shown, (column.low, column.high, column.centre))
        if column.scale == "logarithm":
            return f"its logarithm, between those of {low} and {high}, less that of {centre}; {one}"
        return f"from {low} to {high}, less {centre}; {one}"
    quantiles = ", ".join(map(shown, column.quantiles))
    return f"its rank among the {len(column.quantiles)} quantiles {quantiles}; {one}"


def _is_date(column: Column) -> bool:
    return isinstance(column, RanksColumn | RangeColumn) and column.dates is not None and column.since is None


def _empty(column: Column) -> str:
    if not column.takes_empty:
        return "an empty field is refused"
    counts_as = f"an empty field counts as {_instead(column)}"
    share = getattr(column, "missing_share", None)
    if share is None:
        return counts_as
    more = "one more feature says whether the field is empty, less the share"
    return f"{counts_as}, and {more} {decimal_text(share)}"


def _instead(column: Column) -> str:
    """Return what an empty field counts as."""
    if column.impute is None:
        return "the middle"
    if isinstance(column.impute, str):
        return column.impute
    return (_day if _is_date(column) else decimal_text)(column.impute)


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(map(decimal_text, values))


def _day(days: float) -> str:
    """Return days since 1970-01-01 as the date they end at, or as a number if no date has it."""
    try:
        if days.is_integer():
            return (date(1970, 1, 1) + timedelta(int(days))).isoformat()
    except OverflowError:
        pass
    return decimal_text(days)
