"""Draft terms from one table or a dictionary, for people to correct before the analyst publishes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Final, Self, Unpack, cast

import pyarrow as pa
import tomli_w
from numpy.typing import NDArray
from pydantic import ValidationError

from protocol.errors import InputError
from protocol.model_terms import ModelTerms
from protocol.table_schema import DateFormat, LevelsColumn, Schema
from protocol.texts import why_not_new
from user_client.privacy.information import Information
from user_client.rows import class_counts
from user_client.sdk.agreement import LEAST_SIGNAL, Agreement, AgreementOptions, check_choice
from user_client.sdk.drafting_curves import bends_of, model_of, remarks_on_curves, remarks_on_directions
from user_client.sdk.drafting_dither import remarks_on_dither
from user_client.sdk.lower_dimensions import Kept, kept_by_fewer
from user_client.sdk.privacy import bits_of, measured, score_targets
from user_client.secret.basis import principal_axes
from user_client.secret.expansion import Matrix64
from user_client.secret.signal import OwnScore, Signal, dimensions_of_variance, score_of
from user_client.secret.targets import Targets
from user_client.tables import draft_schema, encode_labels, encode_rows, table_from, with_labels
from user_client.tables.dictionary import Dictionary, draft_from_dictionary, explain_columns
from user_client.tables.draft_column import Encoding
from user_client.tables.draft_label import DraftedEvent

KEPT_BY_DRAFT: Final = 0.98
"""R^2 of the drafting party's own score that as many leading axes as drafted keep."""
WITHOUT_EVIDENCE: Final = 0.99
"""Share of the rows' squares that the drafted latent dimension keeps where the label cannot tell."""


@dataclass(frozen=True)
class DraftedTerms:
    """A file of terms, and what was measured to write it."""

    content: dict[str, Any]
    """What the analyst's operator reads from the file; checked when the terms are published."""
    features: int
    """Encoded features of a row."""
    latent_dim: int
    signal: Signal | None
    """How much of the table's own score lies along its leading axes; None if no table can tell."""
    information: Information | None
    """How many bits a row holds, and how many of them can leave; None if there are no rows."""
    remarks: list[str]
    """What a person should look at, one sentence each."""
    fewer: tuple[Kept, ...] = ()
    """What the latent dimension keeps of the own score, and what fewer would; empty if no table can tell.
    It is not in the file, because it tells of the table's own rows."""
    class_rows: tuple[int, ...] = ()
    """How many rows of each class the table has, which is not in the file either; empty for other tasks."""

    def signed_by(self, analyst_key: str | None) -> Self:
        """Return the same, naming the only key that the analyst may sign with, if it is known."""
        return replace(self, content={**self.content, "analyst_key": analyst_key}) if analyst_key else self

    def to_toml(self) -> str:
        """Return the file for people to edit."""
        return tomli_w.dumps(self.content)


def draft_terms(
    data: Any,
    *,
    label: str | Sequence[str],
    latent_dim: int | None = None,
    encoding: str = "ranks",
    exclude: Sequence[str] = (),
    categories: Sequence[str] = (),
    dates: Mapping[str, str] | None = None,
    durations: Mapping[str, str] | None = None,
    ordinals: Mapping[str, Sequence[str]] | None = None,
    others: Sequence[str] = (),
    imputes: Mapping[str, str] | None = None,
    logarithms: Sequence[str] = (),
    classes: Sequence[str] = (),
    missing: Sequence[str] = (),
    missing_in: Mapping[str, Sequence[str]] | None = None,
    label_range: tuple[float, float] | None = None,
    event: DraftedEvent | None = None,
    **agreed: Unpack[AgreementOptions],
) -> DraftedTerms:
    """Draft terms from one table, whose columns, quantiles, levels and shares become the schema.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        Our own table, or a public one of the same columns.
    label : str or sequence of str
        The column to predict; of the task multilabel several.
    latent_dim : int, optional
        How many numbers a row becomes. Unless it is given, as few as keep `KEPT_BY_DRAFT` of what the
        table's rows say about the label.
    encoding : {"ranks", "ranges", "plain"}
        How numbers and categories become features: see `tables.draft.draft_schema`.
    exclude, categories : sequence of str
        Columns to leave out, and columns of numbers that are names of categories.
    dates, durations : mapping of str to str, optional
        How the dates of a column are written, and columns of dates that become days since the date in
        another: see `tables.draft.draft_schema`.
    ordinals : mapping of str to sequence of str, optional
        The levels of columns whose levels have an order, the lowest first.
    others : sequence of str
        Columns of which one level takes all rare texts, and all that are not in the table.
    imputes : mapping of str to str, optional
        What an empty field of a column counts as: see `tables.draft.draft_schema`.
    logarithms : sequence of str
        Columns of numbers that are mapped as their logarithms.
    classes : sequence of str
        Classes of the label that only other institutions have.
    missing : sequence of str
        Further texts that stand for an empty field, for example -999.
    missing_in : mapping of str to sequence of str, optional
        Texts that stand for an empty field in one column alone.
    label_range : tuple of float, optional
        Between which its numbers lie at every institution: see `tables.draft.draft_schema`.
    event : DraftedEvent, optional
        Of survival, where ``label`` is the column of times.
    **agreed
        The fields of `agreement.Agreement`; ``parties`` and ``title`` are needed.

    Raises
    ------
    InputError, TableError
        If an argument is not one of its values, or a column of the table cannot be a feature.
    """
    agreement = Agreement(**agreed)
    check_choice("encoding", encoding, Encoding)
    _check_names(
        exclude=exclude,
        categories=categories,
        others=others,
        logarithms=logarithms,
        classes=classes,
        missing=missing,
    )
    for format_of_dates in (dates or {}).values():
        check_choice("the format of dates", format_of_dates, DateFormat)
    _check_task(agreement, event, classes=classes, label_range=label_range)
    rows = table_from(data)
    drafted = draft_schema(
        rows,
        label,
        exclude,
        encoding=cast("Encoding", encoding),
        categories=categories,
        dates=cast("Mapping[str, DateFormat]", dates or {}),
        durations=durations,
        ordinals=ordinals,
        others=others,
        imputes=imputes,
        logarithms=logarithms,
        classes=classes,
        missing=missing,
        missing_in=missing_in,
        task=agreement.task,
        label_range=label_range,
        event=event,
    )
    schema = _valid(drafted.content)
    _check_dimension(latent_dim, schema.width)
    measured = _measured(rows, schema, latent_dim, agreement)
    return DraftedTerms(
        agreement.terms(drafted, schema, measured.latent_dim),
        schema.width,
        measured.latent_dim,
        measured.signal,
        measured.bits,
        [*drafted.remarks, *measured.remarks],
        measured.fewer,
        measured.class_rows,
    )


@dataclass(frozen=True)
class _Measured:
    """The latent dimension, what it and fewer keep of the own score, what leaves of a row, and remarks."""

    latent_dim: int
    signal: Signal | None
    fewer: tuple[Kept, ...]
    bits: Information | None
    remarks: list[str]
    class_rows: tuple[int, ...]


def _measured(rows: pa.Table, schema: Schema, wanted: int | None, agreement: Agreement) -> _Measured:
    labelled = with_labels(rows, schema)
    encoded, labels = encode_rows(labelled, schema), encode_labels(labelled, schema)
    task = schema.label_column.task
    targets = score_targets(labels, task)
    score = score_of(encoded, targets)
    singular_values, axes = principal_axes(encoded)
    fewest = _fewest_dimensions(score, axes, singular_values)
    latent_dim = wanted or fewest
    leading = axes[:, :latent_dim]
    signal = score.along(leading) if score else None
    curves = signal.curves if signal else 0
    on_curves = (
        list(_remarks_on_curves(schema, encoded, labels, targets, agreement, curves)) if targets else []
    )
    projected, dither = encoded @ leading, agreement.dither
    bits = partial(bits_of, schema, encoded, projected, agreement.rep_dtype)
    on_dither: Iterable[str] = ()
    if targets and agreement.model_epsilon is None:
        on_dither = remarks_on_dither(projected, labels, schema.label_column, _model(agreement), dither, bits)
    return _Measured(
        latent_dim,
        signal,
        kept_by_fewer(score, axes, latent_dim, fewest) if score else (),
        bits(dither),
        [
            *on_curves,
            *_remarks_on_dimension(
                signal, latent_dim, schema.width, len(encoded), has_curves=bool(on_curves)
            ),
            *on_dither,
        ],
        tuple(class_counts(labels).tolist()) if task == "classes" else (),
    )


def _remarks_on_curves(
    schema: Schema,
    encoded: Matrix64,
    labels: NDArray[Any],
    targets: Targets,
    agreement: Agreement,
    curves: int,
) -> Iterator[str]:
    """Yield what the drafted model misses of some of the rows, whose own score has so many ``curves``."""
    model, some = _model(agreement), measured(encoded)
    yield from remarks_on_curves(
        schema, encoded[some], labels[some], targets.of(some), model, bends_of(model, agreement.dither)
    )
    yield from remarks_on_directions(curves, model)


def _model(agreement: Agreement) -> ModelTerms:
    return model_of(agreement.model_terms()["model"], agreement.task)


def draft_terms_from_dictionary(
    path: Path,
    *,
    label: str | Sequence[str],
    latent_dim: int | None = None,
    exclude: Sequence[str] = (),
    missing: Sequence[str] = (),
    event: DraftedEvent | None = None,
    **agreed: Unpack[AgreementOptions],
) -> DraftedTerms:
    """Draft terms from a public data dictionary, so that they say nothing of anybody's rows.

    Nothing is measured: signal and information are None. Unless it is given, the latent dimension is the
    smallest that loses nothing of a row.

    Parameters
    ----------
    path : path
        A TOML or CSV file: see docs/defaults.md.
    label, latent_dim, exclude, missing, event, **agreed
        As for `draft_terms`.

    Raises
    ------
    InputError, TableError
        If an argument is not one of its values, or the dictionary cannot be used.
    """
    agreement = Agreement(**agreed)
    _check_task(agreement, event, classes=(), label_range=None)
    drafted = draft_from_dictionary(
        Dictionary.read(path), label, exclude, missing=missing, task=agreement.task, event=event
    )
    schema = _valid(drafted.content)
    _check_dimension(latent_dim, schema.width)
    remarks = list(drafted.remarks)
    if latent_dim is None:
        latent_dim = _lossless_dimensions(schema)
        remarks.append(
            f"latent_dim {latent_dim}: a dictionary has no rows that could tell how many dimensions the label"
            " needs, so it is as many as lose nothing of a row; fewer (--latent-dim) send fewer bits, and"
            " `odc terms check` says what they keep of each table's own score"
        )
    content = agreement.terms(drafted, schema, latent_dim)
    return DraftedTerms(content, schema.width, latent_dim, None, None, remarks)


def _lossless_dimensions(schema: Schema) -> int:
    """Return how many dimensions the encoded features span: those of the levels of a column add up to 0."""
    return schema.width - sum(isinstance(column, LevelsColumn) for column in schema.columns)


def _check_names(**given: Any) -> None:
    """Raise `InputError` for an argument that takes several names and got one, or something else."""
    for argument, names in given.items():
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InputError(f"{argument} takes several names, such as [{str(names)!r}], got {names!r}")


def _check_dimension(latent_dim: int | None, features: int) -> None:
    if latent_dim is None:
        return
    if isinstance(latent_dim, bool) or not isinstance(latent_dim, Integral):
        raise InputError(f"latent_dim is a whole number, such as 3, got {latent_dim!r}")
    if not 1 <= latent_dim <= features:
        raise InputError(f"latent_dim must be between 1 and the {features} features, got {latent_dim}")


def _valid(content: dict[str, Any]) -> Schema:
    """Return a drafted schema; raises `InputError` where a given range, time or name is none."""
    try:
        schema = Schema.model_validate(content, strict=False)
    except ValidationError as error:
        refused = InputError(f"these columns make no schema: {explain_columns(error, content)}")
        refused.hint = "leave a column out with --exclude, or change its name or its texts in the table"
        raise refused from None
    if reason := next(why_not_new({"table_schema": content}), None):
        raise InputError(f"such terms cannot be published: {reason}")
    return schema


def _check_task(
    agreement: Agreement,
    event: DraftedEvent | None,
    *,
    classes: Sequence[str],
    label_range: tuple[float, float] | None,
) -> None:
    """Raise `InputError` if an argument does not go with the task."""
    task = agreement.task
    if event is not None and not isinstance(event, DraftedEvent):
        raise InputError(
            "event takes a DraftedEvent, the column that says how a time ended and what it says of the event,"
            ' such as DraftedEvent("status", "died")'
        )
    if (task == "survival") != (event is not None):
        raise InputError(
            "survival needs the column that says how a time ended, and what it says of the event"
        )
    for name, goes_with, is_given in (
        ("nri", "classes", agreement.nri),
        ("model_epsilon", "classes", agreement.model_epsilon is not None),
        ("classes", "classes", bool(classes)),
        ("label_range", "number", label_range is not None),
    ):
        if is_given and task != goes_with:
            raise InputError(f"{name} goes with the task {goes_with}, and the task is {task}")


def _fewest_dimensions(score: OwnScore | None, axes: Matrix64, singular_values: Matrix64) -> int:
    """Return how many leading axes keep the own score, or the squares where the label cannot tell."""
    if score is None:
        return dimensions_of_variance(singular_values, WITHOUT_EVIDENCE)
    return score.dimensions(axes, KEPT_BY_DRAFT)


def _remarks_on_dimension(
    signal: Signal | None, latent_dim: int, features: int, rows: int, *, has_curves: bool
) -> Iterator[str]:
    if signal is None and has_curves:
        yield (
            f"latent_dim {latent_dim}: this table cannot tell how many dimensions the label needs, because"
            " its rows say nothing about it along straight lines, and what they say lies along the curves"
            f" named above; so it is as many as hold {WITHOUT_EVIDENCE:.0%} of their squares"
        )
    elif signal is None:
        yield (
            f"latent_dim {latent_dim}: this table cannot tell how many dimensions the label needs, because it"
            " has too few rows (or of one class), or they say too little; ask a member with more to draft"
        )
    elif signal.kept < LEAST_SIGNAL:
        yield (
            f"latent_dim {latent_dim}: so many leading axes keep only {signal.kept:.2f} of this table's own"
            f" score (R squared); without --latent-dim, the draft takes as many as keep {KEPT_BY_DRAFT:g}"
        )
    if latent_dim == features:
        yield (
            f"latent_dim {latent_dim}: as many as there are features, so nothing of a row is projected away;"
            " a smaller one sends fewer bits of a row and may cost accuracy"
        )
    if rows < latent_dim:
        yield (
            f"latent_dim {latent_dim}: more than the {rows} rows of this table; an institution with so few"
            " rows adds directions that mean nothing"
        )
