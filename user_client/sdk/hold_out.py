"""What an institution sets aside before it sends: rows to evaluate on, and a model of its other rows alone.

Both stay on this machine. `user_client.sdk.evaluation` compares that model with the collaboration's.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol.labels import MultiLabel, SurvivalLabel, Task
from protocol.model_terms import AveragedTerms, CoxTerms
from protocol.terms import Terms
from user_client.custody.keystream import KeyStream
from user_client.custody.round_directory import HOLD_OUT_FILE, LOCAL_MODEL_FILE, RoundDirectory
from user_client.rows import Rows, class_counts
from user_client.sdk.local_models import Fitted, fit_by, fit_each, packed, unpacked
from user_client.secret.expansion import ByteSource, Matrix64
from user_client.secret.local_model import LocalModel, fit_local_survival
from user_client.tables import strata

FEWEST_OF_A_CLASS: Final = 5
"""All rows of a class with fewer rows than this are sent: the model needs them more."""
_SEED_BYTES: Final = 32
_DRAWN_AT_ONCE: Final = 2**18
"""Rows of which some are drawn at a time."""
Labels = NDArray[Any]


@dataclass(frozen=True, repr=False)
class HoldOut:
    """The rows of one table that are kept back.

    Attributes
    ----------
    table : str
        Digest of the encoded table: the same rows are found again in whatever file they are.
    share : float
        What was asked for.
    bits : ndarray of uint8
        One bit for each row of the table, set if it is kept back: numbers would take 64. `numpy.packbits`
        writes them, and unset ones at the end may be missing.
    """

    table: str
    share: float
    bits: NDArray[np.uint8]

    def __repr__(self) -> str:
        return f"<HoldOut of {len(self)} rows>"

    def __len__(self) -> int:
        return int(np.unpackbits(self.bits).sum())

    @property
    def rows(self) -> NDArray[np.int64]:
        """Their numbers in the table, from 0 on, in ascending order."""
        return np.flatnonzero(np.unpackbits(self.bits))

    def leaves(self, count: int) -> NDArray[np.bool_]:
        """Return which of the ``count`` rows of the table leave."""
        kept = np.unpackbits(self.bits, count=count).view(np.bool_)
        return np.logical_not(kept, out=kept)


def keep_back(directory: RoundDirectory, table: str, labels: Labels, share: float, task: Task) -> HoldOut:
    """Return which rows of a table, by its digest, do not leave.

    The table that was prepared last keeps its choice for the same share: a row that was sent in an upload
    that broke off must not become one that we evaluate on.
    """
    earlier = stored_hold_out(directory)
    if earlier is not None and (earlier.table, earlier.share) == (table, share):
        return earlier
    groups = labels if task == "classes" else strata(labels, task)
    chosen = choose(groups, share, KeyStream.fresh("odc/v1/hold-out").read)
    return HoldOut(table, share, np.packbits(chosen))


def choose(groups: Labels, share: float, source: ByteSource) -> NDArray[np.bool_]:
    """Return which rows are of a share of the rows of each group that is chosen at random."""
    rng = np.random.default_rng(np.frombuffer(source(_SEED_BYTES), np.uint32))
    chosen = np.zeros(len(groups), np.bool_)
    for each, count in enumerate(class_counts(groups).tolist()):
        if size := kept_of(count, share):
            chosen[groups == each] = _drawn(rng, count, size)
    return chosen


def kept_of(count: int, share: float) -> int:
    """Return how many rows are kept back of a group of so many."""
    return round(share * count) if count >= FEWEST_OF_A_CLASS else 0


def _drawn(rng: np.random.Generator, count: int, size: int) -> NDArray[np.bool_]:
    """Return which ``size`` of ``count`` rows are drawn, every choice as likely as any other.

    `Generator.choice` takes eight bytes for each row that it may choose. So it chooses within parts, once it
    is drawn how many rows of each part are among them.
    """
    found = np.zeros(count, np.bool_)
    for start in range(0, count, _DRAWN_AT_ONCE):
        here, left = found[start : start + _DRAWN_AT_ONCE], count - start
        taken = size if left == len(here) else int(rng.hypergeometric(size, left - size, len(here)))
        here[rng.choice(len(here), taken, replace=False, shuffle=False)] = True
        size -= taken
    return found


def store_hold_out(directory: RoundDirectory, kept: HoldOut) -> None:
    """Store which rows are kept back, and of which table."""
    packed = base64.b64encode(kept.bits.tobytes()).decode()
    content = {"table": kept.table, "share": kept.share, "rows_as_bits": packed}
    directory.write_secret(HOLD_OUT_FILE, json.dumps(content).encode())


def stored_hold_out(directory: RoundDirectory) -> HoldOut | None:
    """Return what was kept back when a table was prepared last; None before that."""
    if not directory.holds(HOLD_OUT_FILE):
        return None
    content = json.loads(directory.read_secret(HOLD_OUT_FILE))
    if "rows" in content:  # written by an earlier version
        chosen = np.zeros(max(content["rows"], default=-1) + 1, np.bool_)
        chosen[content["rows"]] = True
        bits = np.packbits(chosen)
    else:
        bits = np.frombuffer(base64.b64decode(content["rows_as_bits"]), np.uint8)
    return HoldOut(content["table"], content["share"], bits)


def kept_back(directory: RoundDirectory) -> NDArray[np.int64]:
    """Return the numbers of the rows that were kept back of the table that was prepared last."""
    kept = stored_hold_out(directory)
    return np.empty(0, np.int64) if kept is None else kept.rows


@dataclass(frozen=True)
class LocalFit:
    """How the model of our own rows alone was fitted."""

    kind: str
    """Of model: that of the terms, or `AveragedTerms` for the kinds that are not fitted here."""
    terms_kind: str
    """That of the terms."""
    rows: int
    """The rows that it was fitted on: all that leave, or `FITTED_ROWS` of them."""


def fit_alone(terms: Terms, rows: Rows | Matrix64, labels: Labels) -> LocalModel | None:
    """Return a model of our own rows alone, fitted on those that leave, without noise.

    None if they have fewer than two different labels, or for survival no event.
    """
    label = terms.table_schema.label_column
    if isinstance(label, SurvivalLabel):
        model = terms.model if isinstance(terms.model, CoxTerms) else CoxTerms()
        return fit_local_survival(rows, labels, label.wire_times, model.inverse_penalty)
    if isinstance(label, MultiLabel):
        return fit_each(_fitted_options(terms), rows, labels, label.outputs)
    classes = label.outputs if terms.task == "classes" else 0
    return fit_by(_fitted_options(terms), rows, labels, classes)


def described(terms: Terms, model: LocalModel | None) -> LocalFit | None:
    """Return how a model of our own rows alone was fitted."""
    if model is None:
        return None
    kind = "cox" if terms.task == "survival" else _fitted_options(terms).kind
    return LocalFit(kind, terms.model.kind, model.fitted_rows)


def _fitted_options(terms: Terms) -> Fitted:
    """Return the model of the terms, or the default one in the place of a kind that is not fitted here.

    That one has the class weights of the terms, and where the analyst chooses none. Alone, an institution has
    its rows: what it sends under sums does not limit what it fits.
    """
    if isinstance(terms.model, Fitted) and terms.sums is None:
        return terms.model
    return AveragedTerms(class_weight=getattr(terms.model, "class_weight", "none"))


def store_local_model(directory: RoundDirectory, model: LocalModel | None) -> None:
    """Store the model of our own rows alone, or remove an earlier one if there is none."""
    if model is None:
        directory.remove(LOCAL_MODEL_FILE)
    else:
        directory.write_secret(LOCAL_MODEL_FILE, packed(model))


def local_model(directory: RoundDirectory) -> LocalModel | None:
    """Return the model of our own rows alone; None if there is none."""
    if not directory.holds(LOCAL_MODEL_FILE):
        return None
    return unpacked(directory.read_secret(LOCAL_MODEL_FILE))
