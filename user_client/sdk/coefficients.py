"""Which factor, and how much: the weights of a linear model by original column, with 95 % intervals.

Only this institution can read them off h: ``F_i G_i`` brings its columns to where h is. How sure they are is
computed from its own rows: they tell the information that one row has, and all rows together have so many
times as much. The analyst has to send nothing for it that could tell of other institutions' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.answers import MemberReport
from protocol.errors import InputError
from protocol.messages import DownlinkManifest, UplinkManifest
from protocol.model_terms import CoxTerms, LogisticTerms, RidgeTerms, weighted_kinds
from protocol.table_schema import ColumnOfLevels, Schema
from protocol.terms import Terms
from user_client.cohort_statistics import least_squares
from user_client.custody.round_directory import RoundDirectory
from user_client.linear_inference import (
    covariance,
    information_of_classes,
    information_of_numbers,
    information_of_survival,
    penalty_of_classes,
)
from user_client.onnx_model.process import Model
from user_client.sdk.cohort import moments_of_all
from user_client.sdk.contrasts import (
    Coefficients,
    Fit,
    answers_of,
    changes_in,
    coefficient,
    scale_of,
    unit_of,
)
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.sdk.map_to_model import map_to_model
from user_client.sdk.terms import accepted_terms, own_schema
from user_client.sdk.uplink import stored_own_map
from user_client.tables import encode_labels, encode_rows, table_from

ROWS_PER_WEIGHT: Final = 10
"""Fewest rows of our own for each weight of h, for them to tell the information of a row; of survival, those
with the event."""
ROWS_OF_A_CHANGE: Final = 10
"""Fewest rows of our own that have something else than most, for them to tell what a change is worth."""
LEAST_RISK: Final = 3e-5
"""From this probability of the event on, a weight is read off survival in 32 bits to two thousandths."""
_FAR: Final = 2.0
_SHORTENINGS: Final = 20
OF_A_DISCRIMINANT: Final = (
    "these are the log-odds of a discriminant, not of a logistic regression: it takes the rows of a"
    " class as normally distributed, so with a rare class, or with columns of few values, they may be too"
    " large or too small"
)
OF_A_PENALTY: Final = "the model has a penalty, which draws coefficients towards zero"
CAUSES_NOTHING: Final = "a coefficient says what goes with the answer, not what causes it"
Matrix64 = NDArray[np.float64]


def coefficients(
    directory: RoundDirectory, data: Any, asked_report: Callable[[], MemberReport | None]
) -> Coefficients:
    """Return the coefficients of h by original column; `Round.coefficients` has the parameters.

    Where the total is here, those of a number are of least squares on all rows.
    """
    manifest, terms = directory.load(DownlinkManifest), accepted_terms(directory)
    if terms.sums is not None and terms.sums.cohort and terms.task == "number":
        return _of_all_rows(directory, terms)
    require_whole_rows(own_group(directory), "a coefficient with its interval")
    _refuse_what_is_not_linear(terms)
    if terms.sums is None and data is None:
        raise InputError("name a TABLE with rows of ours: how sure a coefficient is comes from them")
    if terms.sums is None and stored_own_map(directory) is not None:
        raise InputError(
            "coefficients are of linear maps of the columns, and these rows were prepared with --own-map:"
            " `odc explain` says what the answers depend on"
        )
    schema = own_schema(directory)
    to_model, model = map_to_model(directory, manifest), Model(directory.read_model())
    weights = weights_of(model, terms, to_model.shape[1])
    changes = list(changes_in(schema))
    moves = np.array([row for *_, row in changes])
    values = moves @ to_model @ weights * unit_of(schema)
    errors, why_none = np.full(values.shape, np.nan), _why_no_interval_of_sums(terms)
    if terms.sums is None:
        errors, why_none = _errors(terms, schema, model, moves, weights, to_model, data, asked_report())
    notes = [] if why_none is None else [f"no intervals: {why_none}"]
    if why_none is None and (untold := _without_error(changes, errors)):
        notes.append(
            f"no interval where fewer than {ROWS_OF_A_CHANGE} rows of this table differ from the others:"
            f" {'; '.join(untold)}"
        )
    sent = terms.latent_dim if terms.sums else directory.load(UplinkManifest).rep.shape[1]
    notes += _notes(terms, schema.width, sent, has_intervals=why_none is None)
    found = [
        coefficient(column, change, values[place, each], errors[place, each], answer=answer)
        for each, answer in enumerate(answers_of(schema))
        for place, (column, change, _) in enumerate(changes)
    ]
    return Coefficients(scale_of(schema), tuple(found), tuple(notes))


def _of_all_rows(directory: RoundDirectory, terms: Terms) -> Coefficients:
    """Return least squares on the rows of all institutions, from their total."""
    schema, moments = terms.table_schema, moments_of_all(directory)
    changes = list(changes_in(schema))
    try:
        fitted = least_squares(moments, np.array([row for *_, row in changes]))
    except ValueError as error:
        raise InputError(f"there are no coefficients of all rows: {error}") from None
    unit = unit_of(schema)
    told = [
        coefficient(column, change, unit * value, unit * error, fitted.quantile)
        for (column, change, _), value, error in zip(changes, fitted.values, fitted.errors, strict=True)
        if not np.isnan(value)
    ]
    untold = [
        f"{column}, {change}"
        for (column, change, _), value in zip(changes, fitted.values, strict=True)
        if np.isnan(value)
    ]
    fit = Fit(moments.rows, fitted.freedom, fitted.r_squared, unit * fitted.deviation)
    return Coefficients(scale_of(schema), tuple(told), tuple(_notes_on_all_rows(untold)), fit)


def _errors(
    terms: Terms,
    schema: Schema,
    model: Model,
    moves: Matrix64,
    weights: Matrix64,
    to_model: Matrix64,
    data: Any,
    report: MemberReport | None,
) -> tuple[Matrix64, str | None]:
    """Return the standard error of each change, (changes, m), for each answer, from rows of ours.

    NaN for a change that these rows hardly tell of; NaN for all and the reason if there is none.
    """
    table = table_from(data)  # once: the result of a query may come in another order the next time
    features, labels = encode_rows(table, schema), encode_labels(table, schema)
    rows_in_all = (report["results"] or {}).get("rows") if report else None
    telling = int((labels > 0).sum()) if terms.task == "survival" else len(labels)
    why_none = _why_no_interval(terms, telling, rows_in_all)
    if why_none is not None or rows_in_all is None:
        return np.full((len(moves), weights.shape[1]), np.nan), why_none
    rows, contrasts = features @ to_model, moves @ to_model
    spread = covariance_of_weights(terms, model, rows, labels.astype(np.float64), weights, rows_in_all)
    variances = np.einsum("ij,ajk,ik->ia", contrasts, spread, contrasts)
    errors = np.sqrt(np.maximum(variances, 0)) * unit_of(schema)  # rounding may go below 0
    errors[~_are_told(features, moves)] = np.nan
    return errors, None


def _are_told(features: Matrix64, moves: Matrix64) -> NDArray[np.bool_]:
    """Return of which changes enough rows tell: in each feature that they mostly move, some differ from most.

    What no row has, the information of the rows does not contain, and the penalty alone would make it sure.
    """
    differing = (features != np.median(features, axis=0)).sum(axis=0)
    mostly = np.abs(moves) >= np.abs(moves).max(axis=1, keepdims=True) / 4
    return np.asarray(np.where(mostly, differing, len(features)).min(axis=1) >= ROWS_OF_A_CHANGE)


def _without_error(changes: Sequence[tuple[str, str, Matrix64]], errors: Matrix64) -> list[str]:
    """Return the changes without a standard error, in words."""
    untold = np.flatnonzero(np.isnan(errors).all(axis=1)).tolist()
    return [f"{column}, {change}" for column, change, _ in (changes[place] for place in untold)]


def _refuse_what_is_not_linear(terms: Terms) -> None:
    if terms.returns_anchor_predictions:
        raise InputError("under these terms h stays at the analyst, and our own model is not linear")
    if not isinstance(terms.model, LogisticTerms | RidgeTerms | CoxTerms):
        error = InputError(f"a model of the kind {terms.model.kind} has no coefficients")
        error.hint = "`odc explain TABLE` works for every model; logistic, ridge and cox have coefficients"
        raise error


def _link(terms: Terms, answers: Matrix64) -> Matrix64:
    """Return what is linear in a row, (n, answers).

    The log-odds of each class against the first, or of each label; the number as on the wire, or the log of
    the hazard.
    """
    if terms.task == "number":
        return answers[:, :1]
    if terms.task == "survival":
        return np.asarray(np.log(-np.log(answers[:, -1:])))
    if terms.task == "multilabel":
        return np.asarray(np.log(answers) - np.log(1 - answers))
    return np.asarray(np.log(answers[:, 1:]) - np.log(answers[:, :1]))


def weights_of(model: Model, terms: Terms, latent_dim: int) -> Matrix64:
    """Return the weights of h, (l, answers), from what it says at the origin and a step along each direction.

    Where h is nearly sure, its answer in 32 bits has few digits left or none: a step that goes so far is
    shortened.
    """
    output, steps = terms.table_schema.label_column.model_output, np.ones(latent_dim)
    if terms.task == "survival":
        _refuse_rare(model, terms, latent_dim)
    for _ in range(_SHORTENINGS):
        asked = np.vstack([np.zeros(latent_dim), np.diag(steps)])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = _link(terms, model.run(asked.astype(np.float32), output).astype(np.float64))
            moved = found[1:] - found[0]
        too_far = ~(np.abs(moved) <= _FAR).all(axis=1)
        if not too_far.any():
            return np.asarray(moved / steps[:, None])
        steps[too_far] /= 4
    raise InputError("the model is too sure of its answer in the middle of all columns to tell its weights")


def _refuse_rare(model: Model, terms: Terms, latent_dim: int) -> None:
    """Raise `InputError` where the event is so rare that survival near 1, in 32 bits, has no digits left."""
    middle = np.zeros((1, latent_dim), np.float32)
    survival = model.run(middle, terms.table_schema.label_column.model_output).astype(np.float64)[0, -1]
    if 1 - survival < LEAST_RISK:
        error = InputError(
            f"in the middle of all columns the event has a probability below {LEAST_RISK:g} until the last"
            " time, of which the model's answers have too few digits to tell its weights"
        )
        error.hint = (
            "`odc explain TABLE` says what each column does; terms with a later last time have more digits"
        )
        raise error


def covariance_of_weights(
    terms: Terms, model: Model, rows: Matrix64, labels: Matrix64, weights: Matrix64, rows_in_all: int
) -> Matrix64:
    """Return the covariance of the weights for each answer, (answers, l, l)."""
    assert isinstance(terms.model, LogisticTerms | RidgeTerms | CoxTerms)  # noqa: S101  # refused before
    # h is fitted on rows divided by one number for all directions, and so is its penalty
    penalty = np.full(rows.shape[1] + 1, rows.var(axis=0).mean() / terms.model.inverse_penalty)
    if terms.task == "survival":
        information = information_of_survival(rows, (rows @ weights)[:, 0], labels)
        return covariance(information, rows_in_all, np.diag(penalty[1:]))[None]
    penalty[0] = 0.0  # the intercept has none
    with_ones = np.column_stack([np.ones(len(rows)), rows])
    answers = model.run(rows.astype(np.float32), terms.table_schema.label_column.model_output)
    if terms.task == "multilabel":
        alike = penalty_of_classes(penalty, 1)
        of_each = (information_of_classes(with_ones, one[:, None]) for one in answers.T.astype(np.float64))
        return np.stack([covariance(each, rows_in_all, alike)[1:, 1:] for each in of_each])
    if terms.task == "number":
        errors = answers[:, 0] - labels
        information = information_of_numbers(with_ones, errors)
        if (spread := float(np.mean(np.square(errors)))) > 0:
            penalty /= spread  # as the squares are, in the likelihood
    else:
        information = information_of_classes(with_ones, answers[:, 1:].astype(np.float64))
    found = covariance(information, rows_in_all, penalty_of_classes(penalty, weights.shape[1]))
    width = len(penalty)
    return np.stack(
        [found[start + 1 : start + width, start + 1 : start + width] for start in range(0, len(found), width)]
    )


def _why_no_interval(terms: Terms, telling: int, rows_in_all: int | None) -> str | None:
    """Return why there is no interval; ``telling`` are our rows, or of survival those with the event."""
    needed = ROWS_PER_WEIGHT * (terms.latent_dim + 1)
    if terms.model_privacy is not None:
        return "the noise of a private model is not in such an interval"
    if weighted_kinds(terms.model):
        return "rows that count by their class are more or less certain than such an interval takes them for"
    if telling < needed:
        what = "rows with the event" if terms.task == "survival" else "rows"
        return f"{telling} {what} tell too little of {terms.latent_dim} directions; {needed} would do"
    if rows_in_all is None:
        return "the analyst, who knows how many rows trained the model, cannot be reached"
    return None


def _why_no_interval_of_sums(terms: Terms) -> str | None:
    if terms.task == "classes":
        return "a total does not tell how sure the log-odds of classes are"
    return "the total, which tells how sure each is, goes to no institution under these terms (`cohort`)"


def _notes_on_all_rows(untold: Sequence[str]) -> Iterator[str]:
    yield (
        "least squares without a penalty, from the total; the model that predicts has a penalty, which draws"
        " its coefficients towards zero, and such intervals would not hold for them"
    )
    yield "the intervals hold if rows are drawn one by one, and errors vary alike at every institution"
    if untold:
        yield (
            "no row tells these apart from other columns, as far as sums have digits, so they have no"
            f" coefficient: {'; '.join(untold)}"
        )
    yield CAUSES_NOTHING


def _notes(terms: Terms, width: int, sent: int, *, has_intervals: bool) -> Iterator[str]:
    """Yield what to know of coefficients; ``width`` is that of our own rows, ``sent`` our l_i."""
    if terms.sums is not None:
        yield OF_A_DISCRIMINANT if terms.task == "classes" else OF_A_PENALTY
        yield CAUSES_NOTHING
        return
    if has_intervals:
        yield "the intervals hold if the rows of the other institutions are like those of this table"
    yield OF_A_PENALTY
    if any(isinstance(column, ColumnOfLevels) for column in terms.table_schema.columns):
        narrow = ": its interval is narrow because of that, and does not show that the effect is small"
        yield (
            "the penalty pulls the coefficient of a level that few rows have towards zero"
            f"{narrow if has_intervals else ''}"
        )
    if sent < width:
        yield (
            f"{sent} of {width} directions were sent: columns that go together share their"
            " coefficients, which are those of this model and not of one with all directions"
        )
    if terms.dither:
        effect = "draws coefficients towards zero" if terms.model_privacy else "makes coefficients less sure"
        yield (
            f"the model was trained on rows with noise, which {effect}"
            f"{'; the intervals do not show that' if has_intervals else ''}"
        )
    yield CAUSES_NOTHING
