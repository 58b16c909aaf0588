"""Predict on this machine, with what the downlink has brought."""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.errors import InputError, UnreadableFileError
from protocol.labels import Label, MultiLabel, NumberLabel, SurvivalLabel
from protocol.messages import DownlinkManifest
from runtime.terminal import plain
from user_client.custody.round_directory import (
    ERRORS_FILE,
    TRAINED_MODEL_FILE,
    RoundDirectory,
)
from user_client.errors import (
    FieldError,
    MissingColumnError,
    ModelRefusedError,
    PartsNeededError,
)
from user_client.onnx_model.process import Model
from user_client.sdk.downlink import check_basis, own_model
from user_client.sdk.joined_rows import own_group, require_whole_rows
from user_client.sdk.map_to_model import map_of_rows
from user_client.sdk.shared_rows import trained_model
from user_client.sdk.terms import accepted_terms, own_schema
from user_client.sdk.unfit_rows import UnfitRows, listed, predict_fitting
from user_client.tables import (
    are_wholly_empty,
    decode_numbers,
    encode_rows,
    gathered,
    strange_columns,
    table_from,
    text_of,
)

log = logging.getLogger(__name__)
_LOOKED_AT: Final = 1000
"""So many rows at the beginning of a table say whether its columns are what the terms mean."""
_Version = tuple[int, int, int]


@dataclass(frozen=True)
class Predictions:
    """What the model predicts, row by row.

    Attributes
    ----------
    classes : tuple of str
        Empty if it predicts no classes.
    labels : list
        The class, the number in the unit of the label column, or for survival the probability of the event
        until the last of the times. The class is the most likely one, unless thresholds were given. Of
        several labels a dictionary: what the column of each would say.
    probabilities : (n, classes), (n, times) or (n, labels) ndarray of float32
        Of each class or label, or that the event comes after each time.
    times : tuple of float
        Of survival.
    interval : (n, 2) ndarray of float64, optional
        Ends of the interval of each number, if one was asked for.
    names : tuple of str
        Of several labels.
    """

    classes: tuple[str, ...]
    labels: list[Any]
    probabilities: NDArray[np.float32]
    times: tuple[float, ...] = ()
    interval: NDArray[np.float64] | None = None
    names: tuple[str, ...] = ()

    def columns(self) -> dict[str, pa.Array]:
        """Return them as the columns of a table."""
        names = [
            *(f"probability_{name}" for name in self.classes or self.names),
            *(f"survival_{plain(at)}" for at in self.times),
        ]
        if self.names:
            found = {
                f"prediction_{name}": pa.array([row[name] for row in self.labels], pa.string())
                for name in self.names
            }
        else:
            found = {"prediction": pa.array(self.labels, pa.string() if self.classes else pa.float64())}
        found |= {name: pa.array(column) for name, column in zip(names, self.probabilities.T, strict=True)}
        if self.interval is not None:
            found |= {"low": pa.array(self.interval[:, 0]), "high": pa.array(self.interval[:, 1])}
        return found


class Predictor:
    """The model of one round, opened once to predict for any number of tables.

    Raises `NotPreparedError` before `receive`, or if the secret basis was erased. Nothing is read from the
    disk afterwards but the errors that `Round.evaluate` has found of this model meanwhile, and several
    threads may use it at once.

    Attributes
    ----------
    terms : Terms
    schema : Schema
        How our table becomes a matrix: that of the terms, without columns that these say we lack.
    kind : str
        Of the model that answers: that of the terms, or of the one that `Round.train` has made.
    """

    def __init__(self, directory: RoundDirectory) -> None:
        manifest = directory.load(DownlinkManifest)
        self.terms = accepted_terms(directory)
        self.schema = own_schema(directory)
        self.kind: str = self.terms.model.kind
        self._label = self.schema.label_column
        self._directory = directory
        self._group = own_group(directory)
        self._trained = _version(directory, TRAINED_MODEL_FILE)
        self._errors = _Errors(None, b"")
        self._known_errors()
        self._answer: Callable[[NDArray[Any]], NDArray[np.floating]]
        """What the model says of what it takes: aligned rows, or encoded ones under NRI-DC."""
        self._to_model: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
        if manifest.has_anchor_predictions:
            self._answer = own_model(directory).probabilities
            return
        check_basis(directory)
        self._to_model = map_of_rows(directory, manifest)
        if (trained := trained_model(directory)) is not None:
            self.kind = trained.kind
            self._answer = trained.model.predictions
            return
        model, output = Model(directory.read_model()), self._label.model_output
        self._answer = lambda rows: model.run(rows.astype(np.float32), output)

    def __repr__(self) -> str:
        return f"<Predictor of {self.terms.collaboration_id}>"

    def predict(
        self, data: Any, *, thresholds: Mapping[str, float] | None = None, coverage: float | None = None
    ) -> Predictions:
        """Return ``h(f_i(Y) G_i)`` for a table with the feature columns of the terms; no label is needed.

        Under NRI-DC it is ``t_i(Y)``, with our own model; after `Round.train` our own model takes the place
        of h. Nothing leaves this machine.

        Parameters
        ----------
        data : path, pyarrow.Table or data frame
        thresholds : mapping of str to float, optional
            Probabilities from which a class is predicted. Of several classes that reach theirs the likeliest
            is taken; if none does, the likeliest of those without a threshold. Of several labels, each is
            predicted from its own on, by default 0.5.
        coverage : float, optional
            With each number, also the interval that holds the true one with this probability. It is as wide
            as the errors on the rows of `Round.evaluate` say, and holds for rows like those.

        Raises
        ------
        TableError
            If the table does not fit the terms; it names column and row.
        PartsNeededError
            If other institutions hold columns of these rows: `parts.JoinedPredictor` adds theirs.
        InputError
            If an option means nothing for what is predicted, or there are too few rows for an interval.
        """
        self.check(thresholds=thresholds, coverage=coverage)
        found = self.outputs(encode_rows(table_from(data), self.schema))
        return self._said(found, thresholds, coverage)

    def predict_aligned(
        self,
        aligned: NDArray[np.float32],
        *,
        thresholds: Mapping[str, float] | None = None,
        coverage: float | None = None,
    ) -> Predictions:
        """Return what the model says of aligned rows, (n, l): of joined rows the sum of all parts.

        It raises what `predict` does, and `InputError` under NRI-DC.
        """
        if self._to_model is None:
            raise InputError("under these terms no change of basis came back: rows cannot be aligned")
        self.check(thresholds=thresholds, coverage=coverage)
        return self._said(self._outputs(aligned), thresholds, coverage)

    def _said(
        self, found: NDArray[np.float32], thresholds: Mapping[str, float] | None, coverage: float | None
    ) -> Predictions:
        """Return what outputs of the model mean."""
        label = self._label
        if isinstance(label, NumberLabel):
            values = decode_numbers(found[:, 0], label)
            interval = None if coverage is None else self._interval(values, coverage, label)
            return Predictions((), values.tolist(), found[:, :0], interval=interval)
        if isinstance(label, SurvivalLabel):
            return Predictions((), (1 - found[:, -1].astype(np.float64)).tolist(), found, label.times)
        if isinstance(label, MultiLabel):
            return _with_labels(found, label, thresholds or {})
        chosen = _chosen(found, [(thresholds or {}).get(name) for name in label.classes])
        return Predictions(label.classes, [label.classes[index] for index in chosen], found)

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        """Names of the columns of `Predictions.columns` that say what is predicted."""
        if isinstance(self._label, MultiLabel):
            return tuple(f"prediction_{name}" for name in self._label.columns)
        return ("prediction",)

    def align(self, data: Any) -> NDArray[np.float32]:
        """Return ``Y F_i G_i`` for a table, (n, l): its rows in the representation of `Round.shared_rows`.

        Of joined rows this is our part, which is added to those of the others.

        Raises `InputError` under NRI-DC, where no G_i came back, and `TableError` as `predict` does.
        """
        if self._to_model is None:
            raise InputError("under these terms no change of basis came back: rows cannot be aligned")
        return self._to_model(encode_rows(table_from(data), self.schema)).astype(np.float32)

    def predict_parts(
        self,
        parts: Iterable[pa.Table],
        *,
        keep: Sequence[str] = (),
        thresholds: Mapping[str, float] | None = None,
        coverage: float | None = None,
        unfit: UnfitRows | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the predictions for the parts of one table, as tables, behind the columns to keep.

        Small parts are worked on together, so there may be fewer tables than parts.

        It raises what `predict` does, with the number that a row has in the whole table. With ``unfit`` a row
        that does not fit the terms is noted there instead, and its prediction is empty; if none fits, the
        first error is raised in the end.
        """

        def predicted(some: pa.Table) -> dict[str, pa.Array]:
            return self.predict(some, thresholds=thresholds, coverage=coverage).columns()

        def note(error: FieldError) -> None:
            in_table = error.in_whole_table(rows_before)
            if unfit is None:
                raise in_table from None
            unfit.note(in_table)

        rows_before, empty = 0, array("q")
        for part in gathered(parts, self.schema.width):
            if absent := [name for name in keep if name not in part.column_names]:
                raise MissingColumnError(absent[0], part.column_names)
            columns = {name: text_of(part, name) for name in keep}
            if rows_before == 0:
                with suppress(FieldError):  # which comes again below
                    self.warn_of_strange(part)
            found = predict_fitting(part, self.schema, predicted, note)
            empty.extend((np.flatnonzero(are_wholly_empty(part, self.schema)) + 1 + rows_before).tolist())
            if taken := columns.keys() & found.keys():
                raise InputError(
                    f"column '{taken.pop()}' cannot be kept: the predictions have one of this name; rename it"
                )
            yield pa.table(columns | found)
            rows_before += part.num_rows
        if unfit is not None and unfit.first is not None and len(unfit) == rows_before:
            raise unfit.first
        if empty:
            log.warning("rows in which all fields that the model reads are empty: %s", listed(empty))

    def warn_of_strange(self, part: pa.Table) -> None:
        """Log which columns at the beginning of a table are likely not what the terms mean."""
        if part.num_rows:  # the first part of a file has none
            for strange in strange_columns(part.slice(0, _LOOKED_AT), self.schema):
                log.warning("in the first rows, %s", strange)

    def check(self, *, thresholds: Mapping[str, float] | None, coverage: float | None) -> None:
        """Raise `InputError` for options that mean nothing for what is predicted."""
        if thresholds is not None and not isinstance(thresholds, Mapping):
            raise InputError("thresholds are a mapping of names to probabilities, such as {'yes': 0.3}")
        if thresholds:
            known: Sequence[str] = ()
            if isinstance(self._label, Label | MultiLabel):
                known = self._label.classes if isinstance(self._label, Label) else self._label.columns
            for name, threshold in thresholds.items():
                if name not in known:
                    what = f"one of {', '.join(known)}" if known else "classes, and these terms have none"
                    raise InputError(f"a threshold is for {what}; got one for another")
                _require_number("a threshold is a probability from 0 to 1", threshold)
                if not 0 <= threshold <= 1:
                    raise InputError(f"a threshold is a probability from 0 to 1, got {threshold:g}")
        if coverage is not None:
            if not isinstance(self._label, NumberLabel):
                raise InputError("an interval is for a number, and these terms do not predict one")
            _require_number("coverage is a number between 0 and 1, such as 0.9", coverage)
            self._require_errors()
            self._half_width(coverage)

    def outputs(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return what the model says of encoded rows, (n, m).

        These are the probabilities of the classes, (n, classes), or of the labels, (n, labels), numbers as on
        the wire, (n, 1), or the probabilities that the event comes after each time, (n, times).

        Raises `PartsNeededError` where other institutions hold columns of these rows.
        """
        require_whole_rows(self._group, "a prediction")
        return self._outputs(rows if self._to_model is None else self._to_model(rows))

    def _outputs(self, given: NDArray[np.floating]) -> NDArray[np.float32]:
        if len(given) == 0:
            return np.empty((0, self._label.outputs), np.float32)
        found = self._answer(given).astype(np.float32)
        if found.shape != (len(given), self._label.outputs):
            raise ModelRefusedError(
                f"it answers {len(given)} rows with numbers of another shape than the terms'"
            )
        return found

    def _interval(
        self, values: NDArray[np.float64], coverage: float, label: NumberLabel
    ) -> NDArray[np.float64]:
        half_width = self._half_width(coverage) * label.unit
        ends = np.column_stack([values - half_width, values + half_width]).clip(label.low, label.high)
        # a prediction beyond the range, where no label is, still lies in its interval
        return np.column_stack([np.minimum(ends[:, 0], values), np.maximum(ends[:, 1], values)])

    def _known_errors(self) -> bytes:
        """Return the errors of this model as its last evaluation has found them, empty without one.

        Those of a model that was trained meanwhile belong to a predictor that is opened later.
        """
        version = _version(self._directory, ERRORS_FILE)
        is_ours = _version(self._directory, TRAINED_MODEL_FILE) == self._trained
        if version is not None and version != self._errors.version and is_ours:
            with suppress(UnreadableFileError):  # removed just now
                self._errors = _Errors(version, self._directory.read(ERRORS_FILE))
        return self._errors.content

    def _require_errors(self) -> None:
        """Raise `PartsNeededError` where nobody can evaluate the model, because nobody has whole rows."""
        try:
            require_whole_rows(self._group, "an interval")
        except PartsNeededError as error:
            error.hint = "leave out --interval: it needs `odc evaluate`, which needs whole rows too"
            raise

    def _half_width(self, coverage: float) -> float:
        """Return the error that so large a share of rows like those of `evaluate` stays within.

        This is split conformal prediction (Lei et al. 2018, doi:10.1080/01621459.2017.1307116): over rows
        drawn as those were, an interval holds the truth with at least this probability.
        """
        if not 0 < coverage < 1:
            raise InputError(f"the share of an interval must lie between 0 and 1, got {coverage:g}")
        errors = np.frombuffer(self._known_errors(), "<f8")
        rank = math.ceil(round((len(errors) + 1) * coverage, 9))  # 25 * 0.28 is above 7
        if rank > len(errors):
            needed = math.ceil(round(coverage / (1 - coverage), 9))  # 0.9 / (1 - 0.9) is above 9
            error = InputError(
                f"an interval of {100 * coverage:.10g}% needs errors of at least {needed} rows that were not"
                f" sent; {len(errors)} are known"
            )
            error.hint = "run `odc evaluate TABLE` with more rows that have labels and were not sent"
            raise error
        return float(errors[rank - 1])


def _require_number(what: str, value: Any) -> None:
    """Raise `InputError` for an argument that is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{what}; got {value!r}")


@dataclass(frozen=True)
class _Errors:
    """The errors of a model, in ascending order, as the version of the file has them that was read."""

    version: _Version | None
    content: bytes


def _version(directory: RoundDirectory, name: str) -> _Version | None:
    """Return what tells one version of a file from the next, None if it is not here."""
    try:
        found = (directory.path / name).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _with_labels(
    probabilities: NDArray[np.float32], label: MultiLabel, thresholds: Mapping[str, float]
) -> Predictions:
    """Return the predictions of several labels, each by itself."""
    reached = probabilities >= np.array([thresholds.get(name, 0.5) for name in label.columns])
    said = [
        {one.name: one.present if has else one.absent for one, has in zip(label.labels, row, strict=True)}
        for row in reached.tolist()
    ]
    return Predictions((), said, probabilities, names=label.columns)


def _chosen(probabilities: NDArray[np.float32], thresholds: Sequence[float | None]) -> NDArray[np.int64]:
    """Return the class of each row: the likeliest of those that reach their threshold.

    If none does, it is the likeliest of those without one, or of all if each has one.
    """
    known = np.array([np.inf if each is None else each for each in thresholds])
    reached = probabilities >= known
    open_to_all = np.isinf(known) if np.isinf(known).any() else np.ones(len(known), np.bool_)
    allowed = np.where(reached.any(axis=1, keepdims=True), reached, open_to_all)
    return np.asarray(np.where(allowed, probabilities, -1).argmax(axis=1))
