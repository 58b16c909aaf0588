"""Changes in original columns, and what a linear model says of each: coefficients and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.labels import Label, MultiLabel, NumberLabel, SurvivalLabel
from protocol.table_schema import (
    CategoricalColumn,
    CentredColumn,
    LevelsColumn,
    OrdinalColumn,
    RangeColumn,
    RanksColumn,
    Schema,
)
from protocol.texts import decimal_text
from user_client.scores import NORMAL_95

Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """How far one change in an original column moves the answer, all other columns staying as they are.

    Attributes
    ----------
    column, change : str
        The change: ``per unit``, ``per day``, ``per doubling``, ``from the lowest to the highest rank``, a
        level instead of the first one, or an empty field.
    value : float
        In the unit of `Coefficients.scale`.
    error, low, high : float, optional
        Standard error, and the ends of the 95 % interval; None where there is none.
    answer : str, optional
        Of more than two classes, the one whose log-odds against the first these are; of several labels, the
        one whose log-odds these are.
    """

    column: str
    change: str
    value: float
    error: float | None
    low: float | None
    high: float | None
    answer: str | None = None


@dataclass(frozen=True)
class Fit:
    """How close least squares come to the label, over all rows of all institutions.

    Attributes
    ----------
    rows, freedom : int
        Rows, and degrees of freedom that are left.
    r_squared : float
        Share of the label's variance.
    deviation : float
        Standard deviation of what is left, in the unit of the label.
    """

    rows: int
    freedom: int
    r_squared: float
    deviation: float


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of a linear model by original column.

    Attributes
    ----------
    scale : str
        What they are differences of.
    coefficients : tuple of Coefficient
    notes : tuple of str
        What the reader has to know: why there is no interval, and what an interval does not cover.
    fit : Fit, optional
        Of least squares on all rows.
    """

    scale: str
    coefficients: tuple[Coefficient, ...]
    notes: tuple[str, ...]
    fit: Fit | None = None

    def to_json(self) -> dict[str, Any]:
        """Return this as `odc coefficients` prints it."""
        return asdict(self)


def coefficient(
    column: str,
    change: str,
    value: float,
    error: float,
    quantile: float = NORMAL_95,
    answer: str | None = None,
) -> Coefficient:
    """Return a coefficient with the interval of so many standard errors; with none if the error is NaN."""
    if np.isnan(error):
        return Coefficient(column, change, float(value), None, None, None, answer)
    low, high = value - quantile * error, value + quantile * error
    return Coefficient(column, change, float(value), float(error), float(low), float(high), answer)


def changes_in(schema: Schema) -> Iterator[tuple[str, str, Matrix64]]:
    """Yield each column, a change in it, and how far that moves the encoded features, (m,)."""
    start = 0
    for column in schema.columns:
        moved = np.zeros((column.width, schema.width))
        moved[:, start : start + column.width] = np.eye(column.width)
        start += column.width
        if isinstance(column, CategoricalColumn | LevelsColumn):
            weight = column.weight if isinstance(column, LevelsColumn) else 1.0
            for number, level in enumerate(column.levels[1:], start=1):
                yield (
                    column.name,
                    f"{level} instead of {column.levels[0]}",
                    weight * (moved[number] - moved[0]),
                )
        elif isinstance(column, RanksColumn):
            yield column.name, "from the lowest to the highest rank", 2 * moved[0]
        elif isinstance(column, OrdinalColumn):
            yield column.name, f"{column.levels[-1]} instead of {column.levels[0]}", 2 * moved[0]
        elif isinstance(column, RangeColumn) and column.scale == "logarithm":
            low, high, _ = column.on_scale
            yield column.name, "per doubling", 2 * math.log(2) / (high - low) * moved[0]
        else:
            unit = "per day" if getattr(column, "dates", None) else "per unit"
            yield column.name, unit, 2 / (column.high - column.low) * moved[0]
        if isinstance(column, CentredColumn) and column.missing_share is not None:
            yield column.name, *_emptied(column, moved)


def _emptied(column: CentredColumn, moved: Matrix64) -> tuple[str, Matrix64]:
    """Return what an empty field of a column is compared with, and how far that moves the features.

    ``moved`` has a row for each feature of the column. A field that counts as a value has the features of
    that value; of one that counts as the middle they are 0.
    """
    if column.impute is not None:
        value = column.impute if isinstance(column.impute, str) else decimal_text(column.impute)
        return f"empty instead of {value}", moved[-1]
    if isinstance(column, LevelsColumn):
        first = column.weight * (moved[0] - np.array(column.shares) @ moved[: column.value_width])
        return f"empty instead of {column.levels[0]}", moved[-1] - first
    if isinstance(column, OrdinalColumn):
        return f"empty instead of {column.levels[0]}", moved[-1] + (1 + column.centre) * moved[0]
    return "empty instead of the middle", moved[-1]


def unit_of(schema: Schema) -> float:
    label = schema.label_column
    return label.unit if isinstance(label, NumberLabel) else 1.0


def scale_of(schema: Schema) -> str:
    label = schema.label_column
    if isinstance(label, NumberLabel):
        return label.name
    if isinstance(label, SurvivalLabel):
        return f"log of the hazard of {label.event} = {label.seen}"
    if isinstance(label, MultiLabel):
        return f"log-odds of each of {', '.join(f'{one.name} = {one.present}' for one in label.labels)}"
    if len(label.classes) > 2:
        return f"log-odds of each {label.name} against {label.classes[0]}"
    return f"log-odds of {label.name} = {label.classes[1]}"


def answers_of(schema: Schema) -> tuple[str | None, ...]:
    """Return what a linear model has weights for: each label, or all but the first of many classes."""
    label = schema.label_column
    if isinstance(label, MultiLabel):
        return label.columns
    return label.classes[1:] if isinstance(label, Label) and len(label.classes) > 2 else (None,)
