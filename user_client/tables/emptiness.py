"""Whether an empty field goes with the label: by chance, or because the field is filled for a reason.

A laboratory value that is ordered for those who are ill tells by its absence alone, and an empty field counts
as the centre, which says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.labels import Task
from protocol.table_schema import Schema
from user_client.tables.fields import Mask, as_text, column_of, is_empty

FEWEST: Final = 10
"""Empty fields, and rows of a group, below which nothing is said."""
BY_CHANCE: Final = 5.7e-7
"""Chance below which emptiness goes with the label: that of five standard errors, on either side."""
_NEGLIGIBLE: Final = 1e-12


def are_wholly_empty(table: pa.Table, schema: Schema) -> Mask:
    """Return which rows have no filled field in any column of the schema, (n,)."""
    left = np.arange(table.num_rows)
    for column in schema.columns:
        if not len(left):
            break
        values = column_of(table, column.name)
        some = values if len(left) == table.num_rows else values.take(pa.array(left))
        left = left[is_empty(as_text(some), schema.missing_in(column))]
    found = np.zeros(table.num_rows, np.bool_)
    found[left] = True
    return found


def goes_with(empty_marked: int, marked: int, empty: int, rows: int) -> bool:
    """Return whether chance alone hardly puts so many empty fields, or so few, into the marked rows.

    Fisher's exact test: of ``rows`` rows ``marked`` are marked and ``empty`` have an empty field; without a
    connection, those that are both have a hypergeometric distribution.
    """
    if min(empty, rows - empty, marked, rows - marked) < FEWEST:
        return False
    return 2 * _tail(empty_marked, marked, empty, rows) < BY_CHANCE


def _tail(both: int, marked: int, empty: int, rows: int) -> float:
    """Return the chance of so many rows that are both, or of any number farther from what is expected."""
    away = 1 if both * rows >= marked * empty else -1
    term, total = 1.0, 1.0
    count = both
    while True:  # each term from the one before it
        if away > 0:
            top, bottom = (
                (marked - count) * (empty - count),
                (count + 1) * (rows - marked - empty + count + 1),
            )
        else:
            top, bottom = count * (rows - marked - empty + count), (marked - count + 1) * (empty - count + 1)
        if top <= 0:
            break
        term *= top / bottom
        total += term
        count += away
        if term < _NEGLIGIBLE * total:
            break
    return total * math.exp(_log_chance(both, marked, empty, rows))


def _log_chance(both: int, marked: int, empty: int, rows: int) -> float:
    return _log_ways(marked, both) + _log_ways(rows - marked, empty - both) - _log_ways(rows, empty)


def _log_ways(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def tells(empty: Mask, groups: Sequence[NDArray[Any]], classes: int) -> bool:
    """Return whether the empty fields of a column go with the label.

    Parameters
    ----------
    empty : (n,) ndarray of bool
    groups : sequence of (n,) ndarray
        Class numbers of each label; NaN for a row without one.
    classes : int
        How many there are.
    """
    if empty.sum() < FEWEST:
        return False
    for told in groups:
        known = np.isfinite(told)
        found, there = told[known], empty[known]
        for index in range(classes if classes > 2 else 1):
            of_class = found == index
            both = int((there & of_class).sum())
            if goes_with(both, int(of_class.sum()), int(there.sum()), len(there)):
                return True
    return False


def marked_rows(labels: NDArray[Any], task: Task) -> list[Mask]:
    """Return the rows of each class or label, of the larger numbers, or with the event.

    Parameters
    ----------
    labels : (n,) ndarray
        As on the wire.
    """
    if task == "survival":
        return [labels > 0]
    if task == "number":
        return [labels > np.median(labels)] if len(labels) else []
    if task == "multilabel":
        found = [(labels >> bit & 1).astype(np.bool_) for bit in range(8 * labels.dtype.itemsize)]
        return [one for one in found if one.any()]
    classes = np.unique(labels)
    return [labels == each for each in (classes if len(classes) > 2 else classes[:1])]
