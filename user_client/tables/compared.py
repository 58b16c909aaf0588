"""How the columns of a table lie against the figures of the terms, for what encodes without an error.

Another unit, or another scale, may stay inside the range of the terms. The quantiles of a column of ranks say
how the values of the lead lie, and values that lie otherwise are worth a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from protocol.table_schema import Column, RanksColumn, Schema
from user_client.tables.emptiness import goes_with
from user_client.tables.profile import ColumnProfile, strangeness

FAR: Final = 0.25
"""Distance of Kolmogorov and Smirnov from the quantiles of the terms that is worth a question.

The same distribution comes to 0.03 with 600 rows, two fifths of the values to 0.30, a tenth to 0.62.
"""
NEAR: Final = 0.1
"""Any two institutions may differ by so much, before the chance of few rows."""
CHANCE: Final = 2.2
"""This times the root of 1 / n + 1 / n is what chance alone hardly brings: 1 in 10,000 columns."""
FEWEST_ROWS: Final = 20
NAMED: Final = 3
"""So many columns have a sentence of their own; of more, one sentence names the farthest."""


def distance(found: ColumnProfile, column: Column) -> float:
    """Return how far the values of a column lie from the terms' quantiles: 0 to 1, and 0 if that is unknown.

    The outermost quantiles are not compared: how many rows lie beyond them is no share that the terms have.
    """
    if not _is_compared(column) or found.among is None or found.filled < FEWEST_ROWS:
        return 0.0
    below, up_to = found.among[:, 1:-1] / found.filled
    shares = np.linspace(0, 1, found.among.shape[1])[1:-1]
    return float(np.maximum(shares - up_to, below - shares).max(initial=0.0))


def _is_compared(column: Column) -> bool:
    """Return whether a column has quantiles; a date lies otherwise wherever another year is looked at."""
    return isinstance(column, RanksColumn) and (column.dates is None or column.since is not None)


def _is_far(found: ColumnProfile, column: Column) -> bool:
    least = NEAR + CHANCE * (2 / max(found.filled, 1)) ** 0.5
    return distance(found, column) > max(FAR, least) and strangeness(found, column) is None


def remarks_on_distances(profile: Sequence[ColumnProfile], schema: Schema) -> list[str]:
    """Return what to ask about columns whose values lie otherwise than those of the terms."""
    both = list(zip(profile, schema.columns, strict=True))
    far = sorted((one for one in both if _is_far(*one)), key=lambda one: distance(*one), reverse=True)
    if len(far) > NAMED:
        names = ", ".join(f"'{found.name}' ({distance(found, column):.2f})" for found, column in far[:NAMED])
        compared = sum(_is_compared(column) for column in schema.columns)
        return [
            f"{len(far)} of {compared} columns of numbers lie otherwise than in the terms, most of all"
            f" {names} by the distance of Kolmogorov and Smirnov: are the patients others than the lead's, or"
            " are units and codes others?"
        ]
    return [_in_words(*one) for one in far]


def _in_words(found: ColumnProfile, column: Column) -> str:
    shares = _around_the_middle(found)
    share, where = max(zip(shares, ("below", "above"), strict=True))
    return (
        f"column '{found.name}': its values lie otherwise than in the terms (distance of Kolmogorov and"
        f" Smirnov {distance(found, column):.2f}), {share:.0%} of them {where} the terms' middle one: is it"
        " in the same unit and on the same scale, or are only the patients others?"
    )


def _around_the_middle(found: ColumnProfile) -> tuple[float, float]:
    """Return which shares of the values are below and above the middle quantile of the terms."""
    if found.among is None:
        return 0.0, 0.0
    below, up_to = found.among[:, found.among.shape[1] // 2] / found.filled
    return float(below), float(1 - up_to)


def remarks_on_empty(
    profile: Sequence[ColumnProfile], schema: Schema, marked: Sequence[int], rows: int
) -> list[str]:
    """Return a sentence on each column whose empty fields go with the label and have no feature.

    Parameters
    ----------
    marked : sequence of int
        How many rows each group has, in the order of `ColumnProfile.empty_in`.
    """
    found = []
    for one, column in zip(profile, schema.columns, strict=True):
        has_place = getattr(column, "missing_share", 0.0) is None and column.takes_empty
        if has_place and any(
            goes_with(both, of_group, one.empty, rows)
            for both, of_group in zip(one.empty_in, marked, strict=True)
        ):
            found.append(
                f"column '{one.name}': whether a field is empty goes with the label here ({one.empty:,} of"
                f" {rows:,} are), and the terms have no feature that says so; unless that is known only after"
                " the outcome, ask the lead for terms with a missing_share in this column"
            )
    return found
