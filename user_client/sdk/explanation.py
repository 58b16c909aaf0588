"""Why does the model say that? Which of our original columns its answers come from, on our own rows.

Only this institution can answer that, because only it has F_i. The rows of the anchor, which all institutions
share and which are nobody's, are the common background, so that the values of two institutions can be
compared (DC-SHAP: Bogdanova, Imakura and Sakurai 2023, doi:10.1007/s44230-023-00032-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.labels import Label, MultiLabel, NumberLabel, SurvivalLabel
from protocol.table_schema import Schema
from protocol.terms import Terms
from user_client.attributions import permutation_importance, shapley_values
from user_client.custody.round_directory import RoundDirectory
from user_client.errors import NotPreparedError
from user_client.scores import Metric, can_be_scored, compare
from user_client.sdk.anchor import open_anchor
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.sdk.predictor import Predictor
from user_client.sdk.session import Session
from user_client.tables import are_labelled, encode_labels, encode_rows, table_from

Background = Literal["anchor", "own"]
MOST_ROWS: Final = 200
"""Rows whose answers are explained, evenly spaced over the table."""
MOST_SCORED: Final = 2000
REPEATS: Final = 10
PAIRS: Final = 20
Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnWeight:
    """How much the answers depend on one original column.

    Attributes
    ----------
    name : str
    shapley : float
        Mean of the absolute Shapley values over rows and outcomes: by so much the column moves an answer.
    shapley_error : float
        Standard error of that by the orders that were drawn.
    importance, importance_spread : float, optional
        How far the score falls when the column is shuffled: mean and standard deviation over shuffles. None
        for a table without labels.
    """

    name: str
    shapley: float
    shapley_error: float
    importance: float | None
    importance_spread: float | None


@dataclass(frozen=True)
class Explanation:
    """What the answers of the model depend on.

    Attributes
    ----------
    columns : tuple of ColumnWeight
        The largest Shapley value first.
    outcomes : tuple of str
        What the values are about: the probability of a class (of two, the second alone) or of a label, the
        number, or for survival the probability of the event until the last time.
    metric : {"roc_auc", "accuracy", "r2", "c_index"}, optional
    score : float, optional
        Of all rows with labels; what `importance` falls from.
    background : {"anchor", "own"}
    rows : (n,) ndarray of int
        Numbers of the explained rows in the table, from 1 on.
    values : (n, d, k) ndarray of float64
        Shapley values of each explained row, by original column in the order of the terms and by outcome.
    names : tuple of str
        The d columns in the order of the terms.
    """

    columns: tuple[ColumnWeight, ...]
    outcomes: tuple[str, ...]
    metric: Metric | None
    score: float | None
    background: Background
    rows: NDArray[np.int64]
    values: Matrix64
    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it without the values of single rows."""
        return {
            "columns": [vars(column) for column in self.columns],
            "outcomes": list(self.outcomes),
            "metric": self.metric,
            "score": self.score,
            "background": self.background,
            "rows": len(self.rows),
        }

    def row_values(self) -> pa.Table:
        """Return the values of single rows as a table: one line for each row and outcome."""
        count = len(self.outcomes)
        lines = self.values.transpose(0, 2, 1).reshape(-1, len(self.names))
        return pa.table(
            {
                "row": np.repeat(self.rows, count),
                "outcome": list(self.outcomes) * len(self.rows),
                **{f"shapley_{name}": lines[:, number] for number, name in enumerate(self.names)},
            }
        )


def explain(
    session: Session, directory: RoundDirectory, data: Any, *, background: Background = "anchor"
) -> Explanation:
    """Explain the answers for a table; `Round.explain` has the parameters."""
    if background not in get_args(Background):
        raise InputError(f"background must be one of {', '.join(get_args(Background))}, got {background}")
    predictor = Predictor(directory)
    require_whole_rows(own_group(directory), "an explanation")
    schema, table = predictor.schema, table_from(data)
    rows = encode_rows(table, schema)
    if not len(rows):
        raise InputError("this table has no rows to explain")
    reference = rows if background == "own" else _own_anchor(session, directory, predictor.terms)
    chosen, groups = _evenly_spaced(len(rows), MOST_ROWS), _groups(schema)
    values, errors = shapley_values(
        lambda some: _shown(predictor, some),
        rows[chosen],
        reference,
        groups,
        np.random.default_rng(0),
        pairs=PAIRS,
    )
    weights = np.abs(values).mean(axis=(0, 2))
    spread = _spread(rows[chosen], errors.mean(axis=2))
    metric, score, fallen = _importance(predictor, table, rows, groups)
    names = tuple(column.name for column in schema.columns)
    columns = [
        ColumnWeight(
            name,
            float(weights[number]),
            float(spread[number]),
            None if fallen is None else float(fallen[number].mean()),
            None if fallen is None else float(fallen[number].std(ddof=1)),
        )
        for number, name in enumerate(names)
    ]
    columns.sort(key=lambda column: -column.shapley)
    outcomes = _outcomes(schema)
    return Explanation(tuple(columns), outcomes, metric, score, background, chosen + 1, values, names)


def _own_anchor(session: Session, directory: RoundDirectory, terms: Terms) -> Matrix64:
    """Return the anchor's rows with the features that we have."""
    try:
        anchor, _ = open_anchor(session, directory)
    except NotPreparedError as error:
        error.hint = (
            "the rows of the table can be the background too: `odc explain TABLE --background own`, in Python"
            ' background="own"'
        )
        raise
    return np.asarray(anchor[:, terms.features_of(session.membership.party)])


def _spread(rows: Matrix64, errors: Matrix64) -> Matrix64:
    """Return the standard error of the mean over the rows, (columns,), from that of each row, (n, columns).

    The errors of one row's outcomes go together, and so do those of equal rows, which have the same draws.
    """
    _, equal = np.unique(rows, axis=0, return_inverse=True)
    together = np.zeros((equal.max() + 1, errors.shape[1]))
    np.add.at(together, equal.ravel(), errors)
    return np.asarray(np.sqrt(np.square(together).sum(axis=0)) / len(errors))


def _importance(
    predictor: Predictor, table: pa.Table, rows: Matrix64, groups: list[slice]
) -> tuple[Metric | None, float | None, Matrix64 | None]:
    """Return the metric, the score, and how far it falls by column, (d, repeats); Nones without labels.

    Rows whose label is empty are left out.
    """
    schema, task = predictor.schema, predictor.terms.task
    if not set(schema.label_column.columns) <= set(table.column_names):
        return None, None, None
    labelled = are_labelled(table, schema)
    table, rows = table.filter(pa.array(labelled)), rows[labelled]
    if not len(rows):
        return None, None, None
    chosen = _evenly_spaced(len(rows), MOST_SCORED)
    labels = encode_labels(table, schema, in_range=False)[chosen]
    if not can_be_scored(labels, task):
        return None, None, None

    def score(some: Matrix64) -> float:
        return compare(labels, predictor.outputs(some), None, task).together

    metric = compare(labels, predictor.outputs(rows[chosen]), None, task).metric
    fallen = permutation_importance(score, rows[chosen], groups, np.random.default_rng(0), repeats=REPEATS)
    return metric, score(rows[chosen]), fallen


def _evenly_spaced(count: int, most: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _groups(schema: Schema) -> list[slice]:
    """Return the features of each original column."""
    ends = np.cumsum([column.width for column in schema.columns]).tolist()
    return [slice(end - column.width, end) for end, column in zip(ends, schema.columns, strict=True)]


def _outcomes(schema: Schema) -> tuple[str, ...]:
    label = schema.label_column
    if isinstance(label, NumberLabel):
        return (label.name,)
    if isinstance(label, SurvivalLabel):
        return (f"{label.event} = {label.seen}",)
    if isinstance(label, MultiLabel):
        return tuple(f"{one.name} = {one.present}" for one in label.labels)
    return label.classes[1:] if len(label.classes) == 2 else label.classes


def _shown(predictor: Predictor, rows: Matrix64) -> Matrix64:
    """Return what is explained, (n, k), as `_outcomes` names it."""
    label = predictor.terms.table_schema.label_column
    found = predictor.outputs(rows).astype(np.float64)
    if isinstance(label, NumberLabel):
        return found * label.unit
    if isinstance(label, SurvivalLabel):
        return 1 - found[:, -1:]
    return found[:, 1:] if isinstance(label, Label) and len(label.classes) == 2 else found
