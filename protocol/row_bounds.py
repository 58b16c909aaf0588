"""How long a row of an uplink can be under its terms (docs/protocol.md, "How long a row can be").

Encoded features lie in known ranges, a secret basis lengthens nothing, and an anchor's rows are as long as
its kind makes them. An institution checks this before it sends, the analyst as it arrives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from protocol.errors import MalformedMessageError, ProtocolError
from protocol.gaussian_mechanism import gaussian_sigma
from protocol.messages import PrivacyRecord
from protocol.table_schema import (
    CategoricalColumn,
    Column,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from protocol.terms import Terms

STRETCH: Final = 10.0
"""Noise is longer than expected by so many standard deviations with a probability of at most exp(-50)."""
ROUNDING: Final = 1e-3
"""Share by which rounding may lengthen a row: twice that of the shortest float."""
_LARGEST_I1: Final = 127


class RowTooLongError(ProtocolError):
    """A row that is longer than any encoded row under the signed terms can be."""

    code = "row-too-long"
    title = "Row is longer than the terms allow"
    hint = (
        "run `odc prepare TABLE` again: it encodes every row into the ranges of the terms; nothing of this"
        " upload is kept"
    )

    def __init__(self, party: str, name: str, row: int) -> None:
        super().__init__(
            f"{name} of {party}: row {row} is longer than rows under these terms can be",
            party=party,
            array=name,
            row=row,
        )


@dataclass(frozen=True)
class RowBounds:
    """The largest Euclidean length of a row, by array; of the scales of 8-bit integers, the largest entry.

    8-bit rows have no bound of their own: their scales bound every entry.
    """

    party: str
    largest: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, terms: Terms, party: str, privacy: PrivacyRecord) -> RowBounds:
        """Return the bounds of an uplink whose manifest has this record of privacy.

        Raises `MalformedMessageError` for noise that nobody can add.
        """
        if terms.sums is not None:
            return cls(party)
        longest = {
            "rep": _longest_rep(terms.table_schema, privacy),
            "anchor_rep": longest_anchor_row(terms),
        }
        if terms.rep_dtype == "i1":
            longest = {f"{name}_scale": bound / _LARGEST_I1 for name, bound in longest.items()}
        return cls(party, {name: (1 + ROUNDING) * bound for name, bound in longest.items()})


def longest_row(schema: Schema) -> float:
    """Return the largest Euclidean length of an encoded row."""
    return math.sqrt(sum(map(_largest_square, schema.columns)))


def _largest_square(column: Column) -> float:
    """Return the largest sum of the squares of a column's features."""
    if isinstance(column, NumericColumn | CategoricalColumn):
        return 1.0
    of_value = _largest_value_square(column)
    if column.missing_share is None:
        return of_value
    present, empty = column.missing_share**2, (1 - column.missing_share) ** 2
    return max(of_value + present, empty + (of_value if column.empty == "impute" else 0))


def _largest_value_square(column: RanksColumn | RangeColumn | LevelsColumn | OrdinalColumn) -> float:
    if isinstance(column, RanksColumn):
        return 1.0
    if isinstance(column, RangeColumn):
        low, high, centre = column.on_scale
        return (2 * max(high - centre, centre - low) / (high - low)) ** 2
    if isinstance(column, OrdinalColumn):
        return (1 + abs(column.centre)) ** 2
    # the level that is there has 1 less its share, each other one minus its own
    others = sum(share**2 for share in column.shares)
    return column.weight**2 * max(others + 1 - 2 * share for share in column.shares)


def _longest_rep(schema: Schema, privacy: PrivacyRecord) -> float:
    longest = longest_row(schema)
    if privacy.epsilon is not None and privacy.delta is not None and privacy.clip is not None:
        sensitivity = 2 * privacy.clip
        if not math.isfinite(sensitivity):
            raise MalformedMessageError("privacy", "states noise that no number can hold")
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta, sensitivity=sensitivity)
        # the basis is drawn from the noisy rows, so all m numbers of the noise may lie along it
        longest = min(longest, privacy.clip) + sigma * (math.sqrt(schema.width) + STRETCH)
    # its second moments are those of the rows, of which no row is longer
    return longest * (1 + (privacy.dither or 0) * (1 + STRETCH))


def longest_anchor_row(terms: Terms) -> float:
    """Return the largest Euclidean length of a row of the anchor."""
    if terms.anchor.kind == "haar":
        return 1.0
    if terms.anchor.kind == "uniform":
        return math.sqrt(terms.table_schema.width)
    if terms.anchor.kind == "gaussian":
        return math.sqrt(terms.table_schema.width) + STRETCH
    return longest_row(terms.table_schema)  # a public anchor is encoded rows
