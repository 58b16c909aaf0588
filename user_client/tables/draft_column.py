"""A first draft of one column, from its values in a table."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.table_schema import LEAST_RATIO, DateFormat
from user_client.tables.dates import DATE_FORMATS, dates_in, dates_in_digits, days_of, is_temporal, read_days
from user_client.tables.dirty import refuse_nearly_numbers
from user_client.tables.draft_levels import (
    block_with_other,
    levels_block,
    ordinal_block,
    remarks_on_rare,
    too_many,
)
from user_client.tables.emptiness import tells
from user_client.tables.fields import (
    Mask,
    Matrix64,
    as_numbers,
    as_text,
    is_empty,
    number_of,
    plain,
    read_levels,
)
from user_client.tables.figures import (
    MAX_DRAFT_LEVELS,
    OUTERMOST,
    distinct,
    is_number,
    positive_range_of,
    range_of,
    rounded,
    rounded_apart,
    share_beyond,
)
from user_client.tables.writings import advice_on

Encoding = Literal["ranks", "ranges", "plain"]
QUANTILES: Final = 21
FEW_QUANTILES: Final = 5
"""Quantiles per column of a table so wide that the terms would not fit into one message with `QUANTILES`."""
MANY_EMPTY: Final = 0.05
"""Share of empty fields from which on a column gets a feature that says whether the field is empty."""

_TIME: Final = re.compile(r"[ T]\d{1,2}:\d{2}")


@dataclass(frozen=True)
class DraftedColumn:
    """One column of the schema.

    Attributes
    ----------
    numbers : (n,) ndarray of float64, optional
        What it reads from the rows, NaN where a field is empty; None of a column of levels.
    """

    content: dict[str, Any]
    numbers: Matrix64 | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Numbers:
    """What a column of numbers or dates says: its numbers, (n,), NaN where empty, and how they are read."""

    numbers: Matrix64
    reading: dict[str, str]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class ColumnDrafting:
    """How columns are drafted.

    Attributes
    ----------
    quantiles : int
        Of each column of ranks.
    missing : tuple of str
        Texts that stand for an empty field.
    missing_in : mapping of str to sequence of str
        Further ones of some columns.
    categories : collection of str
        Columns of numbers that are names of categories.
    dates : mapping of str to DateFormat
        How the dates of a column are written, where it is not to be found out.
    durations : mapping of str to str
        Columns of dates, and the column that each is a duration since.
    ordinals : mapping of str to sequence of str
        The levels of columns whose levels have an order, the lowest first.
    others : collection of str
        Columns whose rare texts, and all that are not in the table, are one level.
    imputes : mapping of str to str
        What an empty field of a column counts as, as it would stand there; for a duration, a number of days.
    logarithms : collection of str
        Columns of numbers above 0 that are mapped as their logarithms.
    groups : sequence of (n,) ndarray
        Class numbers of each label, NaN for a row without one: empty fields that go with them get a feature.
    classes : int
        How many there are.
    """

    encoding: Encoding
    quantiles: int
    missing: tuple[str, ...]
    missing_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    categories: Collection[str] = ()
    dates: Mapping[str, DateFormat] = field(default_factory=dict)
    durations: Mapping[str, str] = field(default_factory=dict)
    ordinals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    others: Collection[str] = ()
    imputes: Mapping[str, str] = field(default_factory=dict)
    logarithms: Collection[str] = ()
    groups: Sequence[NDArray[Any]] = ()
    classes: int = 2

    def column(self, table: pa.Table, name: str) -> DraftedColumn | None:
        """Return one column of the schema; None if it has the same value everywhere.

        Raises
        ------
        InputError
            If the column cannot be used.
        """
        drafted = self.as_it_is(table, name)
        share = (drafted.content if drafted else {}).get("missing_share") or 1.0
        if drafted is None or share >= MANY_EMPTY:
            return drafted
        remark = (
            f"{name}: few of its fields are empty ({100 * share:.1f} %), and whether one is goes with the"
            " label, so the draft has a feature that says so; if that is known only after the outcome, take"
            " missing_share out of this column in the file"
        )
        return replace(drafted, remarks=(*drafted.remarks, remark))

    def as_it_is(self, table: pa.Table, name: str) -> DraftedColumn | None:
        """Return the draft of one column, without what its few empty fields tell; raises as `column` does."""
        if codes := self.missing_in.get(name):
            own = replace(self, missing=(*self.missing, *codes), missing_in={}).as_it_is(table, name)
            return own and replace(own, content={**own.content, "missing": list(codes)})
        value = self.imputes[name].strip() if name in self.imputes else None  # as fields are
        if value in self.missing and value not in self.ordinals.get(name, ()):
            raise InputError(f"--impute {name}={value}: that text stands for an empty field itself")
        read = None if name in self.ordinals else self._read(table, name)
        if read is not None:
            return self._of_numbers(name, read, value)
        return self._of_texts(name, table.column(name), value)

    def _read(self, table: pa.Table, name: str) -> _Numbers | None:
        """Return what a column of numbers or dates says; None of any other column."""
        values = table.column(name)
        levels = distinct(values, self.missing)
        are_names = self._takes_texts(name) or self._are_codes(name, levels)
        takes_numbers = not are_names and all(map(is_number, levels))
        if dates := self._dates(name, values, levels, takes_numbers=takes_numbers):
            since = self.durations.get(name)
            days, _ = read_days(table, name, dates[0], since, self.missing)
            reading = {"dates": dates[0], **({} if since is None else {"since": since})}
            remarks = [
                f"{name}: its dates may be {dates[0]} or {other}; the draft takes the first. If they are not,"
                f" draft again with --date {quote(f'{name}={other}')}"
                for other in dates[1:]
            ]
            if since is None and _have_times(levels):
                remarks.append(
                    f"{name}: its times become one number of days, in which the hour and the day of the week"
                    " are lost; if they matter, write them as texts into columns of their own in every table"
                )
            return _Numbers(days, reading, tuple(remarks))
        if not takes_numbers:
            return None
        numbers, _ = as_numbers(values, self.missing)
        remarks = list(_remark_on_digits(name, levels))
        if _are_padded(levels) and not remarks:
            remarks.append(
                f"{name}: its numbers have leading zeros, as postcodes and other codes have; if they are"
                f" names of categories, draft again with --other {quote(name)}"
            )
        return _Numbers(numbers, {}, tuple(remarks))

    def _of_numbers(self, name: str, read: _Numbers, value: str | None) -> DraftedColumn | None:
        """Return a column of numbers, drafted as if its empty fields had the value, if there is one."""
        numbers, empty, remarks = read.numbers, np.isnan(read.numbers), read.remarks
        imputed = None if value is None else _number_in(name, value, read.reading)
        if imputed is not None:
            numbers = np.where(empty, imputed, numbers)
        if name in self.logarithms:
            content = self._logarithms(name, numbers, read.reading)
            remarks = (*remarks, *_remark_on_logarithms(content, read.numbers[~empty]))
        elif len(np.unique(numbers[~np.isnan(numbers)])) < 2:
            return None
        else:  # the form of the papers has no dates
            is_plain_date = self.encoding == "plain" and bool(read.reading)
            content = self._numeric(name, numbers, "ranges" if is_plain_date else self.encoding)
        content |= {} if content["kind"] == "numeric" else {**self._empty(empty), **read.reading}
        if value is not None and imputed is not None:
            content |= _imputing(content, value, empty, tells=self._tells(empty))
            if content["impute"] != imputed:
                remarks = (*remarks, f"{name}: {value} lies beyond the range; the nearer end takes its place")
        return DraftedColumn(content, read.numbers, remarks)

    def _of_texts(self, name: str, values: pa.ChunkedArray, value: str | None) -> DraftedColumn | None:
        """Return a column of levels, drafted as if its empty fields had the value, if there is one."""
        flagged = np.zeros(len(values), np.bool_)
        are_codes = name not in self.ordinals and self._are_codes(name, distinct(values, self.missing))
        if value is not None:
            text = as_text(values)
            empty = is_empty(text, self.missing)
            if name in self.ordinals:  # a text that is a level is no empty field
                empty &= ~np.asarray(pc.is_in(text, value_set=pa.array(list(self.ordinals[name]))))
            mask = pa.chunked_array([pa.array(empty)])
            if pc.any(pc.equal(text.filter(pc.invert(mask)), value)).as_py():
                flagged = empty  # else the level itself says that the field was empty
            values = pc.if_else(mask, pa.scalar(value), text)
        if name in self.ordinals:
            drafted = DraftedColumn(self._ordinal(name, values))
        else:
            levels = distinct(values, self.missing)
            if len(levels) == 1 and name not in self.others:
                return None
            if not are_codes and not self._takes_texts(name):
                refuse_nearly_numbers(name, values, levels, self.missing)
            drafted = self._categories(name, values, levels)
            if not self._takes_texts(name) and (advice := advice_on(levels)):
                drafted = replace(drafted, remarks=(*drafted.remarks, f"{name}: its texts {advice}"))
            if are_codes:
                drafted = replace(drafted, remarks=(*drafted.remarks, *_remark_on_codes(name, levels)))
        if value is None:
            return drafted
        return replace(
            drafted,
            content={
                **drafted.content,
                **_imputing(drafted.content, value, flagged, tells=self._tells(flagged)),
            },
        )

    def _tells(self, empty: Mask) -> bool:
        return tells(empty, self.groups, self.classes)

    def _empty(self, empty: Mask) -> dict[str, Any]:
        return _empty(empty, tells=self._tells(empty))

    def _are_codes(self, name: str, levels: Sequence[str]) -> bool:
        """Return whether a column has few numbers with leading zeros, of which nobody says that they are."""
        is_number_to_person = name in self.logarithms or is_number(self.imputes.get(name, "").strip())
        are_few = len(levels) <= MAX_DRAFT_LEVELS and not self._takes_texts(name)
        return are_few and not is_number_to_person and _are_padded(levels)

    def _takes_texts(self, name: str) -> bool:
        """Return whether a person says that a column holds names of categories."""
        return name in self.categories or name in self.others

    def _dates(
        self, name: str, values: pa.ChunkedArray, levels: list[str], *, takes_numbers: bool
    ) -> list[DateFormat]:
        """Return how the dates of a column may be written; nothing if it holds none."""
        if name in self.dates:
            return [self.dates[name]]
        if self._takes_texts(name):
            return []
        if is_temporal(values):
            return ["iso"]
        found = [] if takes_numbers else dates_in(levels)
        if name in self.durations and not found:
            raise InputError(
                f"column '{name}' holds no dates that can be read: --date {quote(f'{name}=FORMAT')} says how"
                f" they are written, one of {', '.join(DATE_FORMATS)}"
            )
        return found

    def _logarithms(self, name: str, numbers: Matrix64, reading: Mapping[str, str]) -> dict[str, Any]:
        """Return a column of logarithms; raises `InputError` if it can be none."""
        if self.encoding == "plain":
            raise InputError("--logarithm does not go with --encoding plain")
        if "dates" in reading and "since" not in reading:
            raise InputError(f"column '{name}' holds dates, which have no logarithms; a --duration has them")
        known = numbers[~np.isnan(numbers)]
        if len(np.unique(known[known > 0])) < 2:
            raise InputError(f"column '{name}' has no two numbers above 0, so that it has no logarithms")
        low, high, centre = positive_range_of(known)
        if high < LEAST_RATIO * low:
            raise InputError(f"column '{name}' has numbers too close together for logarithms")
        ends = {"low": low, "high": high, "centre": centre}
        return {"kind": "range", "name": name, **ends, "scale": "logarithm"}

    def _numeric(self, name: str, numbers: Matrix64, encoding: Encoding) -> dict[str, Any]:
        known = numbers[~np.isnan(numbers)]
        if encoding == "ranks":
            shares = np.linspace(0, 1, self.quantiles)
            beyond = share_beyond(OUTERMOST, len(known))
            shares = shares.clip(beyond, 1 - beyond)
            found = rounded_apart(np.quantile(known, shares, method="nearest"))
            if found[0] < found[-1]:
                return {"kind": "ranks", "name": name, "quantiles": found}
        low, high = range_of(known)
        if encoding == "plain":
            median = rounded(float(np.median(known)), high - low)
            return {
                "kind": "numeric",
                "name": name,
                "low": low,
                "high": high,
                "impute": min(max(median, low), high),
                "out_of_range": "clip",
            }
        centre = rounded(float(known.clip(low, high).mean()), high - low)
        return {"kind": "range", "name": name, "low": low, "high": high, "centre": centre}

    def _categories(self, name: str, values: pa.ChunkedArray, levels: list[str]) -> DraftedColumn:
        if not levels:
            raise InputError(f"column '{name}' is empty: leave it out with --exclude {quote(name)}")
        chosen, is_not_known = read_levels(values, name, levels, self.missing)
        counts = np.bincount(chosen[~is_not_known], minlength=len(levels))
        empty = self._empty(is_not_known)
        if name in self.others or (len(levels) > MAX_DRAFT_LEVELS and self.encoding != "plain"):
            block, remark = block_with_other(name, levels, counts)
            return DraftedColumn({**block, **empty}, remarks=(remark,))
        if len(levels) > MAX_DRAFT_LEVELS:
            raise too_many(name, levels)
        if self.encoding == "plain":
            impute = levels[int(counts.argmax())]
            content = {"kind": "categorical", "name": name, "levels": levels, "impute": impute}
            return DraftedColumn(content)
        content = {**levels_block(name, levels, counts / counts.sum()), **empty}
        return DraftedColumn(content, remarks=tuple(remarks_on_rare(name, counts)))

    def _ordinal(self, name: str, values: pa.ChunkedArray) -> dict[str, Any]:
        levels = list(self.ordinals[name])
        known = {*levels, *map(plain, levels)}
        if unknown := {text for text in distinct(values, self.missing) if plain(text) not in known}:
            raise InputError(
                f"column '{name}' has {len(unknown)} texts that are none of the {len(levels)} levels of"
                f" --ordinal {name}"
            )
        places, is_not_known = read_levels(values, name, levels, self.missing)
        counts = np.bincount(places[~is_not_known], minlength=len(levels))
        block = ordinal_block(name, levels, counts / max(counts.sum(), 1))
        return {**block, **self._empty(is_not_known)}


def _have_times(dates: Sequence[str]) -> bool:
    """Return whether some dates have a time of the day, and not the same."""
    return len({found[0] for text in dates if (found := _TIME.search(text))}) > 1


def _remark_on_codes(name: str, levels: Sequence[str]) -> list[str]:
    """Say what few numbers with leading zeros may be."""
    return list(_remark_on_digits(name, levels)) or [
        f"{name}: its numbers have leading zeros, so they count as names of categories; if they"
        " are none, write them without"
    ]


def _remark_on_digits(name: str, levels: Sequence[str]) -> Iterator[str]:
    """Say that numbers may be dates without separators."""
    if found := dates_in_digits(levels):
        ways = " or ".join(f"--date {quote(f'{name}={dates}')}" for dates in found)
        yield f"{name}: its numbers look like dates; if so, draft again with {ways}"


def _remark_on_logarithms(column: Mapping[str, Any], known: Matrix64) -> Iterator[str]:
    if share := float(np.mean(known <= 0)):
        yield (
            f"{column['name']}: {100 * share:.1f} % of its numbers are not above 0;"
            f" they count as {column['low']:g}"
        )


def _imputing(column: Mapping[str, Any], value: str, flagged: Mask, *, tells: bool) -> dict[str, Any]:
    """Return what a column says of empty fields that count as a value; many flagged ones get a feature."""
    impute = {"impute": imputed_value(column, value)}
    if column["kind"] in ("numeric", "categorical"):
        return impute
    return {**_empty(flagged, tells=tells), "empty": "impute", **impute}


def imputed_value(column: Mapping[str, Any], value: str) -> float | str:
    """Return what an empty field of a drafted column counts as; raises `InputError`.

    A number beyond the ends counts as the nearer end, as it does in a row; a text that is no level, as the
    level for such texts.
    """
    if levels := column.get("levels"):
        if value in levels:
            return value
        if other := column.get("other"):
            return str(other)
        raise InputError(f"an empty field of column '{column['name']}' has to count as one of its levels")
    ends: Sequence[float] = column.get("quantiles") or (column["low"], column["high"])
    return min(max(_number_in(column["name"], value, column), ends[0]), ends[-1])


def _number_in(name: str, value: str, reading: Mapping[str, Any]) -> float:
    """Return the number that a field with this text has; raises `InputError`."""
    is_date = "dates" in reading and "since" not in reading
    try:
        number = days_of([value], reading["dates"])[0] if is_date else number_of(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        error = InputError(f"an empty field of column '{name}' can only count as a number")
        if is_date:
            error = InputError(
                f"an empty field of column '{name}' can only count as a date written as {reading['dates']}"
            )
            error.hint = f"if its dates are written otherwise, say so: --date {quote(f'{name}=FORMAT')}"
        raise error
    return number


def _are_padded(levels: Sequence[str]) -> bool:
    """Return whether all texts are digits of one length, longer than one, and some begin with 0: codes."""
    lengths = {len(level) for level in levels}
    is_coded = any(level.startswith("0") for level in levels) and len(lengths) == 1 and min(lengths) > 1
    return is_coded and all(level.isascii() and level.isdigit() for level in levels)


def _empty(is_empty: Mask, *, tells: bool) -> dict[str, Any]:
    share = float(is_empty.mean())
    has_feature = share >= MANY_EMPTY or tells
    return {"empty": "centre", **({"missing_share": max(round(share, 3), 0.001)} if has_feature else {})}
