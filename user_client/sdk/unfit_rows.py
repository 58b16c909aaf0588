"""Rows of a table that do not fit the terms: the others are predicted, and these are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.table_schema import Schema
from user_client.errors import FieldError
from user_client.tables import encode_rows

_NAMED_ROWS: Final = 5


@dataclass
class UnfitRows:
    """Notes rows that have no prediction, because a field of theirs does not fit the terms.

    Attributes
    ----------
    by_column : dict of str to list of int
        The numbers of the rows in the whole table, by the column with such a field. A row with several is
        noted once.
    first : FieldError, optional
        Why the first of them has none.
    """

    by_column: dict[str, list[int]] = field(default_factory=dict)
    first: FieldError | None = None

    def __len__(self) -> int:
        """Return how many rows have no prediction."""
        return sum(self.counts.values())

    def note(self, error: FieldError) -> None:
        """Note the rows of an error, which are numbered as in the whole table; none may be noted before."""
        self.by_column.setdefault(error.column, []).extend(error.rows.tolist())
        self.first = self.first or error

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each column has noted."""
        return {name: len(rows) for name, rows in self.by_column.items()}

    @property
    def in_words(self) -> str:
        """Which rows these are, by column; never what is in them."""
        return "; ".join(f"column '{name}' in {listed(rows)}" for name, rows in self.by_column.items())


def listed(rows: Sequence[int]) -> str:
    """Return how many rows these are, and the numbers of the first ones."""
    named = ", ".join(map(str, rows[:_NAMED_ROWS]))
    return f"{len(rows):,} (data row {named}{', ...' if len(rows) > _NAMED_ROWS else ''})"


def predict_fitting(
    part: pa.Table,
    schema: Schema,
    predict: Callable[[pa.Table], dict[str, pa.Array]],
    note: Callable[[FieldError], None],
) -> dict[str, pa.Array]:
    """Return the predictions for a part of a table, empty for the rows that do not fit.

    Parameters
    ----------
    predict : callable
        Returns the columns for some rows; raises `FieldError` if one does not fit.
    note : callable
        Takes each error, whose rows are numbered as in the part.
    """
    try:
        return predict(part)
    except FieldError:
        places = fitting_places(part, schema, note)
    found = predict(part.take(places))
    behind = np.full(part.num_rows, -1)
    behind[places] = np.arange(len(places))
    return {name: column.take(pa.array(behind, mask=behind < 0)) for name, column in found.items()}


def fitting_places(table: pa.Table, schema: Schema, note: Callable[[FieldError], None]) -> NDArray[np.int64]:
    """Return the places of the rows whose fields fit the schema, counted from 0.

    The columns are read one by one: if many have such a field, the whole table would be read for each.

    Parameters
    ----------
    note : callable
        Takes each error, whose rows are numbered as in the table; a row with several is in the first alone.
    """
    places = np.arange(table.num_rows)
    for column in schema.columns:
        alone = schema.model_copy(update={"columns": (column,)})
        needed = {column.name, *alone.origins}
        fields = table.select([place for place, name in enumerate(table.column_names) if name in needed])
        while True:
            try:
                encode_rows(fields if len(places) == fields.num_rows else fields.take(places), alone)
                break
            except FieldError as error:
                note(error.in_rows(places + 1))
                places = np.delete(places, error.rows - 1)
    return places
