"""A first draft of the schema from a data dictionary: names, types and figures of columns, and no row.

A draft from a table tells every member something of that table's rows. One from a public dictionary tells
what is public already.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from protocol.codec import Message, explained
from protocol.errors import InputError
from protocol.labels import Task
from protocol.table_schema import DateFormat
from protocol.texts import FieldText, Name
from runtime.files import read_text
from user_client.errors import MissingColumnError
from user_client.tables.dates import days_of
from user_client.tables.draft import MISSING_TEXTS, DraftedSchema
from user_client.tables.draft_column import imputed_value
from user_client.tables.draft_label import DraftedEvent, labels_of
from user_client.tables.draft_levels import levels_block, ordinal_block
from user_client.tables.figures import rounded
from user_client.tables.files import unreadable

_LISTS: Final = frozenset({"percentiles", "levels", "shares", "missing"})
"""Fields that are lists, which a CSV file separates by bars."""


class _Entry(Message):
    name: Name
    label: str = ""
    """Words for people; they are not used."""
    missing_share: float | None = None
    missing: tuple[FieldText, ...] = ()
    """Texts that stand for an empty field in this column, beside those of all columns."""
    impute: str | None = None
    """What an empty field counts as, as it would stand there; for a duration, a number of days."""

    def with_empty(self, column: dict[str, Any]) -> dict[str, Any]:
        """Return a column with the fields that say what becomes of an empty field."""
        way: dict[str, Any] = {"empty": "centre"}
        if self.impute is not None:
            way = {"empty": "impute", "impute": imputed_value(column, self.impute.strip())}
        share = {} if self.missing_share is None else {"missing_share": self.missing_share}
        return {**column, **way, **share, **({"missing": list(self.missing)} if self.missing else {})}


class _Spread(_Entry):
    """Numbers or dates, whose range or whose percentiles are known."""

    low: Any = None
    high: Any = None
    percentiles: tuple[Any, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        ends = [end for end in (self.low, self.high) if end is not None]
        if len(ends) != (0 if self.percentiles else 2):
            raise ValueError("give low and high, or percentiles")
        return self

    def block(self, ends: Sequence[float]) -> dict[str, Any]:
        """Return the column, with these numbers in the place of its percentiles, or of low and high."""
        if self.percentiles:
            return {"kind": "ranks", "name": self.name, "quantiles": list(ends)}
        low, high = ends
        return {"kind": "range", "name": self.name, "low": low, "high": high, "centre": (low + high) / 2}


class NumberEntry(_Spread):
    """A number, from low to high or with evenly spaced percentiles, the lowest first."""

    type: Literal["number"]
    low: float | None = None
    high: float | None = None
    percentiles: tuple[float, ...] = ()
    scale: Literal["logarithm"] | None = None

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        if self.scale is not None and (self.percentiles or (self.low or 0) <= 0):
            raise ValueError("the scale logarithm goes with low and high, which are above 0")
        return self

    def content(self) -> dict[str, Any]:
        ends = self.percentiles or [float(end) for end in (self.low, self.high) if end is not None]
        column = self.block(ends)
        if self.scale is not None:
            middle = rounded(math.sqrt(ends[0]) * math.sqrt(ends[1]), min(ends[0], ends[1] - ends[0]))
            column |= {"scale": self.scale, "centre": min(max(middle, ends[0]), ends[1])}
        return self.with_empty(column)


class DateEntry(_Spread):
    """A date, or the days since another one; then low, high and percentiles are numbers of days."""

    type: Literal["date"]
    dates: DateFormat = "iso"
    since: Name | None = None
    low: str | None = None
    high: str | None = None
    percentiles: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        texts = self.percentiles or [end for end in (self.low, self.high) if end is not None]
        try:
            ends = days_of(texts, self.dates) if self.since is None else [float(text) for text in texts]
        except ValueError:
            what = f"dates written as {self.dates}" if self.since is None else "numbers of days"
            raise InputError(f"the dictionary's figures of '{self.name}' are no {what}") from None
        since = {} if self.since is None else {"since": self.since}
        return self.with_empty({**self.block(ends), "dates": self.dates, **since})


class _Levels(_Entry):
    levels: tuple[Name, ...] = Field(min_length=2)
    shares: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shares and len(self.shares) != len(self.levels):
            raise ValueError("give one share for each level, or none")
        if len(set(self.levels)) != len(self.levels):
            raise ValueError("levels must be distinct")
        return self

    @property
    def shares_or_even(self) -> Sequence[float]:
        return self.shares or [1 / len(self.levels)] * len(self.levels)


class CategoryEntry(_Levels):
    """One of some levels, and the level of every text that is none."""

    type: Literal["category"]
    other: Name | None = None

    def content(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return self.with_empty({**levels_block(self.name, self.levels, self.shares_or_even), **other})


class OrdinalEntry(_Levels):
    """One of some levels in an order, the lowest first."""

    type: Literal["ordinal"]

    def content(self) -> dict[str, Any]:
        return self.with_empty(ordinal_block(self.name, self.levels, self.shares_or_even))


Entry = Annotated[NumberEntry | DateEntry | CategoryEntry | OrdinalEntry, Field(discriminator="type")]


_CORRECT_IT: Final = "correct the file at that place"


class Dictionary(Message):
    """What is known of the columns of a table without its rows."""

    columns: tuple[Entry, ...] = Field(min_length=1)
    missing: tuple[FieldText, ...] = ()
    """Texts that stand for an empty field, beside those that a draft always has."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the dictionary in a TOML or CSV file; raises `UnreadableFileError`."""
        text = read_text(path)
        try:
            content = _from_csv(text) if path.suffix.lower() == ".csv" else _texts(tomllib.loads(text))
            return cls.model_validate(content, strict=False)
        except ValidationError as error:
            hint = "correct the entry: docs/defaults.md says what one needs (From a dictionary)"
            reason = f"it is no dictionary: {explain_columns(error, content)}"
            raise unreadable(path, reason, hint) from None
        except csv.Error as error:
            raise unreadable(path, f"it is no CSV file: {error}", _CORRECT_IT) from None
        except tomllib.TOMLDecodeError as error:
            raise unreadable(path, f"it is no TOML file: {error}", _CORRECT_IT) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({entry.name for entry in self.columns}) != len(self.columns):
            raise ValueError("column names must be distinct")
        return self


def explain_columns(error: ValidationError, content: Mapping[str, Any]) -> str:
    """Say what is wrong with which column of a dictionary or a schema, without a value of it."""
    found = []
    for place, where, why in explained(error):
        name = _named_at(place, content)
        if name is not None:
            _, _, *within = place
            where = ", ".join([f"column '{name}'", *(str(part) for part in within[1:])])  # without its type
        found.append(f"{where}: {why}")
    return "; ".join(found)


def _named_at(place: Sequence[int | str], content: Mapping[str, Any]) -> str | None:
    """Return the name of the column that an error is about, if the entry has one."""
    if len(place) < 2 or place[0] != "columns" or not isinstance(place[1], int):
        return None
    entry = content["columns"][place[1]]
    return str(entry["name"]) if isinstance(entry, Mapping) and "name" in entry else None


def _from_csv(text: str) -> dict[str, Any]:
    text = text.removeprefix("\ufeff")
    head = text.partition("\n")[0]
    separator = ";" if ";" in head and "," not in head else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="", delimiter=separator)
    found = []
    for row in rows:
        if "" in row:
            raise csv.Error(f"line {rows.line_num} has more fields than the header")
        found.append(dict(_fields(row)))
    return {"columns": found}


def _fields(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a line that are not empty."""
    for name, value in row.items():
        if value:
            yield name, [part.strip() for part in value.split("|")] if name in _LISTS else value.strip()


def _texts(value: Any) -> Any:
    """Return the content of a TOML file as a CSV file has it: every number and every date as text."""
    if isinstance(value, dict):
        return {name: _texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return str(value)


def draft_from_dictionary(
    dictionary: Dictionary,
    label: str | Sequence[str],
    exclude: Collection[str] = (),
    *,
    missing: Sequence[str] = (),
    task: Task = "classes",
    event: DraftedEvent | None = None,
) -> DraftedSchema:
    """Return the ``table_schema`` part of the terms for tables of which only a dictionary is known.

    Parameters
    ----------
    label, exclude, missing, task, event
        As for `draft.draft_schema`.

    Raises
    ------
    InputError, TableError
        If a column is not in the dictionary, or its entry does not have what is needed.
    """
    entries = {entry.name: entry for entry in dictionary.columns}
    labels = labels_of(label, task)
    of_label = (*labels, event.column) if event else labels
    for name in (*of_label, *exclude):
        if name not in entries:
            raise MissingColumnError(name, list(entries))
    columns = [entry for name, entry in entries.items() if name not in (*of_label, *exclude)]
    if not columns:
        raise InputError("no column is left to predict from")
    content = {
        "missing": list(dict.fromkeys((*MISSING_TEXTS, *dictionary.missing, *missing))),
        "label_column": _label(entries, labels, task, event),
        "columns": [entry.content() for entry in columns],
    }
    return DraftedSchema(content, [*_remarks(columns)])


def _label(
    entries: Mapping[str, Entry], labels: Sequence[str], task: Task, event: DraftedEvent | None
) -> dict[str, Any]:
    """Return the label block; raises `InputError` if the dictionary does not have what it needs."""
    if task == "multilabel":
        return {"kind": "multilabel", "labels": [_one_of_several(entries, name) for name in labels]}
    (label,) = labels
    entry = entries[label]
    if task == "classes":
        if not isinstance(entry, _Levels):
            raise InputError(f"column '{label}' is no category in the dictionary, and classes are its levels")
        return {"name": label, "classes": list(entry.levels)}
    if not isinstance(entry, NumberEntry) or entry.low is None or entry.high is None:
        raise InputError(f"column '{label}' needs to be a number with low and high in the dictionary")
    if event is None:
        return {"kind": "number", "name": label, "low": entry.low, "high": entry.high}
    end = entries[event.column]
    if not isinstance(end, _Levels) or len(end.levels) != 2 or event.seen not in end.levels:
        raise InputError(
            f"column '{event.column}' needs to be a category of two levels in the dictionary, and one of them"
            " has to stand for the event"
        )
    if not event.times:
        raise InputError("a dictionary has no events to take times from: give each time with --time")
    (censored,) = set(end.levels) - {event.seen}
    ends = {"event": event.column, "seen": event.seen, "censored": censored}
    times = sorted({float(time) for time in event.times})
    return {"kind": "survival", "name": label, **ends, "horizon": entry.high, "times": times}


def _one_of_several(entries: Mapping[str, Entry], name: str) -> dict[str, str]:
    """Return one of several labels; a row with the second level has it."""
    entry = entries[name]
    if not isinstance(entry, _Levels) or len(entry.levels) != 2:
        raise InputError(
            f"column '{name}' needs to be a category of two levels in the dictionary: that of a row without"
            " the label, and that of a row with it"
        )
    return {"name": name, "absent": entry.levels[0], "present": entry.levels[1]}


def _remarks(columns: Sequence[Entry]) -> Iterator[str]:
    """Yield what a person should look at, one sentence each."""
    yield (
        "every column: a dictionary has no rows in which to find codes that mean not known, and columns that"
        " are known only after the outcome"
    )
    for entry in columns:
        if isinstance(entry, _Levels) and not entry.shares:
            yield f"{entry.name}: the dictionary has no shares, so that its levels count as equally frequent"
        if isinstance(entry, DateEntry) and entry.since is None:
            yield (
                f"{entry.name}: who knows a date from elsewhere can recognise the row by it; the days since"
                " another date (`since` in the dictionary) say less"
            )
