"""Columns of numbers in which some fields are none: found before a draft takes them for categories.

Errors name the rows, never a value. Rows are counted from 1, as people count below the header.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from shlex import quote
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from user_client.errors import TableError
from user_client.tables.fields import as_text, is_empty
from user_client.tables.figures import is_number

FEW: Final = 10
"""No more different numbers than this may be names of categories, beside texts that are none."""
_NAMED_ROWS: Final = 5
_LIMIT: Final = re.compile(r"\s*[<>\u2264\u2265]=?\s*[0-9][0-9.,]*\s*")
_DECIMAL_COMMA: Final = re.compile(r"-?[0-9]{1,3}(\.?[0-9]{3})*,[0-9]+")


def refuse_nearly_numbers(
    name: str, values: pa.ChunkedArray, levels: Sequence[str], missing: Collection[str]
) -> None:
    """Raise `TableError` for a column most of whose fields are numbers, or would be with decimal points.

    Parameters
    ----------
    levels : sequence of str
        The distinct texts of the column that do not stand for an empty field.
    """
    if sum(is_number(level) or _DECIMAL_COMMA.fullmatch(level) is not None for level in levels) <= FEW:
        return
    text = as_text(values)
    is_filled = ~is_empty(text, list(missing))
    written = [each for each in pc.unique(text).to_pylist() if each is not None]
    commas = [each for each in written if _DECIMAL_COMMA.fullmatch(each)]
    numbers = [each for each in written if is_number(each)]
    is_comma, is_plain = (
        np.array(pc.is_in(text, pa.array(some, pa.string()))) & is_filled for some in (commas, numbers)
    )
    if 2 * int((is_comma | is_plain).sum()) < int(is_filled.sum()):
        return
    if is_comma.any():
        error = TableError(f"column '{name}' has decimal commas, in {_rows(is_comma)}")
        error.hint = "save the table with decimal points; of a CSV file, --csv decimal-comma reads them"
        raise error
    error = TableError(
        f"column '{name}' holds numbers in {int(is_plain.sum()):,} rows and other texts in"
        f" {_rows(is_filled & ~is_plain)}"
    )
    of_limits = limits_in_words(written)
    error.hint = (
        f"{f'{of_limits}; else ' if of_limits else ''}correct these fields; a text that stands for an empty"
        f" field is named with --missing TEXT, and --category {quote(name)} takes all for names of categories"
    )
    raise error


def _rows(mask: np.ndarray) -> str:
    """Return how many rows a mask has, and the numbers of the first ones."""
    rows = np.flatnonzero(mask) + 1
    first = ", ".join(map(str, rows[:_NAMED_ROWS]))
    return f"{len(rows):,} (data row {first}{', ...' if len(rows) > _NAMED_ROWS else ''})"


def limits_in_words(texts: Iterable[str]) -> str:
    """Return what to do about fields such as a sign, < or >, and the limit of a measurement; "" without."""
    if not any(_LIMIT.fullmatch(text) for text in texts):
        return ""
    return (
        "a sign and a number, as of what is below the limit of a measurement, needs a number instead: agree"
        " on one with the other institutions, such as the limit or half of it"
    )
