"""The baselines of the collaboration: all rows in one place, and each hospital alone.

Both fit the model of the terms to the encoded features, with the same code that the analyst runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyst_server.compute.model_registry import task_of
from analyst_server.training.metrics import score
from analyst_server.training.models import Trainable, fit, fit_task
from protocol.labels import NumberLabel
from protocol.table_schema import Schema
from user_client.tables import decode_numbers, encode_labels, encode_rows
from user_client.tables.fields import as_numbers

Scores = dict[str, float]
"""Accuracy and ROC-AUC of classes; R squared, and the root mean squared error in its unit, of a number."""


def central(tables: Mapping[str, pa.Table], hold_out: pa.Table, schema: Schema, model: Trainable) -> Scores:
    """Return the scores of one model on all rows, which nobody could pool in practice."""
    return _fit_and_score(pa.concat_tables(tables.values()), hold_out, schema, model)


def local(
    tables: Mapping[str, pa.Table], hold_out: pa.Table, schema: Schema, model: Trainable
) -> dict[str, Scores]:
    """Return the scores of each hospital's model of its own rows."""
    return {name: _fit_and_score(table, hold_out, schema, model) for name, table in tables.items()}


def of_predictions(predictions: pa.Table, hold_out: pa.Table, schema: Schema) -> Scores:
    """Return the scores of a predictions file that `odc predict` wrote."""
    if isinstance(schema.label_column, NumberLabel):
        return _score_numbers(hold_out, schema, predictions.column("prediction").to_numpy())
    names = [name for name in predictions.column_names if name.startswith("probability_")]
    probabilities = np.stack([predictions.column(name) for name in names], axis=1)
    return score(encode_labels(hold_out, schema).astype(np.int64), probabilities.astype(np.float64))


def mean(scores: list[Scores]) -> Scores:
    """Return the mean of each score, over the entries that have it."""
    names = sorted({name for one in scores for name in one})
    return {name: float(np.mean([one[name] for one in scores if name in one])) for name in names}


def _fit_and_score(table: pa.Table, hold_out: pa.Table, schema: Schema, model: Trainable) -> Scores:
    label = schema.label_column
    if isinstance(label, NumberLabel):
        return _fit_and_score_numbers(table, hold_out, schema, label, model)
    classes = label.outputs
    rows, labels = encode_rows(table, schema), encode_labels(table, schema).astype(np.int64)
    test_labels = encode_labels(hold_out, schema).astype(np.int64)
    present = np.unique(labels)
    probabilities: NDArray[Any] = np.zeros((len(test_labels), classes))
    if len(present) < 2:  # a hospital that has rows of one class only predicts that class
        probabilities[:, present] = 1.0
    else:
        fitted = fit(model, rows, np.searchsorted(present, labels), len(present))
        probabilities[:, present] = fitted.pipeline.predict_proba(encode_rows(hold_out, schema))
    return score(test_labels, probabilities)


def _fit_and_score_numbers(
    table: pa.Table, hold_out: pa.Table, schema: Schema, label: NumberLabel, model: Trainable
) -> Scores:
    labels = encode_labels(table, schema)
    if len(np.unique(labels)) < 2:  # a hospital whose rows have one number predicts that number
        found = np.full((len(hold_out), 1), labels[0])
    else:
        fitted = fit_task(model, encode_rows(table, schema), labels, task_of(label))
        found = fitted.predictions(encode_rows(hold_out, schema))
    return _score_numbers(hold_out, schema, decode_numbers(found[:, 0], label))


def _score_numbers(hold_out: pa.Table, schema: Schema, found: NDArray[Any]) -> Scores:
    numbers, _ = as_numbers(hold_out.column(schema.label_column.name), schema.missing)
    squared, spread = np.square(numbers - found).mean(), np.square(numbers - numbers.mean()).mean()
    return {"r2": float(1 - squared / spread), "rmse": float(np.sqrt(squared))}
