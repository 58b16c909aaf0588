"""Judge a model by more fits on parts of the rows: what a round still owes when it has been computed.

Nobody waits for it, so it may come long after the alignment, and in another process. What it needs of the
alignment is kept until then, with the blobs of the folder that the round was computed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from analyst_server.blobs import Blobs, StoredArray
from analyst_server.compute.joining import JoinedParties
from analyst_server.compute.sequence import RoundResult, RoundSpec
from analyst_server.compute.training_rows import training_rows
from analyst_server.training import progress
from protocol.alignment_terms import AutoAlignmentTerms
from runtime.denormals import tiny_as_zero

if TYPE_CHECKING:
    from analyst_server.training.alignments import Alignments


@dataclass(frozen=True)
class Unjudged:
    """What of a computed round is kept until its model is judged; the fields are those of `AlignedRound`.

    ``folder`` is the one that the round was computed in, ``joined`` what `RoundResult` has.
    """

    folder: str
    changes_of_basis: StoredArray
    left_out: tuple[str, ...]
    compared: Mapping[str, StoredArray]
    joined: tuple[JoinedParties, ...] = ()

    @classmethod
    def of(cls, folder: str, result: RoundResult) -> Self:
        aligned = result.alignment
        return cls(folder, aligned.changes_of_basis, aligned.left_out, aligned.compared, result.joined)

    def as_json(self) -> dict[str, Any]:
        """Return what the records keep."""
        return {
            "folder": self.folder,
            "changes_of_basis": self.changes_of_basis.as_json(),
            "left_out": list(self.left_out),
            "compared": {method: stored.as_json() for method, stored in self.compared.items()},
            "joined": [group.kept() for group in self.joined],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return what `as_json` was asked of."""
        return cls(
            value["folder"],
            StoredArray.from_json(value["changes_of_basis"]),
            tuple(value["left_out"]),
            {method: StoredArray.from_json(stored) for method, stored in value["compared"].items()},
            tuple(map(JoinedParties.from_kept, value.get("joined", ()))),  # an earlier version joined none
        )


@tiny_as_zero()
def judge_model(spec: RoundSpec, blobs: Blobs, unjudged: Unjudged) -> dict[str, Any]:
    """Return `training.judgement.Judgement` of the model that was trained on this round, as plain values.

    Raises
    ------
    DamagedBlobError
        If an array is not what was signed.
    """
    # loaded in the compute process alone: the libraries behind training take seconds to load
    from analyst_server.compute.model_registry import grouping_of, task_of, trained_model_of
    from analyst_server.training.judging import judge

    progress.begin("judging")
    if unjudged.joined:
        spec = spec.with_joined(group.arrays for group in unjudged.joined)
    rows = training_rows(spec, blobs, unjudged.changes_of_basis.open(blobs), unjudged.left_out)
    judgement = judge(
        trained_model_of(spec.model, spec.model_privacy, spec.features),
        rows.aligned_rep,
        rows.labels,
        task_of(spec.label),
        rows.senders,
        rows.parties,
        alignments=_compared(spec, blobs, unjudged),
        grouping=grouping_of(spec.model_groups),
    )
    return (judgement.of_rows_with_noise() if spec.rows_have_noise else judgement).as_json()


def _compared(spec: RoundSpec, blobs: Blobs, unjudged: Unjudged) -> Alignments | None:
    """Return what the alignment was chosen from, if there was more than one to choose from."""
    from analyst_server.compute.aligning import alignments_of

    if not isinstance(spec.alignment, AutoAlignmentTerms) or len(unjudged.compared) < 2:
        return None
    changes = {method: partial(stored.open, blobs) for method, stored in unjudged.compared.items()}
    return alignments_of(spec, blobs, unjudged.left_out, spec.alignment, changes)
