"""Which factor, and how much: the weights of a linear model by original column, with 95 % intervals.

Only this institution can read them off h: ``F_i G_i`` brings its columns to where h is. How sure they are is
computed from its own rows: they tell the information that one row has, and all rows together have so many
times as much. The analyst has to send nothing for it that could tell of other institutions' rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.messages import DownlinkManifest
from protocol.model_terms import CoxTerms, LogisticTerms, RidgeTerms, weighted_kinds
from protocol.table_schema import (
    CategoricalColumn,
    LevelsColumn,
    NumberLabel,
    OrdinalColumn,
    RanksColumn,
    Schema,
    SurvivalLabel,
)
from protocol.terms import Terms
from user_client.custody.round_directory import MODEL_FILE, RoundDirectory
from user_client.linear_inference import (
    covariance,
    information_of_classes,
    information_of_numbers,
    information_of_survival,
)
from user_client.scores import NORMAL_95
from user_client.sdk.predictor import Model, map_to_model
from user_client.sdk.terms import accepted_terms
from user_client.tables import encode_labels, encode_rows, table_from

ROWS_PER_WEIGHT: Final = 10
"""Fewest rows of our own for each weight of h, for them to tell the information of a row."""
Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """How far one change in an original column moves the answer, all other columns staying as they are.

    Attributes
    ----------
    column, change : str
        The change: ``per unit`` or ``per day``, ``from the lowest to the highest rank``, a level instead of
        the first one, or an empty field.
    value : float
        In the unit of `Coefficients.scale`.
    error, low, high : float, optional
        Standard error, and the ends of the 95 % interval; None where there is none.
    """

    column: str
    change: str
    value: float
    error: float | None
    low: float | None
    high: float | None


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
    """

    scale: str
    coefficients: tuple[Coefficient, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return this as `odc coefficients` prints it."""
        return asdict(self)


def coefficients(directory: RoundDirectory, data: Any, rows_in_all: int | None) -> Coefficients:
    """Return the coefficients of h by original column; `Round.coefficients` has the parameters."""
    terms, manifest = accepted_terms(directory), directory.load(DownlinkManifest)
    _refuse_what_is_not_linear(terms)
    schema = terms.table_schema
    to_model, model = map_to_model(directory, manifest), Model(directory.read(MODEL_FILE))
    weights = _weights(model, terms, to_model.shape[1])
    changes = list(_changes(schema))
    names = [(column, change) for column, change, _ in changes]
    contrasts = np.array([row for *_, row in changes]) @ to_model
    rows = encode_rows(table_from(data), schema) @ to_model
    notes = list(_notes(terms))
    why_none = _why_no_interval(terms, len(rows), rows_in_all)
    if why_none is None and rows_in_all is not None:
        labels = encode_labels(table_from(data), schema)
        spread = _covariance(terms, model, rows, labels.astype(np.float64), weights, rows_in_all)
        variances = np.einsum("ij,jk,ik->i", contrasts, spread, contrasts)
        errors = np.sqrt(np.maximum(variances, 0)) * _unit(schema)  # rounding may go below 0
    else:
        notes.insert(0, f"no intervals: {why_none}")
        errors = np.full(len(names), np.nan)
    values = contrasts @ weights * _unit(schema)
    found = [
        Coefficient(column, change, float(value), *_interval(float(value), float(error)))
        for (column, change), value, error in zip(names, values, errors, strict=True)
    ]
    return Coefficients(_scale(schema), tuple(found), tuple(notes))


def _interval(value: float, error: float) -> tuple[float | None, float | None, float | None]:
    if np.isnan(error):
        return None, None, None
    return error, value - NORMAL_95 * error, value + NORMAL_95 * error


def _refuse_what_is_not_linear(terms: Terms) -> None:
    label = terms.table_schema.label_column
    if terms.returns_anchor_predictions:
        raise InputError("under these terms h stays at the analyst, and our own model is not linear")
    if not isinstance(terms.model, LogisticTerms | RidgeTerms | CoxTerms):
        error = InputError(f"a model of the kind {terms.model.kind} has no coefficients")
        error.hint = "`odc explain TABLE` works for every model; logistic, ridge and cox have coefficients"
        raise error
    if isinstance(terms.model, LogisticTerms) and len(label.columns) == 1 and label.outputs > 2:
        raise InputError(f"coefficients are for two classes, and these terms have {label.outputs}")


def _link(terms: Terms, answers: Matrix64) -> Matrix64:
    """Return what is linear in a row: the log-odds, the number as on the wire, or the log of the hazard."""
    if terms.task == "number":
        return answers[:, 0]
    if terms.task == "survival":
        return np.asarray(np.log(-np.log(answers[:, -1])))
    return np.asarray(np.log(answers[:, 1]) - np.log(answers[:, 0]))


def _weights(model: Model, terms: Terms, latent_dim: int) -> Matrix64:
    """Return the weights of h, (l,), from its answers at the origin and one step along each direction."""
    steps = np.vstack([np.zeros(latent_dim), np.eye(latent_dim)])
    asked = model.run(steps.astype(np.float32), terms.table_schema.label_column.model_output)
    found = _link(terms, asked.astype(np.float64))
    return np.asarray(found[1:] - found[0])


def _covariance(
    terms: Terms, model: Model, rows: Matrix64, labels: Matrix64, weights: Matrix64, rows_in_all: int
) -> Matrix64:
    """Return the covariance of the weights, (l, l)."""
    assert isinstance(terms.model, LogisticTerms | RidgeTerms | CoxTerms)  # noqa: S101  # refused before
    # h is fitted on rows divided by one number for all directions, and so is its penalty
    penalty = np.full(rows.shape[1] + 1, rows.var(axis=0).mean() / terms.model.inverse_penalty)
    if terms.task == "survival":
        return covariance(information_of_survival(rows, rows @ weights, labels), rows_in_all, penalty[1:])
    penalty[0] = 0.0  # the intercept has none
    with_ones = np.column_stack([np.ones(len(rows)), rows])
    answers = model.run(rows.astype(np.float32), terms.table_schema.label_column.model_output)
    if terms.task == "number":
        information = information_of_numbers(with_ones, answers[:, 0] - labels)
    else:
        information = information_of_classes(with_ones, answers[:, 1].astype(np.float64))
    return covariance(information, rows_in_all, penalty)[1:, 1:]


def _changes(schema: Schema) -> Iterator[tuple[str, str, Matrix64]]:
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
        else:
            unit = "per day" if getattr(column, "dates", None) else "per unit"
            yield column.name, unit, 2 / (column.high - column.low) * moved[0]
        if getattr(column, "missing_share", None) is not None:
            yield column.name, "empty", moved[-1]


def _unit(schema: Schema) -> float:
    label = schema.label_column
    return label.unit if isinstance(label, NumberLabel) else 1.0


def _scale(schema: Schema) -> str:
    label = schema.label_column
    if isinstance(label, NumberLabel):
        return label.name
    if isinstance(label, SurvivalLabel):
        return f"log of the hazard of {label.event} = {label.seen}"
    return f"log-odds of {label.name} = {label.classes[1]}"


def _why_no_interval(terms: Terms, own_rows: int, rows_in_all: int | None) -> str | None:
    needed = ROWS_PER_WEIGHT * (terms.latent_dim + 1)
    if terms.model_privacy is not None:
        return "the noise of a private model is not in such an interval"
    if weighted_kinds(terms.model):
        return "rows that count by their class are more or less certain than such an interval takes them for"
    if own_rows < needed:
        return f"{own_rows} rows tell too little of {terms.latent_dim} directions; {needed} would do"
    if rows_in_all is None:
        return "the analyst, who knows how many rows trained the model, cannot be reached"
    return None


def _notes(terms: Terms) -> Iterator[str]:
    """Yield what an interval does not cover."""
    width = terms.table_schema.width
    yield "the intervals hold if the rows of the other institutions are like those of this table"
    if terms.latent_dim < width:
        yield (
            f"{terms.latent_dim} of {width} directions were sent: columns that go together share their"
            " coefficients, which are those of this model and not of one with all directions"
        )
    if terms.dither:
        yield (
            "the model was trained on rows with noise, which draws coefficients towards zero; the intervals"
            " do not show that"
        )
    yield "a coefficient says what goes with the answer, not what causes it"
