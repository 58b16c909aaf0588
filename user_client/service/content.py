"""What the local service takes and answers, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from protocol.labels import MultiLabel, SurvivalLabel
from protocol.table_schema import ColumnOfLevels, Schema
from protocol.terms import Terms
from runtime.terminal import plain
from user_client.errors import FieldError
from user_client.sdk.predictor import Predictions, Predictor
from user_client.sdk.unfit_rows import UnfitRows, fitting_places
from user_client.tables.fields import rows_of

MOST_ROWS = 10_000
"""Rows of one request; a table of more is for `odc predict`."""

Value = Annotated[str | bool | int | float | None, Field(union_mode="left_to_right")]
"""A field as the table has it: what stands in a CSV file, or its number. A boolean is the text true or false,
None an empty field."""


class PredictionRequest(BaseModel):
    """Rows to predict for, each with every column of the terms."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    rows: list[dict[str, Value]] = Field(min_length=1, max_length=MOST_ROWS)
    thresholds: dict[str, float] = {}
    """Probabilities from which a class or a label is predicted."""
    interval: float | None = None
    """For a number: share of rows whose interval holds the truth."""
    skip_unfit: bool = False
    """A row that does not fit the terms has null in the place of its prediction, and is named in `unfit`;
    without this, one such row refuses the request."""

    def table(self, schema: Schema) -> pa.Table:
        """Return the rows as a table of text; columns that the schema does not name are left out."""

        def refuse(error: FieldError) -> None:
            raise error

        return self.read(schema, refuse)

    def read(self, schema: Schema, note: Callable[[FieldError], None]) -> pa.Table:
        """Return the same; ``note`` takes the first field of a row that is not there, or no text.

        All such fields are empty in the table.
        """
        columns, noted = {}, np.zeros(len(self.rows), bool)

        def note_new(name: str, rows: NDArray[np.bool_], words: str) -> None:
            nonlocal noted
            if (new := rows & ~noted).any():
                note(FieldError(name, rows_of(new), words))
            noted |= rows

        for name in columns_of(schema):
            note_new(
                name, np.array([name not in row for row in self.rows]), "the column is missing in this row"
            )
            texts = [_as_text(row.get(name)) for row in self.rows]
            try:
                columns[name] = pa.array(texts, pa.string())
            except UnicodeEncodeError:  # JSON can name half of a character
                odd = np.array([text is not None and not _is_unicode(text) for text in texts])
                note_new(name, odd, "the text is no Unicode")
                columns[name] = pa.array(texts, pa.string(), mask=odd)
        return pa.table(columns)


class Prediction(BaseModel):
    """The answer for one row; what does not belong to what is predicted is left out."""

    prediction: str | float | dict[str, str]
    """The class, the number, for survival the probability of the event until the last time; of several labels
    what the column of each would say."""
    probabilities: dict[str, float] | None = None
    survival: dict[str, float] | None = None
    """The probability that the event comes after each time."""
    low: float | None = None
    high: float | None = None


class Unfit(BaseModel):
    """A row without a prediction."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    row: int
    """Counted from 1."""
    column: str
    """The first whose field does not fit the terms."""


class PredictionAnswer(BaseModel):
    """One answer for each row, in the same order."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    predictions: list[Prediction | None]
    """Null for a row that does not fit the terms, which `skip_unfit` allows."""
    unfit: list[Unfit] | None = None
    """These rows, where `skip_unfit` was asked for."""


class ModelAnswer(BaseModel):
    """What the service predicts, and from what."""

    collaboration_id: str
    title: str
    model: str
    task: str
    label: str
    labels: list[str] | None = None
    """The names of several labels."""
    classes: list[str] | None = None
    times: list[float] | None = None
    inputs: dict[str, str]
    """What each column holds: ``number``, ``text``, or ``date written as`` and how."""

    @classmethod
    def of(cls, terms: Terms, schema: Schema, kind: str) -> ModelAnswer:
        label = terms.table_schema.label_column
        times = list(label.times) if isinstance(label, SurvivalLabel) else None
        classes = getattr(label, "classes", None)
        return cls(
            collaboration_id=terms.collaboration_id,
            title=terms.title,
            model=kind,
            task=terms.task,
            label=label.name,
            labels=list(label.columns) if isinstance(label, MultiLabel) else None,
            classes=list(classes) if classes else None,
            times=times,
            inputs=inputs(schema),
        )


def columns_of(schema: Schema) -> list[str]:
    """Return the names of the columns that a row has."""
    return [*dict.fromkeys([*(column.name for column in schema.columns), *sorted(schema.origins)])]


def inputs(schema: Schema) -> dict[str, str]:
    """Return what each column of a row holds, and those that durations begin at."""
    found: dict[str, str] = {}
    for column in schema.columns:
        dates = getattr(column, "dates", None)
        found[column.name] = (
            "text"
            if isinstance(column, ColumnOfLevels)
            else f"date written as {dates}"
            if dates
            else "number"
        )
        if since := getattr(column, "since", None):
            found[since] = f"date written as {dates}"
    return found


def predicted(asked: PredictionRequest, predictor: Predictor) -> PredictionAnswer:
    """Return the predictions that are asked for; raises what `Predictor.predict` does.

    With `skip_unfit` no `FieldError` is raised, even if no row fits.
    """

    def predict(table: pa.Table) -> Predictions:
        return predictor.predict(table, thresholds=asked.thresholds, coverage=asked.interval)

    if not asked.skip_unfit:
        found = predict(asked.table(predictor.schema))
        return PredictionAnswer.model_construct(predictions=[*answers(found)])
    unfit = UnfitRows()
    table = asked.read(predictor.schema, unfit.note)
    refused = [row - 1 for rows in unfit.by_column.values() for row in rows]
    read = np.delete(np.arange(table.num_rows), refused)
    table = table.take(read)
    fitting = fitting_places(table, predictor.schema, lambda error: unfit.note(error.in_rows(read + 1)))
    rows: list[Prediction | None] = [None] * len(asked.rows)
    for place, answer in zip(read[fitting], answers(predict(table.take(fitting))), strict=True):
        rows[place] = answer
    named = sorted((row, name) for name, numbers in unfit.by_column.items() for row in numbers)
    return PredictionAnswer.model_construct(
        predictions=rows, unfit=[Unfit.model_construct(row=row, column=name) for row, name in named]
    )


def answers(found: Predictions) -> list[Prediction]:
    """Return predictions row by row."""
    names = found.classes or found.names or tuple(plain(at) for at in found.times)
    kind = "survival" if found.times else "probabilities"
    rows: list[Prediction] = []
    for number, label in enumerate(found.labels):
        content: dict[str, Any] = {"prediction": label}
        if names:
            content[kind] = dict(zip(names, found.probabilities[number].tolist(), strict=True))
        if found.interval is not None:
            content["low"], content["high"] = found.interval[number].tolist()
        rows.append(Prediction.model_construct(**content))
    return rows


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _as_text(value: str | float | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, str) else repr(value)
