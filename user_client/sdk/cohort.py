"""The rows of all institutions in figures: the total of a round of sums, turned back on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError, MalformedMessageError
from protocol.fixed_point import from_fixed_point
from protocol.labels import AnyLabel, Label, NumberLabel
from protocol.messages import DownlinkManifest
from protocol.sums import TOTAL, SumsTerms, exponent_of, order_of
from protocol.table_schema import (
    CategoricalColumn,
    LevelsColumn,
    NumericColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from protocol.terms import Terms
from user_client.cohort_statistics import Moments, principal_components
from user_client.custody.round_directory import TOTAL_FILE, RoundDirectory
from user_client.sdk.sums import stored_feature_map
from user_client.sdk.terms import accepted_terms

_DIGITS: Final = 12
"""Of a mean, in encoded units: what lies behind was rounded away."""
Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """One number of a row, over all rows.

    Attributes
    ----------
    column, number : str
        What of the column: its value, its rank from -1 to 1, whether it is a level.
    mean, deviation : float
        Standard deviation; of a share it says how the rows are divided.
    """

    column: str
    number: str
    mean: float
    deviation: float


@dataclass(frozen=True)
class Component:
    """A principal component of the standardised columns: its share of the variance, and its loadings."""

    share: float
    loadings: tuple[float, ...]


@dataclass(frozen=True)
class Cohort:
    """The rows of all institutions in figures.

    Attributes
    ----------
    rows : int
    figures : tuple of Figure
        Of the columns, and of the label at the end.
    features : int
        How many of the figures are of the columns.
    correlations : tuple of tuple of float, optional
        Of each figure with each; None with one that is the same in all rows.
    components : tuple of Component
        Of the columns, the largest first.
    notes : tuple of str
        What the reader has to know.
    """

    rows: int
    figures: tuple[Figure, ...]
    features: int
    correlations: tuple[tuple[float | None, ...], ...]
    components: tuple[Component, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return this as `odc cohort` prints it."""
        return {
            "rows": self.rows,
            "figures": [vars(figure) for figure in self.figures],
            "features": self.features,
            "correlations": [list(row) for row in self.correlations],
            "components": [{"share": one.share, "loadings": list(one.loadings)} for one in self.components],
            "notes": list(self.notes),
        }


def cohort(directory: RoundDirectory) -> Cohort:
    """Return the figures of all rows; `Round.cohort` says what it raises."""
    terms = accepted_terms(directory)
    moments = moments_of_all(directory)
    schema, width = terms.table_schema, terms.table_schema.width
    units = [*_numbers_of_columns(schema), *_numbers_of_label(schema.label_column)]
    deviations, correlations = moments.deviations(), moments.correlations()
    shares, directions = principal_components(correlations[:width, :width])
    return Cohort(
        rows=moments.rows,
        figures=tuple(
            Figure(column, number, _shown(mean, zero, unit), float(unit * deviation))
            for (column, number, zero, unit), mean, deviation in zip(
                units, moments.means, deviations, strict=True
            )
        ),
        features=width,
        correlations=tuple(
            tuple(None if np.isnan(value) else float(value) for value in row) for row in correlations
        ),
        components=tuple(
            Component(float(share), tuple(map(float, direction)))
            for share, direction in zip(shares, directions, strict=True)
        ),
        notes=tuple(_notes(schema)),
    )


def _shown(mean: float, zero: float, unit: float) -> float:
    """Return a mean in the unit of its column; 0 as 0, although sums are rounded."""
    return unit * round(float(mean + zero / unit), _DIGITS) + 0.0


def moments_of_all(directory: RoundDirectory) -> Moments:
    """Return the moments of the encoded columns and the label over all rows.

    Raises
    ------
    InputError
        If the terms give the total to nobody.
    NotPreparedError
        Before `receive`, or if the secret coordinates were erased.
    MalformedMessageError
        If what the analyst has sent is no sum over rows.
    """
    terms = accepted_terms(directory)
    sums = _with_total(terms)
    directory.load(DownlinkManifest)
    label, parties = terms.table_schema.label_column, len(terms.parties)
    integers = np.frombuffer(directory.read_secret(TOTAL_FILE), "<u8")
    exponent = exponent_of(sums, terms.table_schema, parties)
    total = from_fixed_point(integers, order_of(terms.latent_dim, label), exponent)
    if not parties * sums.min_rows - 0.5 < total[0, 0] < parties * sums.max_rows + 0.5:
        raise MalformedMessageError(TOTAL, "is over fewer or more rows than the terms allow")
    rounding = parties * 2.0 ** -(exponent + 1)
    return Moments.of(total, stored_feature_map(directory).turn, terms.table_schema.width, rounding)


def _with_total(terms: Terms) -> SumsTerms:
    if terms.sums is not None and terms.sums.cohort:
        return terms.sums
    error = InputError("under these terms no institution gets the total, which such figures come from")
    error.hint = "terms of another collaboration can say so: `odc terms draft --uplink sums --cohort`"
    raise error


def _numbers_of_columns(schema: Schema) -> Iterator[tuple[str, str, float, float]]:
    """Yield for each encoded number its column, what it is, what 0 stands for, and what 1 more does."""
    for column in schema.columns:
        if isinstance(column, CategoricalColumn):
            yield from ((column.name, f"share of {level}", 0.0, 1.0) for level in column.levels)
        elif isinstance(column, LevelsColumn):
            for level, share in zip(column.levels, column.shares, strict=True):
                yield column.name, f"share of {level}", share, 1 / column.weight
        elif isinstance(column, RanksColumn):
            yield column.name, "rank from -1 to 1", 0.0, 1.0
        elif isinstance(column, OrdinalColumn):
            ends = f"place from {column.levels[0]} (-1) to {column.levels[-1]} (1)"
            yield column.name, ends, column.centre, 1.0
        else:
            yield column.name, *_value_of(column)
        share_missing = getattr(column, "missing_share", None)
        if share_missing is not None:
            yield column.name, "share empty", share_missing, 1.0


def _value_of(column: NumericColumn | RangeColumn) -> tuple[str, float, float]:
    if isinstance(column, NumericColumn):
        unit = (column.high - column.low) / 2
        return "value", column.low + unit, unit
    low, high, centre = column.on_scale
    what = "value" if column.dates is None else "days" if column.since else "days since 1970-01-01"
    return what if column.scale is None else f"natural logarithm of the {what}", centre, (high - low) / 2


def _numbers_of_label(label: AnyLabel) -> Iterator[tuple[str, str, float, float]]:
    if isinstance(label, NumberLabel):
        yield label.name, "value", label.low + label.unit, label.unit
    elif isinstance(label, Label):
        yield from ((label.name, f"share of {name}", 0.0, 1.0) for name in label.classes)


def _notes(schema: Schema) -> Iterator[str]:
    """Yield how the figures differ from those of the raw columns."""
    yield "figures are of the columns as the terms encode them: a number outside the range is at its end"
    if any(getattr(column, "empty", "refuse") == "centre" for column in schema.columns):
        yield "an empty field counts as the middle: means of columns with empty fields lie closer to it"
    if any(column.impute is not None for column in schema.columns):
        yield "an empty field counts as the value that the terms state, and is part of the means"
    yield "rows that an institution has kept back to evaluate on are not among them"
