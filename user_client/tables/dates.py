"""Dates as numbers of days, the same on every machine.

A date is read as whole microseconds since 1970-01-01, in the Gregorian calendar, and only then divided. A
time of the day is taken as it is written, or in UTC if it says how far it is from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.table_schema import DateFormat
from user_client.errors import NotADateError
from user_client.tables.fields import (
    Mask,
    Matrix64,
    as_text,
    column_of,
    is_empty,
    readable,
    rows_of,
)

Counts = NDArray[np.int64]
DATE_FORMATS: Final[tuple[DateFormat, ...]] = get_args(DateFormat)
_UNDASHED: Final[tuple[DateFormat, ...]] = ("yyyymmdd", "ddmmyyyy", "mmddyyyy")
"""Notations without separators, whose dates look like numbers."""
_DAY: Final = 86_400_000_000
"""Microseconds of a day."""
_YEAR, _TWO, _FEW = "(?P<year>[0-9]{4})", "(?P<{}>[0-9]{{2}})", "(?P<{}>[0-9]{{1,2}})"
_PATTERNS: Final[Mapping[DateFormat, str]] = {
    "iso": f"{_YEAR}-{_TWO.format('month')}-{_TWO.format('day')}",
    "dd.mm.yyyy": rf"{_FEW.format('day')}\.{_FEW.format('month')}\.{_YEAR}",
    "dd/mm/yyyy": f"{_FEW.format('day')}/{_FEW.format('month')}/{_YEAR}",
    "mm/dd/yyyy": f"{_FEW.format('month')}/{_FEW.format('day')}/{_YEAR}",
    "yyyy/mm/dd": f"{_YEAR}/{_FEW.format('month')}/{_FEW.format('day')}",
    "yyyymmdd": f"{_YEAR}{_TWO.format('month')}{_TWO.format('day')}",
    "ddmmyyyy": f"{_FEW.format('day')}{_TWO.format('month')}{_YEAR}",
    "mmddyyyy": f"{_FEW.format('month')}{_TWO.format('day')}{_YEAR}",
}
_TIME: Final = (
    rf"(?:[T ]{_TWO.format('hour')}:{_TWO.format('minute')}"
    rf"(?::{_TWO.format('second')}(?:\.(?P<fraction>[0-9]{{1,9}}))?)?"
    rf"(?:Z|(?P<sign>[+-]){_TWO.format('ahead')}:{_TWO.format('ahead_minute')})?)?"
)
_UNITS: Final = {"D": _DAY, "s": 1_000_000, "ms": 1_000, "us": 1}
_FIRST, _LAST = (float(np.datetime64(day, "D").astype(np.int64)) for day in ("1800-01-01", "2200-01-01"))
"""Between them lie the dates that numbers are taken for."""
_FURTHEST: Final = 4_000_000 * _DAY
"""Beyond the years that can be written; larger numbers of a column of dates are no dates."""


def read_days(
    table: pa.Table, name: str, dates: DateFormat, since: str | None, missing: Sequence[str]
) -> tuple[Matrix64, Mask]:
    """Return the days of a column, NaN where a field is empty, and a mask of the empty fields.

    They are days since 1970-01-01, or since the date in the column ``since`` of the same row.

    Raises
    ------
    TableError
        If a field is neither empty nor a date; it names the column and the row.
    """
    counts, empty = _read(table, name, dates, missing)
    if since is not None:
        begun, unknown = _read(table, since, dates, missing)
        counts, empty = counts - begun, empty | unknown
    return np.where(empty, math.nan, counts / _DAY), empty


def _read(table: pa.Table, name: str, dates: DateFormat, missing: Sequence[str]) -> tuple[Counts, Mask]:
    """Return a column as microseconds, and a mask of its empty fields; raises `NotADateError`."""
    with readable(name):
        counts, is_date, empty = _microseconds(column_of(table, name), dates, missing)
    unreadable = ~empty & ~is_date
    if unreadable.any():
        raise NotADateError(name, rows_of(unreadable), dates)
    return counts, empty


def are_dates(texts: Sequence[str], dates: DateFormat) -> bool:
    """Return whether each of some texts is a date that is written so."""
    return bool(_of_text(pa.chunked_array([list(texts)], pa.string()), dates)[1].all())


def days_of(texts: Sequence[str], dates: DateFormat) -> list[float]:
    """Return dates as days since 1970-01-01; raises `ValueError` if a text is none."""
    counts, is_date = _of_text(as_text(pa.chunked_array([list(texts)], pa.string())), dates)
    if not is_date.all():
        raise ValueError("not a date")
    return [float(days) for days in counts / _DAY]


def dates_in(texts: Sequence[str]) -> list[DateFormat]:
    """Return how texts may be written if each of them is a date; nothing if they are none.

    Dates without separators are not looked for: they look like numbers.
    """
    return [dates for dates in DATE_FORMATS if texts and dates not in _UNDASHED and are_dates(texts, dates)]


def dates_in_digits(texts: Sequence[str]) -> list[DateFormat]:
    """Return how numbers may be written dates without separators, in a year from 1800 to 2199."""
    found = [dates for dates in _UNDASHED if texts and are_dates(texts, dates)]
    return [dates for dates in found if all(_FIRST <= day < _LAST for day in days_of(texts, dates))]


def is_temporal(values: pa.ChunkedArray) -> bool:
    """Return whether a column holds dates or times that are no texts."""
    return bool(pa.types.is_date(values.type) or pa.types.is_timestamp(values.type))


def _microseconds(
    values: pa.ChunkedArray, dates: DateFormat, missing: Sequence[str]
) -> tuple[Counts, Mask, Mask]:
    """Return microseconds since 1970-01-01, where they are those of a date, and where a field is empty."""
    if not is_temporal(values):
        text = as_text(values)
        return *_of_text(text, dates), is_empty(text, missing)
    counts, is_date = _of_temporal(values)
    codes, are_codes = _of_text(pa.chunked_array([list(missing)], pa.string()), dates)
    null = np.asarray(pc.is_null(values).to_numpy(), dtype=np.bool_)
    return counts, is_date, null | np.isin(counts, codes[are_codes])


def _of_temporal(values: pa.ChunkedArray) -> tuple[Counts, Mask]:
    """Return what a column of dates or times holds; a time with a zone is stored in UTC."""
    kind = values.type
    if pa.types.is_date32(kind):
        unit, whole = "D", values.cast(pa.int32()).cast(pa.int64())
    else:
        unit, whole = "ms" if pa.types.is_date64(kind) else kind.unit, values.cast(pa.int64())
    counts = np.array(pc.fill_null(whole, 0).to_numpy(), dtype=np.int64)
    if unit == "ns":
        return counts // 1000, np.ones(len(counts), np.bool_)
    inside = np.abs(counts) <= _FURTHEST // _UNITS[unit]
    return np.where(inside, counts, 0) * _UNITS[unit], inside


def _of_text(text: pa.ChunkedArray, dates: DateFormat) -> tuple[Counts, Mask]:
    """Return what texts say, in microseconds, and which of them are dates."""
    found = pc.extract_regex(text, f"^{_PATTERNS[dates]}{_TIME}$").combine_chunks()
    matches = np.asarray(pc.is_valid(found))

    def part(name: str) -> Counts:
        digits = pc.struct_field(found, name)
        if name == "fraction":
            digits = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6)
        known = pc.fill_null(pc.if_else(pc.equal(digits, ""), "0", digits), "0")
        return np.asarray(known.cast(pa.int64()), dtype=np.int64)

    year, month, day = part("year"), part("month"), part("day")
    hour, minute, second = part("hour"), part("minute"), part("second")
    ahead, ahead_minute = part("ahead"), part("ahead_minute")
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (day - 1)
    is_day = (days.astype("datetime64[M]") == first) & (year > 0) & (month >= 1) & (month <= 12)
    is_time = (hour < 24) & (minute < 60) & (second < 60) & (ahead < 24) & (ahead_minute < 60)
    behind = np.asarray(pc.fill_null(pc.equal(pc.struct_field(found, "sign"), "-"), False))
    offset = (ahead * 60 + ahead_minute) * np.where(behind, -1, 1)
    minutes = days.astype(np.int64) * 1440 + hour * 60 + minute - offset
    counts = (minutes * 60 + second) * 1_000_000 + part("fraction")
    return counts, matches & is_day & is_time
