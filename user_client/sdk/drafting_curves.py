"""What the model of the terms cannot draw: columns that tell the label along curves, alone or together."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any, Final, cast, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from protocol.labels import Task
from protocol.model_terms import ModelTerms, candidates_of, with_candidates
from protocol.table_schema import ColumnOfNumbers, Schema
from user_client.rows import sample_of
from user_client.sdk.local_models import Fitted, fit_by, fit_each
from user_client.secret.bands import BENDS, Told, told_by
from user_client.secret.expansion import Matrix64
from user_client.secret.targets import Targets
from user_client.secret.together import told_together
from user_client.tables.figures import MAX_DRAFT_LEVELS

ON_MODEL: Final = "model "
"""A remark on the drafted model begins so, where others begin with a column."""
ONE_BEND: Final = 2
_BENDS: Final = {"cox": 1, "logistic": 1, "ridge": 1}
"""Degree of the polynomial of a column's rank that a kind draws; any other kind `ONE_BEND` under dither."""
COMPARED_ROWS: Final = 2000
"""Most rows on which the model is compared with the bands of all columns."""
SEEMS: Final = 1.5
"""Standard errors from which on a column is named among those with curves, once there are some."""
_NAMED: Final = 5
_CURVED: Final = {"classes": "mlp or random-feature-svm", "number": "mlp"}
"""Kinds that draw the curves which the drafted model misses, by the task (docs/defaults.md)."""


def model_of(content: Any, task: Task) -> ModelTerms:
    """Return the model of a draft."""
    return TypeAdapter[ModelTerms](ModelTerms).validate_python(with_candidates(content, task))


def bends_of(model: ModelTerms, dither: float) -> int:
    """Return the degree of the curve of one column that a model draws of rows with so much dither.

    The network of ``averaged`` is too short for more than one bend. Under the drafted dither no kind draws
    more: on rows of a cosine of twice an angle, all of them came to a ROC-AUC of 55 to 60 %.
    """
    freely = ONE_BEND if dither else BENDS
    kinds = [one.kind for one in candidates_of(model)]
    return max(ONE_BEND if kind == "averaged" else _BENDS.get(kind, freely) for kind in kinds)


def banded_by(schema: Schema, rows: Matrix64, targets: Matrix64, bends: int) -> dict[str, Told]:
    """Return the columns of encoded rows, (n, m), that tell the targets, (n, k), in bands alone.

    Parameters
    ----------
    bends : int
        Degree of the curve that the model draws.
    """
    found = {}
    for name, place in _places_of_numbers(schema).items():
        told = told_by(rows[:, place], targets, bends)
        if told is not None and told.is_lost:
            found[name] = told
    return found


def _places_of_numbers(schema: Schema) -> dict[str, int]:
    """Return the place of the feature of each column of numbers."""
    places, start = {}, 0
    for column in schema.columns:
        if isinstance(column, ColumnOfNumbers):
            places[column.name] = start
        start += column.width
    return places


def remarks_on_curves(
    schema: Schema, rows: Matrix64, labels: NDArray[Any], targets: Targets, model: ModelTerms, bends: int
) -> Iterator[str]:
    """Yield what a person should do about the curves that the model of a draft misses.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Some encoded rows.
    labels : (n,) ndarray
        As on the wire.
    targets : Targets
        Of these rows.
    bends : int
        As `bends_of`.
    """
    named = banded_by(schema, rows, targets.between(0, len(rows)), bends)
    for name, told in named.items():
        yield f"{name}: {told.in_words()}; {_advice(name, told)}"
    if not named and (words := _together(schema, rows, labels, targets, model)):
        yield words


def remarks_on_directions(curves: int, model: ModelTerms) -> Iterator[str]:
    """Yield what to do where the label curves along some directions and the model of a draft is straight."""
    kinds = {one.kind for one in candidates_of(model)}
    if not curves or not all(_BENDS.get(kind) == 1 for kind in kinds):
        return
    directions = "one direction" if curves == 1 else f"{curves} directions"
    yield (
        f"{ON_MODEL}{model.kind}: the label curves along {directions} of the rows, as where a value is bad"
        " when high and when low, or only where another is high, and this model is straight: "
        + (
            "write what curves into a column of its own in every table"
            if "cox" in kinds
            else "draft again with --model averaged"
        )
    )


def _advice(name: str, told: Told) -> str:
    if told.numbers <= MAX_DRAFT_LEVELS:
        return f"draft again with --category {quote(name)}, by which each number is a level"
    if told.by_number:
        return f"draft again with --other {quote(name)}, by which each number of many rows is a level"
    return "write its band into a column of its own in every table, such as low, middle and high"


def _together(
    schema: Schema, rows: Matrix64, labels: NDArray[Any], targets: Targets, model: ModelTerms
) -> str | None:
    """Return a remark if the bands of all columns tell clearly more than the model finds."""
    label = schema.label_column
    if not isinstance(model, get_args(Fitted)) or model.kind == "mlp" or label.task == "survival":
        return None
    some = sample_of(len(rows), COMPARED_ROWS, np.random.default_rng(0))
    rows, labels, told = rows[some], labels[some], targets.take(some)

    def fit(known: NDArray[np.bool_]) -> Matrix64 | None:
        local = cast("Fitted", model)
        if label.task == "multilabel":
            fitted = fit_each(local, rows[known], labels[known], label.outputs)
        else:
            fitted = fit_by(local, rows[known], labels[known], label.outputs if targets.classes else 0)
        if fitted is None:
            return None
        said = fitted.predictions(rows[~known])
        if not targets.classes:
            return said
        said = said[:, list(targets.classes)]
        return said / np.array(targets.deviations) if targets.deviations else said

    found = told_together(rows, list(_places_of_numbers(schema).values()), told, fit)
    if found is None or not found.is_lost:
        return None
    bent = _bent(schema, rows, told)
    return (
        f"{ON_MODEL}{model.kind}: bands of all columns of numbers together predict the label (R squared"
        f" {found.in_bands:.2f}) better than it does ({max(found.by_model, 0.0):.2f}), on rows that were left"
        f" out: there are curves that it does not draw{f', of {bent} most of all' if bent else ''}. Write"
        " bands of these columns into columns of their own in every table, or, for curves of one bend, draft"
        f" again with --model {_CURVED.get(label.task, 'mlp')}"
    )


def _bent(schema: Schema, rows: Matrix64, targets: Matrix64) -> str:
    """Return the names of some columns that tell more in bands than along a line, the surest first."""
    sure = {}
    for name, place in _places_of_numbers(schema).items():
        told = told_by(rows[:, place], targets, 1)
        if told is not None and told.errors_told > SEEMS and told.in_bands > 2 * max(told.smoothly, 0.0):
            sure[name] = told.errors_more
    return ", ".join(sorted(sure, key=lambda name: -sure[name])[:_NAMED])
