"""The rows that train: all of the parties that are not left out, or a part that fits into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, at_least_single
from analyst_server.training.dithered_rows import allow_for_dither
from analyst_server.training.far_rows import bring_nearer
from protocol.arrays import dequantise

if TYPE_CHECKING:  # the second imports this module
    from analyst_server.compute.aligned import SuspectedParty
    from analyst_server.compute.sequence import PartyArrays, RoundSpec

_NUMBER_BYTES: Final = 4
"""Of X^, in single precision."""
_AT_ONCE_ROWS: Final = 2**16


@dataclass(frozen=True)
class TrainingPart:
    """The rows of one party that train.

    Attributes
    ----------
    index : int
        The party's place in the spec.
    arrays : PartyArrays
    numbers : (n,) ndarray of int, optional
        Which of its rows, in ascending order; None for all.
    """

    index: int
    arrays: PartyArrays
    numbers: NDArray[np.int64] | None

    def __len__(self) -> int:
        return self.arrays.rep.shape[0] if self.numbers is None else len(self.numbers)

    def rep(self, blobs: Blobs) -> NDArray[Any]:
        """Return X~_i of these rows, (n, l_i), in a type to compute in."""
        if self.numbers is None:
            return at_least_single(blobs, self.arrays.rep, self.arrays.rep_scale)
        stored = self.arrays.rep.open(blobs)
        scale = None if self.arrays.rep_scale is None else self.arrays.rep_scale.open(blobs)
        found = np.empty(
            (len(self), stored.shape[1]), np.float64 if stored.dtype.itemsize > 4 else np.float32
        )
        for start in range(0, len(self), _AT_ONCE_ROWS):
            some = stored[self.numbers[start : start + _AT_ONCE_ROWS]]
            found[start : start + len(some)] = some if scale is None else dequantise(some, scale)
        return found

    def aligned_rep(self, blobs: Blobs, change: NDArray[Any]) -> NDArray[Any]:
        """Return ``X~_i G_i`` of these rows, (n, l), with G_i as `sequence.AlignedRound` keeps it."""
        rep = self.rep(blobs)
        return np.asarray(rep @ change[: rep.shape[1]].astype(rep.dtype))

    def labels(self, blobs: Blobs) -> NDArray[Any]:
        """Return their labels, (n,), in a type to compute in."""
        labels = self.arrays.labels.open(blobs)
        chosen = labels if self.numbers is None else labels[self.numbers]
        return chosen.astype(np.float64 if labels.dtype.kind == "f" else np.int64)


@dataclass(frozen=True)
class TrainingRows:
    """X^ and the labels of the rows that train, one party after another.

    Attributes
    ----------
    parties : tuple of str
    aligned_rep : (n, l) ndarray
    labels, senders : (n,) ndarray
        A sender is the index of its party in ``parties``.
    of_rows : int
        How many these parties have sent.
    far_rows : dict of str to int
        How many rows of a party were far from all others and are brought nearer; no party without any.
    """

    parties: tuple[str, ...]
    aligned_rep: NDArray[Any]
    labels: NDArray[Any]
    senders: NDArray[np.intp]
    of_rows: int
    far_rows: Mapping[str, int]

    def of(self, parties: Sequence[int]) -> NDArray[Any]:
        """Return X^ of some parties, by their indices."""
        return np.asarray(self.aligned_rep[np.isin(self.senders, parties)])


def left_out_of(spec: RoundSpec, suspicions: Sequence[SuspectedParty]) -> tuple[str, ...]:
    """Return the parties whose rows do not train; raises `ValueError` if nobody's rows are left."""
    if spec.train_on_suspected_rows:
        return ()
    left_out = tuple(suspicion.party for suspicion in suspicions if suspicion.rows)
    if left_out and len(left_out) == sum(party.rep.shape[0] > 0 for party in spec.parties):
        raise ValueError(f"no rows are left to train on without those of {', '.join(left_out)}")
    return left_out


def training_parts(spec: RoundSpec, blobs: Blobs, left_out: Sequence[str]) -> list[TrainingPart]:
    """Return the rows that train, party by party.

    If X^ of all of them took more than ``spec.most_training_bytes``, they are a part drawn at random: the
    same share of every class of every party, rounded up; of several labels, of every party, with a row that
    has each label and one that has not, if there is one. For a model with privacy the labels do not count:
    one other label would change the whole draw, and the model would tell more of one row than it states. The
    same spec gives the same rows.
    """
    taken = [(index, one) for index, one in enumerate(spec.parties) if one.party not in left_out]
    rows = sum(one.rep.shape[0] for _, one in taken)
    latent_dim = spec.latent_dim or spec.parties[0].rep.shape[1]
    most = spec.most_training_bytes // (_NUMBER_BYTES * latent_dim)
    if rows <= most:
        return [TrainingPart(index, one, None) for index, one in taken]
    share, rng = most / rows, np.random.default_rng(spec.alignment.seed)
    by_task = {"classes": _of_every_class, "multilabel": _of_every_label}
    numbers = _of_all if spec.model_privacy else by_task.get(spec.label.task, _of_all)
    return [TrainingPart(index, one, numbers(one.labels.open(blobs), share, rng)) for index, one in taken]


def training_rows(
    spec: RoundSpec, blobs: Blobs, changes_of_basis: NDArray[Any], left_out: Sequence[str]
) -> TrainingRows:
    """Return what the model is trained on.

    Rows with dither are brought to what is expected of them without it, and then rows far from all others
    nearer, where noise can make them so long.
    """
    parts = training_parts(spec, blobs, left_out)
    parties = tuple(part.arrays.party for part in parts)
    # one party after another: decoded numbers of all of them would be as much again as the result
    rep = np.concatenate([_expected(part, spec, blobs, changes_of_basis[part.index]) for part in parts])
    senders = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    far_rows: dict[str, int] = {}
    if spec.brings_far_rows_nearer:
        counts = np.bincount(senders[bring_nearer(rep)], minlength=len(parts)).tolist()
        far_rows = {party: count for party, count in zip(parties, counts, strict=True) if count}
    return TrainingRows(
        parties,
        rep,
        np.concatenate([part.labels(blobs) for part in parts]),
        senders,
        sum(part.arrays.rep.shape[0] for part in parts),
        far_rows,
    )


def _expected(
    part: TrainingPart, spec: RoundSpec, blobs: Blobs, change: NDArray[Any]
) -> NDArray[np.floating]:
    """Return X^ of one party's rows, each as it is expected without the dither that the party states."""
    rep = part.aligned_rep(blobs, change)
    if dither := spec.dither_of(part.index):
        allow_for_dither(rep, dither)
    return rep


def _of_every_class(labels: NDArray[Any], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers of a share of the rows of each class, in ascending order."""
    chosen = np.zeros(len(labels), np.bool_)
    for each in np.unique(labels):
        of_class = labels == each
        drawn = np.zeros(np.count_nonzero(of_class), np.bool_)
        drawn[_of_all(drawn, share, rng)] = True
        chosen[of_class] = drawn
    return np.flatnonzero(chosen)


def _of_every_label(labels: NDArray[Any], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers of a share of the rows, with one on each side of every label, in ascending order."""
    chosen = np.zeros(len(labels), np.bool_)
    chosen[_of_all(labels, share, rng)] = True
    for bit in range(8 * labels.dtype.itemsize):
        has = labels >> bit & 1 == 1
        for side in (has, ~has):
            if side.any() and not chosen[side].any():
                chosen[rng.choice(np.flatnonzero(side))] = True
    return np.flatnonzero(chosen)


def _of_all(rows: NDArray[Any], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the places of a share of some rows, rounded up, in ascending order."""
    return np.sort(rng.choice(len(rows), int(np.ceil(share * len(rows))), replace=False, shuffle=False))
