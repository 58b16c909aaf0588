"""The columns of a table that the terms do not use: which there are, and which predict the label alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.table_schema import Schema
from user_client.secret.bands import LEAST_MORE, SURE, Told, told_by
from user_client.secret.expansion import Matrix64
from user_client.tables.unused import unused_columns, used_columns

LEAK: Final = 0.8
"""R squared of a single column from which on it is hardly known before the outcome."""
_NAMED: Final = 20


@dataclass(frozen=True)
class Unused:
    """What a table has, and the terms do not use.

    Attributes
    ----------
    columns : tuple of str
        The columns that the terms do not use.
    telling : mapping of str to Told
        Those of them that predict the label by themselves.
    """

    columns: tuple[str, ...] = ()
    telling: Mapping[str, Told] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """Return a sentence on each column that predicts the label, for people."""
        return [_in_words(name, told) for name, told in self.telling.items()]

    def notes(self) -> list[str]:
        """Return which columns are not used, for people."""
        if not self.columns:
            return []
        named = ", ".join(self.columns[:_NAMED]) + (", ..." if len(self.columns) > _NAMED else "")
        columns = "1 column" if len(self.columns) == 1 else f"{len(self.columns):,} columns"
        return [f"{columns} of the table, which the terms do not use: {named}"]


def unused_in(
    data: Any,
    schema: Schema,
    targets: Matrix64 | None,
    rows: NDArray[np.int64],
    *,
    row_key: str | None = None,
) -> Unused:
    """Return what a table has beside what the terms read of it.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    targets : (s, k) ndarray of float64, optional
        Of some rows of the table; None if the labels can tell nothing.
    rows : (s,) ndarray of int
        Which rows these are, ascending.
    row_key : str, optional
        The column that names a row, where rows are joined.
    """
    used = {*used_columns(schema), *([row_key] if row_key else [])}
    names, numbers = unused_columns(data, used, rows, schema.missing)
    telling = {}
    for name, values in numbers.items():
        told = None if targets is None else told_by(values, targets)
        if told is not None and told.in_bands > LEAST_MORE and told.errors_told > SURE:
            telling[name] = told
    return Unused(tuple(names), telling)


def _in_words(name: str, told: Told) -> str:
    if told.in_bands > LEAK:
        return (
            f"column '{name}', which the terms do not use, predicts the label nearly alone (R squared"
            f" {told.in_bands:.2f}): it is likely a leak, recorded with the outcome or after it, and rightly"
            " left out"
        )
    return (
        f"column '{name}', which the terms do not use, predicts the label by itself (R squared"
        f" {told.in_bands:.2f}): if it is known before the outcome, ask the lead for terms with it, drafted"
        " from a table or a dictionary in which it varies, and ask the others whether they have it"
    )
