"""Rows of a table that do not fit the terms: the others are predicted, and these are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from user_client.errors import FieldError

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
        """Note the rows of an error, which are numbered as in the whole table."""
        self.by_column.setdefault(error.column, []).extend(error.rows.tolist())
        self.first = self.first or error

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each column has noted."""
        return {name: len(rows) for name, rows in self.by_column.items()}

    @property
    def in_words(self) -> str:
        """Which rows these are, by column; never what is in them."""
        return "; ".join(f"column '{name}' in {_listed(rows)}" for name, rows in self.by_column.items())


def _listed(rows: list[int]) -> str:
    named = ", ".join(map(str, rows[:_NAMED_ROWS]))
    return f"{len(rows):,} (row {named}{', ...' if len(rows) > _NAMED_ROWS else ''})"


def predict_fitting(
    part: pa.Table, predict: Callable[[pa.Table], dict[str, pa.Array]], note: Callable[[FieldError], None]
) -> dict[str, pa.Array]:
    """Return the predictions for a part of a table, empty for the rows that do not fit.

    Parameters
    ----------
    predict : callable
        Returns the columns for some rows; raises `FieldError` if one does not fit.
    note : callable
        Takes each error, whose rows are numbered as in the part.
    """
    numbers = np.arange(part.num_rows)
    while True:
        try:
            found = predict(part if len(numbers) == part.num_rows else part.take(numbers))
            break
        except FieldError as error:
            note(error.in_rows(numbers + 1))
            numbers = np.delete(numbers, error.rows - 1)
    if len(numbers) == part.num_rows:
        return found
    places = np.full(part.num_rows, -1)
    places[numbers] = np.arange(len(numbers))
    return {name: column.take(pa.array(places, mask=places < 0)) for name, column in found.items()}
