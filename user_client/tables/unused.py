"""The columns of a table that the terms do not use, as numbers for some of its rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.table_schema import Schema
from user_client.tables.draft import MISSING_TEXTS
from user_client.tables.fields import Matrix64, as_numbers, as_text, is_empty
from user_client.tables.read import parts_of

MOST_READ: Final = 200
"""So many columns are read; of a wider table the first ones."""


def used_columns(schema: Schema) -> set[str]:
    """Return the columns of a table that terms read."""
    origins = {since for column in schema.columns if (since := getattr(column, "since", None)) is not None}
    return {*(column.name for column in schema.columns), *origins, *schema.label_column.columns}


def unused_columns(
    data: Any, used: Collection[str], rows: NDArray[np.int64], missing: Collection[str]
) -> tuple[list[str], dict[str, Matrix64]]:
    """Return the names of all columns that the terms do not use, and the numbers of the first `MOST_READ`.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
    rows : (s,) ndarray of int
        The rows to take, ascending.
    missing : collection of str
        Texts that stand for an empty field, beside the usual ones.

    Returns
    -------
    names : list of str
    numbers : dict of str to (s,) ndarray of float64
        A text has the number of its place among the texts in order, and an empty field one below all others.
    """
    texts = list(dict.fromkeys((*MISSING_TEXTS, *missing)))
    names: list[str] = []
    taken: dict[str, list[pa.ChunkedArray]] = {}
    start = 0
    for part in parts_of(data):
        if not names:
            names = [name for name in dict.fromkeys(part.column_names) if name not in used]
            once = [name for name in names if part.column_names.count(name) == 1]
            taken = {name: [] for name in once[:MOST_READ]}
            if not names:
                break
        here = pa.array(rows[(rows >= start) & (rows < start + part.num_rows)] - start)
        for name, pieces in taken.items():
            pieces.append(part.column(name).take(here))
        start += part.num_rows
    return names, {
        name: numbers for name, pieces in taken.items() if (numbers := _numbers(pieces, texts)) is not None
    }


def _numbers(pieces: list[pa.ChunkedArray], missing: list[str]) -> Matrix64 | None:
    """Return a column as numbers; None if it cannot be read."""
    try:
        text = pa.chunked_array([chunk for piece in pieces for chunk in as_text(piece).chunks], pa.string())
        numbers, empty = as_numbers(text, missing)
    except (pa.ArrowException, UnicodeDecodeError):  # lists, or bytes that are no text
        return None
    if not np.isfinite(numbers[~empty]).all():
        empty = is_empty(text, missing)
        # a place for each text, in order; as an array of numpy each would take as much as the longest
        numbers = np.asarray(pc.rank(text.fill_null(""), tiebreaker="dense"), dtype=np.float64)
    known = numbers[~empty]
    return np.where(empty, known.min() - 1 if len(known) else 0.0, numbers)
