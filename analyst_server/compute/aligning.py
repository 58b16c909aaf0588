"""The alignment of a round by one method: the one in the terms, or the one that the rows choose of several.

Imported in the compute process alone: SciPy takes as long to load as the rest of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment import AnchorRepError, Diagnostics, align
from analyst_server.blobs import Blobs
from analyst_server.compute.aligned import SuspectedParty
from analyst_server.compute.model_registry import first_model_of, task_of, trainable_of
from analyst_server.compute.sequence import RoundSpec
from analyst_server.compute.training_rows import TrainingPart, left_out_of, training_parts
from analyst_server.training.alignments import Alignments
from analyst_server.training.axes import principal_axes
from analyst_server.training.choosing import Choice
from protocol.alignment_terms import AutoAlignmentTerms
from runtime.denormals import tiny_as_zero

_ROUNDING: Final = {"i1": 0.5 / 127, "f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-53}
"""How far an entry of a number type may be off, relative to the largest of its column."""


@dataclass(frozen=True, eq=False)
class AlignedBy:
    """One method's alignment of all parties: G_i and the target (a, l), along the model's axes.

    The G_i are (c, L, l) with the largest l_i, L: behind the l_i rows of a party are zeros.
    """

    method: str
    changes: NDArray[Any]
    target: NDArray[Any]
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class Aligner:
    """Aligns the parties of a round by any method.

    Attributes
    ----------
    spec : RoundSpec
    blobs : Blobs
    anchor_reps : sequence of (a, l_i) ndarray
        ``A_i``, in the order of the parties.
    trusted : sequence of int
        The parties that shape the target.
    suspicions : sequence of SuspectedParty
        The parties whose rows do not train, unless the spec has them train.
    """

    spec: RoundSpec
    blobs: Blobs
    anchor_reps: Sequence[NDArray[Any]]
    trusted: Sequence[int]
    suspicions: Sequence[SuspectedParty]

    @cached_property  # not before it is needed: a party that cannot be aligned is the first thing to report
    def left_out(self) -> tuple[str, ...]:
        """The parties whose rows do not train; raises `ValueError` if nobody's rows are left."""
        return left_out_of(self.spec, self.suspicions)

    def by(self, method: str) -> AlignedBy:
        """Return the alignment by a method; raises `ValueError` if a party cannot be aligned by it."""
        spec = self.spec
        try:
            found = align(
                method,
                self.anchor_reps,
                target=spec.alignment.target,
                trusted=self.trusted,
                anchor_is_isotropic=spec.anchor_is_isotropic,
                latent_dim=spec.latent_dim,
                rounding=_ROUNDING[spec.parties[0].anchor_rep.dtype],
                rng=np.random.default_rng(spec.alignment.seed),
            )
        except AnchorRepError as error:
            party = spec.parties[error.index].party
            raise ValueError(f"the anchor representation of {party} {error.reason}") from None
        changes, target = _stacked(found.changes_of_basis), found.target_rep
        if trainable_of(spec.model).needs_principal_axes:
            axes = self._principal_axes(changes)
            changes, target = changes @ axes, target @ axes
        return AlignedBy(method, changes, target, found.diagnostics)

    @tiny_as_zero()
    def chosen(self, terms: AutoAlignmentTerms) -> tuple[AlignedBy, dict[str, NDArray[Any]], Choice]:
        """Compare the candidates on the rows that train, and align by the best of them.

        Returns
        -------
        chosen : AlignedBy
        compared : dict of str to (c, L, l) ndarray
            G_i of all parties by every candidate that could align them before the time was over, in the
            order of the terms.
        choice : Choice

        Raises
        ------
        ValueError
            If the parties can be aligned by no candidate; the text is that of the first.
        """
        found: dict[str, AlignedBy] = {}

        def changes_by(method: str) -> NDArray[Any]:
            found[method] = self.by(method)
            return found[method].changes

        every: dict[str, Callable[[], NDArray[Any]]] = {
            method: partial(changes_by, method) for method in terms.candidates
        }
        rows = alignments_of(self.spec, self.blobs, self.left_out, terms, every)
        labels = np.concatenate([part.labels(self.blobs) for part in self._that_train])
        choice = rows.choice(labels, task_of(self.spec.label))
        if choice.name not in found:  # nothing was compared, or not even the first could be aligned
            changes_by(choice.name)
        compared: dict[str, NDArray[Any]] = {
            name: found[name].changes for name in terms.candidates if name in found
        }
        return found[choice.name], compared, choice

    @property
    def _that_train(self) -> list[TrainingPart]:
        return training_parts(self.spec, self.blobs, self.left_out)

    def _principal_axes(self, changes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the principal axes of the rows that train, (l, l); one party's are in memory at a time."""
        return principal_axes(
            lambda: (part.aligned_rep(self.blobs, changes[part.index]) for part in self._that_train)
        )


def alignments_of(
    spec: RoundSpec,
    blobs: Blobs,
    left_out: Sequence[str],
    terms: AutoAlignmentTerms,
    changes: Mapping[str, Callable[[], NDArray[Any]]],
) -> Alignments:
    """Return the rows that train, with what each method makes of them: its (c, L, l) of all parties.

    They are compared with the model of the terms, or the first of its candidates, because what is lost by
    an alignment depends on the model: one that uses distances loses more by stretched directions.
    """
    parts = training_parts(spec, blobs, left_out)
    taken = [part.index for part in parts]
    # one party after another, as the aligned rows are
    widest = max((part.arrays.rep.shape[1] for part in parts), default=0)
    rep = np.concatenate([_widened(part.rep(blobs), widest) for part in parts])
    return Alignments(
        rep=rep,
        senders=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        changes={name: partial(_taken_from, of_all, taken, widest) for name, of_all in changes.items()},
        model=first_model_of(spec.model),
        budget_s=terms.budget_s,
        seed=terms.seed,
        brings_nearer=spec.brings_far_rows_nearer,
        dithers=tuple(spec.dither_of(index) for index in taken),
    )


def _taken_from(changes: Callable[[], NDArray[Any]], taken: Sequence[int], widest: int) -> NDArray[Any]:
    return np.asarray(changes()[taken, :widest])


def _stacked(changes: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the G_i as one array, (c, L, l), with zeros behind those that have fewer rows."""
    most = max(len(change) for change in changes)
    return np.stack([np.pad(change, ((0, most - len(change)), (0, 0))) for change in changes])


def _widened(rep: NDArray[Any], width: int) -> NDArray[Any]:
    """Return rows with zeros behind their numbers, up to a width."""
    return rep if rep.shape[1] == width else np.pad(rep, ((0, 0), (0, width - rep.shape[1])))
