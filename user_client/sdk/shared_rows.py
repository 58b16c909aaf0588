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
from protocol.limits import MAX_MODEL_BYTES
from protocol.messages import DownlinkManifest
from protocol.model_terms import KnnTerms, candidates_of
from protocol.terms import Terms
from user_client.custody.round_directory import MODEL_FILE, TRAINED_MODEL_FILE, RoundDirectory
from user_client.errors import ModelRefusedError
from user_client.onnx_model.process import Model
from user_client.sdk.local_models import Fitted, fit_by, packed, unpacked
from user_client.sdk.terms import accepted_terms
from user_client.secret.local_model import LocalModel
from user_client.tables import decode_numbers

AS_IT_CAME: Final = "knn"
"""In the place of a kind: no model of our own any more."""
KINDS: Final[Mapping[str, type[Fitted]]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(Fitted)
}
"""The models that can be trained here, by name."""


@dataclass(frozen=True, repr=False)
class SharedRows:
    """The aligned rows of all institutions, with their labels: X^ and L of the paper.

    Attributes
    ----------
    rows : (n, l) ndarray of float32
        X~_i G_i of all institutions whose rows trained the model; rounded to 16 bits of the largest number.
        `Predictor.align` brings a table of ours into the same representation.
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
    """How a model of our own was trained on the rows of all institutions.

    Attributes
    ----------
    kind : str
        ``knn`` if there is none any more, and the rows answer themselves.
    rows, of_rows : int
        How many rows it was fitted on, and how many there are.
    """

    kind: str
    rows: int
    of_rows: int


def shares_rows(terms: Terms) -> bool:
    """Return whether the rows of all institutions may come back, with their labels."""
    is_named = any(isinstance(one, KnnTerms) for one in candidates_of(terms.model))
    return is_named and not terms.returns_anchor_predictions


def shared_rows(directory: RoundDirectory) -> SharedRows:
    """Return the rows that came back in the place of a model.

    Raises
    ------
    NotPreparedError
        Before `receive`.
    InputError
        If the terms share no rows, or the analyst has chosen another model than `knn`.
    """
    terms = accepted_terms(directory)
    rows, labels = _read(directory, terms)
    label = terms.table_schema.label_column
    if isinstance(label, NumberLabel):
        return SharedRows(rows, decode_numbers(labels, label), ())
    assert isinstance(label, Label)  # noqa: S101  # a knn model predicts nothing else
    return SharedRows(rows, labels, label.classes)


def train(directory: RoundDirectory, kind: str) -> Trained:
    """Train a model of our own on the shared rows, and let it answer from now on."""
    terms = accepted_terms(directory)
    with directory.exclusive():
        rows, labels = _read(directory, terms)
        if kind == AS_IT_CAME:
            directory.remove(TRAINED_MODEL_FILE)
            return Trained(kind, len(rows), len(rows))
        model = _terms_of(kind, terms)
        classes = terms.table_schema.label_column.outputs if terms.task == "classes" else 0
        fitted = fit_by(model, rows.astype(np.float64), labels, classes)
        if fitted is None or len(fitted.present) < classes:  # the analyst takes no such rows
            raise ModelRefusedError("has rows of one label alone, or none of some class")
        directory.write(TRAINED_MODEL_FILE, packed(fitted))
    return Trained(kind, fitted.fitted_rows, len(rows))


def trained_model(directory: RoundDirectory) -> LocalModel | None:
    """Return our own model of the shared rows; None if there is none."""
    if not directory.holds(TRAINED_MODEL_FILE):
        return None
    return unpacked(directory.read(TRAINED_MODEL_FILE))


def _terms_of(kind: str, terms: Terms) -> Fitted:
    fit = [name for name, each in KINDS.items() if terms.task in each.tasks]
    if kind not in fit:
        raise InputError(f"a model of our own is one of {', '.join(fit)}, or {AS_IT_CAME}; got '{kind}'")
    return KINDS[kind]()


def _read(directory: RoundDirectory, terms: Terms) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the rows, (n, l), and their labels as on the wire, (n,)."""
    directory.load(DownlinkManifest)  # it says that the model is here
    if not shares_rows(terms):
        error = InputError("under these terms the rows of other institutions do not come back")
        error.hint = "only terms with the model knn share the aligned rows of all institutions"
        raise error
    try:
        found = Model(directory.read(MODEL_FILE)).shared_rows()
    except ModelRefusedError as refused:
        if isinstance(terms.model, KnnTerms):
            raise
        error = InputError("the analyst has chosen another model than knn: no rows have come back")
        error.hint = "`odc report` says which"
        raise error from refused
    return _expanded(found, terms)


def _expanded(found: NDArray[np.float32], terms: Terms) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return a row for each that was sent, of distinct rows, the sums of their targets and their counts."""
    width, outputs = terms.latent_dim, terms.table_schema.label_column.outputs
    if found.shape[1] != width + outputs + 1:
        raise ModelRefusedError(f"has rows of another width than {width}, or other labels than the terms")
    rows, sums, counts = found[:, :width], found[:, width:-1], found[:, -1]
    of_classes = terms.task == "classes"
    whole = np.rint(sums if of_classes else counts[:, None])
    if not (np.isfinite(found).all() and (whole >= 0).all() and (counts > 0).all()):
        raise ModelRefusedError("has rows or labels that are no numbers, or of a negative number of rows")
    if 4.0 * width * float(whole.sum(dtype=np.float64)) > MAX_MODEL_BYTES:
        raise ModelRefusedError("stands for more rows than a model may have")
    where, column = np.nonzero(whole)
    times = whole[where, column].astype(np.int64)
    labels = column if of_classes else (sums[:, 0].astype(np.float64) / counts)[where]
    return np.repeat(rows[where], times, axis=0), np.repeat(labels, times)
