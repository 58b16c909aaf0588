"""Everything in a table that does not fit the terms, with how many rows have it and what to do about it.

It names columns and rows, and never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.labels import MultiLabel
from protocol.table_schema import CENTRED_COLUMNS, Column, LevelsColumn, OrdinalColumn, Schema
from runtime.names import near_name
from user_client.errors import (
    EmptyFieldError,
    FieldError,
    MissingColumnError,
    NotADateError,
    NotANumberError,
    TableError,
    UnknownLevelError,
)
from user_client.tables.dates import dates_in
from user_client.tables.dirty import limits_in_words
from user_client.tables.encode import encode_labels, encode_rows
from user_client.tables.fields import as_text, column_of
from user_client.tables.read import parts_of

_DROP_OR_FILL: Final = "fill in the fields or drop the rows"
_MISSING: Final = "correct the fields, or add the text that stands for an empty field to missing in the terms"
_Encoder = Callable[[pa.Table], object]


@dataclass
class Misfit:
    """One way in which a column does not fit the terms.

    Attributes
    ----------
    code : str
        That of the error which an encoding of the table ends with.
    rows : int
        How many rows have it; 0 if it is of the whole column.
    first_row : int
        Counted from 1, as people count below the header; 0 if it is of the whole column.
    what : str
        What was expected.
    fix : str
        What to do: a change of the table, or a line of the terms.
    """

    column: str
    code: str
    rows: int
    first_row: int
    what: str
    fix: str

    @property
    def detail(self) -> str:
        """What a person reads."""
        if not self.rows:
            return self.what
        where = f"data row {self.first_row}"
        if self.rows > 1:
            where = f"{self.rows:,} data rows, the first is {self.first_row:,}"
        return f"column '{self.column}', {where}: {self.what}"

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "code": self.code,
            "rows": self.rows,
            "first_row": self.first_row,
            "detail": self.detail,
            "fix": self.fix,
        }


def find_misfits(data: Any, schema: Schema, *, needs_labels: bool = True) -> tuple[list[Misfit], int]:
    """Return what does not fit, by columns, those of the label last, and how many rows there are.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    needs_labels : bool
        Whether the labels have to fit as well.
    """
    of_labels = _label_encoders(schema) if needs_labels else {}
    columns: list[Column | None] = [*schema.columns, *[None] * len(of_labels)]  # None is a label
    names = [*(column.name for column in schema.columns), *of_labels]
    encoders = [*(_encoder(schema, column) for column in schema.columns), *of_labels.values()]
    found: list[dict[str, Misfit]] = [{} for _ in columns]
    rows_before = 0
    for part in parts_of(data):
        for column, name, encode, of_column in zip(columns, names, encoders, found, strict=True):
            for error, rows in _errors(part, encode):
                if error.code in of_column:
                    of_column[error.code].rows += len(rows)
                else:
                    of_column[error.code] = _misfit(
                        name, error, rows + rows_before, _fix(error, column, part, rows)
                    )
        rows_before += part.num_rows
    return [misfit for of_column in found for misfit in of_column.values()], rows_before


def _label_encoders(schema: Schema) -> dict[str, _Encoder]:
    """Return what encodes the label; of several one for each."""
    label = schema.label_column
    if not isinstance(label, MultiLabel):
        return {label.name: lambda table: encode_labels(table, schema)}

    def of(alone: Schema) -> _Encoder:
        return lambda table: encode_labels(table, alone)

    return {
        one.name: of(schema.model_copy(update={"label_column": label.model_copy(update={"labels": (one,)})}))
        for one in label.labels
    }


def _encoder(schema: Schema, column: Column) -> _Encoder:
    alone = schema.model_copy(update={"columns": (column,)})
    return lambda table: encode_rows(table, alone)


def _errors(table: pa.Table, encode: _Encoder) -> Iterator[tuple[TableError, NDArray[np.int64]]]:
    """Yield each error of one column, and the numbers of the rows that have it.

    Whatever the rows of one error hide is found once these rows are left out.
    """
    numbers = np.arange(1, table.num_rows + 1)
    while True:
        try:
            encode(table)
        except FieldError as error:
            yield error, numbers[error.rows - 1]
            others = np.ones(len(numbers), dtype=np.bool_)
            others[error.rows - 1] = False
            numbers, table = numbers[others], table.filter(pa.array(others))
        except TableError as error:
            yield error, numbers[:0]
            return
        else:
            return


def _misfit(name: str, error: TableError, rows: NDArray[np.int64], fix: str) -> Misfit:
    if isinstance(error, FieldError):
        return Misfit(error.column, error.code, len(rows), int(rows[0]), error.what, fix)
    return Misfit(name, error.code, 0, 0, error.detail, fix)


def _fix(error: TableError, column: Column | None, table: pa.Table, rows: NDArray[np.int64]) -> str:
    """Return what to do about an error that some rows have in a column, or in the label if it is None."""
    if isinstance(error, MissingColumnError):
        if (there := near_name(error.column, table.column_names)) is not None:
            return f"if the table's column '{there}' is meant, rename it to '{error.column}'"
        if column is None:
            return "add the column to the table: it is the label"
        return f"add the column to the table, or leave '{error.column}' out of the terms"
    if isinstance(error, EmptyFieldError):
        if column is None:
            return f"{_DROP_OR_FILL}: a row without a label cannot train"
        return f"{_DROP_OR_FILL}, or write {filling_line(column)} to this column in the terms"
    if isinstance(error, NotADateError) and (written := " or ".join(dates_in(_texts(error, table, rows)))):
        return f"they are dates written as {written}: write them as the terms say, or the terms as the table"
    if isinstance(error, NotANumberError) and (of_limits := limits_in_words(_texts(error, table, rows))):
        return f"{of_limits}; else {_MISSING}"
    if isinstance(error, NotANumberError | NotADateError):
        return _MISSING
    if isinstance(error, UnknownLevelError):
        return _fix_of_levels(error, column, _texts(error, table, rows), of_all=len(rows) == table.num_rows)
    return error.hint


def _fix_of_levels(
    error: UnknownLevelError, column: Column | None, texts: Sequence[str], *, of_all: bool
) -> str:
    """Return what to do about texts that are no level; where all are none, another level is no help."""
    if {text.casefold() for text in texts} <= {level.casefold() for level in error.levels}:
        return "they differ from the levels in capitals alone: write them as the terms do"
    if column is None and of_all:
        return f"none of this column is a class of the label: write them as {' and '.join(error.levels)}"
    if column is None:
        return "correct the fields, or add them to the classes of the label in the terms"
    if of_all:
        return f"look at how they are written: none of this column is a level. Or {_added(column)}"
    if isinstance(column, LevelsColumn):
        return (
            f"correct the fields, or {_added(column)}; a draft with --other"
            f" {quote(column.name)} has a level for all others"
        )
    return f"correct the fields, or {_added(column)}"


def _added(column: Column) -> str:
    """Return how levels are added to a column of the terms, with all else that then has to be as many."""
    words = "add them to levels in this column of the terms"
    if isinstance(column, OrdinalColumn):  # one feature, however many levels
        return words
    if isinstance(column, LevelsColumn):
        words += ", and a number for each to shares (0 will do)"
    return (
        f"{words}; each is one more feature, so anchor.rows may need one more for each too, and under sums"
        " latent_dim does"
    )


def _texts(error: FieldError, table: pa.Table, rows: NDArray[np.int64]) -> list[str]:
    """Return the different texts that a column has in some rows."""
    there = as_text(column_of(table, error.column)).take(pa.array(rows - 1))
    return [text for text in pc.unique(there).to_pylist() if text is not None]


def filling_line(column: Column) -> str:
    """Return the line of the terms by which a column may have empty fields."""
    return 'empty = "centre"' if isinstance(column, CENTRED_COLUMNS) else "impute = VALUE"
