"""One more party after the release: its G_i for the target that was kept, or h's predictions for its anchor.

Nothing of the other parties changes. Like the steps of a round, this runs in a compute process and leaves
what is large in a folder of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs import Blobs, StoredArray, at_least_single, store_array
from analyst_server.compute.sequence import PartyArrays


@dataclass(frozen=True)
class LatecomerSpec:
    """What the alignment of a late consumer depends on.

    Attributes
    ----------
    party : PartyArrays
        What it has sent.
    others : tuple of PartyArrays
        What the parties of the round have sent: it is compared with them.
    method : str
        The name of the method that aligned the others.
    anchor_is_isotropic : bool
        Whether ``A.T @ A`` is a multiple of the identity by construction.
    target : StoredArray
        The target Z of the round.
    trusted : int
        How many parties shaped it.
    model : StoredArray, optional
        The ONNX file of h, where the terms ask for predictions for the anchor rows.
    folder : str
        Folder of the blobs that this computation writes.
    maps_are_linear : bool
        As in `RoundSpec`.
    """

    party: PartyArrays
    others: tuple[PartyArrays, ...]
    method: str
    anchor_is_isotropic: bool
    target: StoredArray
    trusted: int
    model: StoredArray | None
    folder: str
    maps_are_linear: bool = True


def align_latecomer(spec: LatecomerSpec, blobs: Blobs) -> StoredArray:
    """Return G_i (l_i, l), or ``h(A_i G_i)`` (a, classes) where the terms ask for that.

    Raises
    ------
    ValueError
        If the anchor representation breaks an assumption of the alignment; the text says which.
    """
    # loaded in the compute process alone: SciPy takes as long to load as the rest of the server
    from analyst_server.alignment import AnchorRepError, align_to
    from analyst_server.training.onnx_file import predict

    anchor_rep = _anchor_rep(blobs, spec.party)
    _check(spec, blobs, anchor_rep)
    target = spec.target.open(blobs)
    try:
        change = align_to(spec.method, anchor_rep, target, parties=spec.trusted)
    except AnchorRepError as error:
        raise ValueError(f"the anchor representation of {spec.party.party} {error.reason}") from None
    if spec.model is None:
        return store_array(blobs, f"{spec.folder}/change_of_basis", change)
    aligned = anchor_rep @ change.astype(anchor_rep.dtype)
    predicted = predict(spec.model.open(blobs).tobytes(), "probabilities", aligned)
    return store_array(blobs, f"{spec.folder}/anchor_predictions", predicted)


def _check(spec: LatecomerSpec, blobs: Blobs, anchor_rep: NDArray[Any]) -> None:
    """Raise `ValueError` if the party breaks an assumption, seen beside the parties of the round."""
    from analyst_server.alignment.suspicion import suspects

    anchor_reps = [*(_anchor_rep(blobs, party) for party in spec.others), anchor_rep]
    # no rows anywhere: a span that was not drawn from rows that were sent is not judged
    found = suspects(
        anchor_reps,
        anchor_is_isotropic=spec.anchor_is_isotropic,
        row_counts=[0] * len(anchor_reps),
        maps_are_linear=spec.maps_are_linear,
    )
    for one in found:
        if one.index == len(spec.others):
            raise ValueError(f"the anchor representation of {spec.party.party} {one.evidence}")


def _anchor_rep(blobs: Blobs, party: PartyArrays) -> NDArray[np.floating]:
    return at_least_single(blobs, party.anchor_rep, party.anchor_rep_scale)
