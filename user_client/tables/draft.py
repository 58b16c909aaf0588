"""A first draft of the schema, derived from one table, for people to discuss and correct.

Numbers are mapped to their rank among quantiles of the table, which survives heavy tails, or linearly from a
range of quantiles. Quantiles are rounded, and the outermost are not the extremes, so that they fit other
institutions too and reveal no single row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from protocol.errors import InputError
from protocol.labels import Task
from protocol.table_schema import DateFormat
from user_client.errors import MissingColumnError
from user_client.tables.dates import dates_in, is_temporal
from user_client.tables.draft_categorical import with_types
from user_client.tables.draft_column import FEW_QUANTILES, QUANTILES, ColumnDrafting, DraftedColumn, Encoding
from user_client.tables.draft_label import (
    DraftedEvent,
    DraftedLabel,
    classes_label,
    labels_of,
    number_label,
    several_labels,
    survival_label,
)
from user_client.tables.fields import NUMBER, Matrix64, as_text, column_of, is_empty, number_of, readable
from user_client.tables.figures import distinct, is_number
from user_client.tables.remarks import remarks_on, remarks_on_dates

MISSING_TEXTS: Final = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
WIDE: Final = 8000
"""A table of more columns has `FEW_QUANTILES` in each."""


@dataclass(frozen=True)
class DraftedSchema:
    """The ``table_schema`` part of the terms, and what a person should look at before proposing it."""

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def draft_schema(
    table: pa.Table,
    label: str | Sequence[str],
    exclude: Collection[str] = (),
    *,
    encoding: Encoding = "ranks",
    categories: Collection[str] = (),
    dates: Mapping[str, DateFormat] | None = None,
    durations: Mapping[str, str] | None = None,
    ordinals: Mapping[str, Sequence[str]] | None = None,
    others: Collection[str] = (),
    imputes: Mapping[str, str] | None = None,
    logarithms: Collection[str] = (),
    classes: Collection[str] = (),
    missing: Sequence[str] = (),
    missing_in: Mapping[str, Sequence[str]] | None = None,
    task: Task = "classes",
    label_range: tuple[float, float] | None = None,
    event: DraftedEvent | None = None,
) -> DraftedSchema:
    """Return the ``table_schema`` part of the terms for ``table``.

    Parameters
    ----------
    label : str or sequence of str
        The column to predict; of the task multilabel several.
    exclude : collection of str
        Columns to leave out. A column that has the same value everywhere is left out too, with a remark.
    encoding : {"ranks", "ranges", "plain"}
        Numbers become ranks among quantiles, or are mapped linearly from a range of quantiles; both are
        centred, and so are the levels of a category. "plain" is the uncentred form of the papers.
    categories : collection of str
        Columns of numbers that are names of categories.
    dates : mapping of str to DateFormat, optional
        How the dates of a column are written. It is found out where all texts of a column are dates, but not
        for ``yyyymmdd``, ``ddmmyyyy`` and ``mmddyyyy``, which look like numbers.
    durations : mapping of str to str, optional
        Columns of dates that become days since the date in another column.
    ordinals : mapping of str to sequence of str, optional
        The levels of columns whose levels have an order, the lowest first.
    others : collection of str
        Columns of which one level takes all rare texts, and all that are not in the table. A column with more
        than `MAX_DRAFT_LEVELS` texts is drafted so if it can be.
    imputes : mapping of str to str, optional
        What an empty field of a column counts as, as it would stand there; for a duration, a number of days.
    logarithms : collection of str
        Columns of numbers that are mapped as their logarithms. A number that is not above 0 counts as the
        lowest of the range.
    classes : collection of str
        Classes of the label that only other institutions have.
    missing : sequence of str
        Further texts that stand for an empty field.
    missing_in : mapping of str to sequence of str, optional
        Texts that stand for an empty field in one column alone.
    task : {"classes", "number", "survival", "multilabel"}
        What the label is.
    label_range : tuple of float, optional
        Between which the numbers of the label lie at every institution; by default those of the table, with
        half of their range more on either side, but no number below 0 if the table has none.
    event : DraftedEvent, optional
        Of survival, where ``label`` is the column of times.

    Raises
    ------
    TableError, InputError
        If the label column is missing, or a column cannot be used.
    """
    dates, durations, ordinals, missing_in = dates or {}, durations or {}, ordinals or {}, missing_in or {}
    imputes = imputes or {}
    for name in table.column_names:
        column_of(table, name)  # refuses one that is there twice
    labels = labels_of(label, task)
    of_label = (*labels, event.column) if event else labels
    of_columns = [*categories, *dates, *ordinals, *others, *missing_in, *imputes, *logarithms]
    _check_named(table, [*of_label, *exclude, *of_columns], durations)
    _check_missing_in(missing_in, of_label, encoding)
    for name in {*imputes, *logarithms} & {*of_label, *exclude}:
        raise InputError(f"column '{name}' is no feature: --impute and --logarithm are for columns that are")
    texts = tuple(dict.fromkeys((*MISSING_TEXTS, *missing)))
    drafted = _drafted_label(table, labels, texts, task, classes, label_range, event)
    names = [name for name in table.column_names if name not in (*of_label, *exclude)]
    told = [*categories, *dates, *durations, *ordinals, *logarithms]
    categories, ordinals, of_types = with_types(table, names, told, categories, ordinals, texts)
    quantiles = QUANTILES if len(names) <= WIDE else FEW_QUANTILES
    drafting = ColumnDrafting(
        encoding,
        quantiles,
        texts,
        missing_in,
        categories,
        dates,
        durations,
        ordinals,
        others,
        imputes,
        logarithms,
        drafted.all_groups,
        drafted.count,
    )
    columns: dict[str, DraftedColumn | None] = {}
    for name in names:
        with readable(name, f"leave it out with --exclude {quote(name)}"):
            columns[name] = drafting.column(table, name)
    remarks = [
        *drafted.remarks,
        *of_types,
        *_unused(table, missing, missing_in),
        *_remarks(table, columns, drafted, texts),
    ]
    content = [column.content for column in columns.values() if column is not None]
    _check_logarithms(content, logarithms)
    if not content:
        raise InputError("no column is left to predict from")
    return DraftedSchema(
        {"missing": list(texts), "label_column": drafted.content, "columns": content}, remarks
    )


def _drafted_label(
    table: pa.Table,
    labels: Sequence[str],
    texts: Sequence[str],
    task: Task,
    classes: Collection[str],
    label_range: tuple[float, float] | None,
    event: DraftedEvent | None,
) -> DraftedLabel:
    if task == "multilabel":
        return several_labels(table, labels, texts)
    if event is not None:
        return survival_label(table, labels[0], texts, event)
    if task == "number":
        return number_label(table, labels[0], texts, label_range)
    return classes_label(table, labels[0], texts, classes)


def _check_logarithms(content: Iterable[Mapping[str, Any]], logarithms: Collection[str]) -> None:
    for column in content:
        if column["name"] in logarithms and "scale" not in column:
            raise InputError(
                f"column '{column['name']}' holds no numbers: --logarithm needs them, or a --duration"
            )


def _check_named(table: pa.Table, names: Iterable[str], durations: Mapping[str, str]) -> None:
    """Raise an error if a column that a person names is not in the table, or is a duration since itself."""
    for name in (*names, *durations, *durations.values()):
        if name not in table.column_names:
            raise MissingColumnError(name, table.column_names)
    for name, since in durations.items():
        if name == since:
            raise InputError(f"column '{name}' cannot be a duration since itself")


def _check_missing_in(
    missing_in: Mapping[str, Sequence[str]], of_label: Iterable[str], encoding: str
) -> None:
    """Raise `InputError` if the terms cannot say what a person says of the empty fields of one column."""
    if missing_in and encoding == "plain":
        raise InputError("columns of the encoding plain have no texts of their own for an empty field")
    for name in missing_in.keys() & set(of_label):
        raise InputError(
            f"column '{name}' belongs to the label, which has no texts of its own for an empty field:"
            " --missing names one for all columns"
        )


def _why_left_out(name: str, values: pa.ChunkedArray, missing: Sequence[str]) -> str:
    known = distinct(values, missing)
    if len(known) != 1 or not is_empty(as_text(values), missing).any():
        return (
            f"{name}: has the same value everywhere, so it is left out; if it differs at other institutions,"
            " draft from the table of one where it does, or from a dictionary"
        )
    said = f"{name}: has the same value wherever it is not empty, so it is left out"
    if is_temporal(values) or dates_in(known) or known == ["0"]:
        return said
    meant = "0" if is_number(known[0]) else "no"
    return f"{said}; if an empty field means something, draft again with --impute {quote(f'{name}={meant}')}"


def _unused(
    table: pa.Table, missing: Sequence[str], missing_in: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield a remark for each text that a person has named for empty fields and that no field has."""
    for text in missing:
        if not any(_stands_in(table.column(name), text) for name in table.column_names):
            yield f"--missing {text}: no field of this table is {text}, as the file was read"
    for name, texts in missing_in.items():
        for text in texts:
            if not _stands_in(table.column(name), text):
                yield f"{name}: --missing-in {name}={text} is in no row, as the file was read"


def _stands_in(values: pa.ChunkedArray, text: str) -> bool:
    """Return whether a field of a column is empty because of a text."""
    with suppress(pa.ArrowException, UnicodeDecodeError):  # a column of something else, which may be left out
        written = as_text(values).drop_null()
        if is_empty(written, [text]).any():
            return True
        number = number_of(text)
        if math.isfinite(number):
            numbers = written.filter(pc.match_substring_regex(written, f"^({NUMBER.pattern})$"))
            return bool(pc.any(pc.equal(pc.cast(numbers, pa.float64()), number)).as_py())
    return False


def _remarks(
    table: pa.Table,
    columns: Mapping[str, DraftedColumn | None],
    label: DraftedLabel,
    missing: Sequence[str],
) -> Iterator[str]:
    """Yield what a person should look at in the columns, one sentence each."""
    days: dict[str, Matrix64] = {}
    for name, column in columns.items():
        if column is None:
            yield _why_left_out(name, table.column(name), missing)
            continue
        yield from column.remarks
        yield from remarks_on(name, table.column(name), column, label.groups, label.count)
        if column.numbers is not None and "dates" in column.content and "since" not in column.content:
            days[name] = column.numbers
    yield from remarks_on_dates(days, label.groups, label.count)
