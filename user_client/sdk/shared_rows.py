"""A model of our own, of the rows of all institutions, where these come back with their labels.

Terms that name the model `knn` share no model that the analyst has made of the rows: that model is the
aligned rows themselves. Each institution may train on them whatever it likes (Bogdanova et al., "Federated
Learning System without Model Sharing", Algorithm 1, steps 12 and 13), and predict with that instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from protocol.errors import InputError
from protocol.labels import Label, NumberLabel
from protocol.messages import DownlinkManifest
from protocol.model_terms import KnnTerms, candidates_of
from protocol.terms import Terms
from user_client.custody.round_directory import (
    ERRORS_FILE,
    EVALUATION_FILE,
    TRAINED_MODEL_FILE,
    RoundDirectory,
)
from user_client.errors import ModelRefusedError, NotPreparedError
from user_client.onnx_model.process import Model
from user_client.sdk.downlink import check_basis
from user_client.sdk.local_models import Fitted, fit_by, packed, text_in, unpacked
from user_client.sdk.terms import accepted_terms
from user_client.secret.local_model import FITTED_ROWS, LocalModel
from user_client.tables import decode_numbers

KINDS: Final[Mapping[str, type[Fitted]]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(Fitted)
}
"""The models that can be trained here, by name."""
MOST_NUMBERS: Final = 2**26
"""Of all shared rows together. An analyst shares 96 MiB of rows, which are less than half of it."""
Counts = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class SharedRows:
    """The aligned rows of all institutions, with their labels: X^ and L of the paper.

    Attributes
    ----------
    rows : (n, l) ndarray of float32
        X~_i G_i of all institutions whose rows trained the model; rounded to 16 bits of the largest number.
        Under noise, rows far from all others were brought nearer. `Predictor.align` brings a table of ours
        into the same representation.
    labels : (n,) ndarray
        The number of each row's class in ``classes``; or its number in the unit of the label column. Rows
        that are equal have the mean of their numbers.
    classes : tuple of str
        Empty for numbers.
    """

    rows: NDArray[np.float32]
    labels: NDArray[Any]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<SharedRows of {len(self.rows)} rows>"


@dataclass(frozen=True)
class Trained:
    """How a model of our own was trained on the shared rows.

    Attributes
    ----------
    kind : str
    rows, of_rows : int
        How many rows it was fitted on, and how many there are.
    """

    kind: str
    rows: int
    of_rows: int


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A model that was trained here on the shared rows, and of which kind it is."""

    kind: str
    model: LocalModel

    def __repr__(self) -> str:
        return f"<TrainedModel, {self.kind}>"


def _may_share(terms: Terms) -> bool:
    """Return whether the rows of all institutions may come back, with their labels."""
    is_named = any(isinstance(one, KnnTerms) for one in candidates_of(terms.model))
    return is_named and not terms.returns_anchor_predictions


def have_come(directory: RoundDirectory) -> bool:
    """Return whether the rows of all institutions have come back, which the choice of `auto` may decide."""
    return _may_share(accepted_terms(directory)) and bool(Model(directory.read_model()).shared_rows().size)


def shared_rows(directory: RoundDirectory) -> SharedRows:
    """Return the rows that came back in the place of a model.

    Raises
    ------
    NotPreparedError
        Before `receive`.
    InputError
        If the terms share no rows, or none have come back.
    ModelRefusedError
        If no round has such rows.
    """
    terms = accepted_terms(directory)
    distinct = _read(directory, terms)
    rows, labels = distinct.expanded(distinct.counts)
    label = terms.table_schema.label_column
    if isinstance(label, NumberLabel):
        return SharedRows(rows, decode_numbers(labels, label), ())
    assert isinstance(label, Label)  # noqa: S101  # a knn model predicts nothing else
    return SharedRows(rows, labels, label.classes)


def train(directory: RoundDirectory, kind: str) -> Trained:
    """Train a model of our own on the shared rows, and let it answer from now on.

    What was measured with the model before is removed: neither its scores nor its errors are of this one.
    """
    check_basis(directory)
    terms = accepted_terms(directory)
    model = _terms_of(kind, terms)
    with directory.exclusive():
        distinct = _read(directory, terms)
        rows, labels = distinct.expanded(distinct.drawn(FITTED_ROWS, np.random.default_rng(0)))
        classes = terms.table_schema.label_column.outputs if terms.task == "classes" else 0
        fitted = fit_by(model, rows.astype(np.float64), labels, classes)
        if fitted is None or len(fitted.present) < classes:  # the analyst takes no such rows
            raise ModelRefusedError("has rows of one label alone, or none of some class")
        _remove_measured(directory)
        directory.write_secret(TRAINED_MODEL_FILE, packed(fitted, kind=kind))
    return Trained(kind, fitted.fitted_rows, distinct.total)


def remove_trained(directory: RoundDirectory) -> None:
    """Let the model that came back answer again; raises `NotPreparedError` if no other does."""
    with directory.exclusive():
        if not directory.holds(TRAINED_MODEL_FILE):
            raise NotPreparedError("no model was trained here on shared rows: there is none to remove")
        _remove_measured(directory)
        directory.remove(TRAINED_MODEL_FILE)


def trained_model(directory: RoundDirectory) -> TrainedModel | None:
    """Return our own model of the shared rows; None if there is none."""
    if not directory.holds(TRAINED_MODEL_FILE):
        return None
    data = directory.read_secret(TRAINED_MODEL_FILE)
    return TrainedModel(text_in(data, "kind"), unpacked(data))


def is_trained(directory: RoundDirectory) -> bool:
    """Return whether a model that `train` has made answers, without reading it."""
    return directory.holds(TRAINED_MODEL_FILE)


def _remove_measured(directory: RoundDirectory) -> None:
    for name in (ERRORS_FILE, EVALUATION_FILE):
        directory.remove(name)


def _terms_of(kind: str, terms: Terms) -> Fitted:
    fit = [name for name, each in KINDS.items() if terms.task in each.tasks]
    if kind not in fit:
        raise InputError(f"a model of our own is one of {', '.join(fit)}; got '{kind}'")
    return KINDS[kind]()


@dataclass(frozen=True, repr=False)
class Distinct:
    """The distinct rows of a model, and how many rows each stands for.

    Attributes
    ----------
    rows : (u, l) ndarray
    counts : (u, k) ndarray
        By class; of numbers there is one.
    numbers : (u,) ndarray, optional
        The mean number of each, as on the wire.
    """

    rows: NDArray[np.float32]
    counts: Counts
    numbers: NDArray[np.float64] | None

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def expanded(self, counts: Counts) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return each row as often as it counts, (n, l), and the labels, (n,)."""
        where, column = np.nonzero(counts)
        times = counts[where, column]
        labels = column if self.numbers is None else self.numbers[where]
        return np.repeat(self.rows[where], times, axis=0), np.repeat(labels, times)

    def drawn(self, most: int, rng: np.random.Generator) -> Counts:
        """Return counts of rows that are drawn: at most so many, of each class its share and at least one."""
        if self.total <= most:
            return self.counts
        of_class = self.counts.sum(axis=0)
        taken = np.minimum(of_class, np.maximum(1, most * of_class // self.total))
        taken[taken.argmax()] -= max(0, int(taken.sum()) - most)
        columns = [
            rng.multivariate_hypergeometric(column, count, method="marginals")
            for column, count in zip(self.counts.T, taken, strict=True)
        ]
        return np.stack(columns, axis=1)


def _read(directory: RoundDirectory, terms: Terms) -> Distinct:
    directory.load(DownlinkManifest)  # it says that the model is here
    if not _may_share(terms):
        error = InputError("under these terms the rows of other institutions do not come back")
        error.hint = "only terms with the model knn share the aligned rows of all institutions"
        raise error
    found = Model(directory.read_model()).shared_rows()
    if not found.size:
        raise _none_came(terms)
    return _distinct(found, terms)


def _none_came(terms: Terms) -> InputError:
    if isinstance(terms.model, KnnTerms):
        error = InputError("the model that came does not name its rows: the analyst's version is too old")
        error.hint = "`odc predict` works; `odc train` needs a round of an analyst with a newer version"
    else:
        error = InputError("no rows have come back: the analyst has chosen another model than knn")
        error.hint = "`odc report` says which; an analyst of an earlier version does not name the rows of knn"
    return error


def _distinct(found: NDArray[np.float32], terms: Terms) -> Distinct:
    """Return what `Model.shared_rows` has found; raises `ModelRefusedError` for what no round has."""
    width, outputs = terms.latent_dim, terms.table_schema.label_column.outputs
    if found.shape[1] != width + outputs + 1:
        raise ModelRefusedError(f"has rows of another width than {width}, or other labels than the terms")
    rows, sums, counts = found[:, :width], found[:, width:-1], found[:, -1]
    of_classes = terms.task == "classes"
    whole = np.rint(sums if of_classes else counts[:, None]).astype(np.float64)
    if not (np.isfinite(found).all() and (whole >= 0).all() and (counts > 0).all()):
        raise ModelRefusedError("has rows or labels that are no numbers, or of a negative number of rows")
    if width * whole.sum() > MOST_NUMBERS:
        raise ModelRefusedError("stands for more rows than an analyst shares")
    numbers = None if of_classes else sums[:, 0].astype(np.float64) / counts
    return Distinct(rows, whole.astype(np.int64), numbers)
