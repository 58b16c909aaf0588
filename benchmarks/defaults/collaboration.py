"""A round as the analyst computes it, from what the members of a benchmark would send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.compute.model_registry import model_of
from analyst_server.compute.sequence import (
    PartyArrays,
    RoundResult,
    RoundSpec,
    StoredArray,
    align_parties,
    compute_round,
)
from analyst_server.store import MemoryBlobs
from analyst_server.training.models import fit
from benchmarks.data import Labels, Matrix
from protocol.arrays import little_endian, raw_bytes
from protocol.terms import AlignmentTerms
from user_client.sdk.downlink import run_model
from user_client.secret.expansion import ByteSource, haar

Predict = Callable[[int, Matrix], NDArray[Any]]
"""Class probabilities of encoded rows, as the party of this number gets them."""


@dataclass(frozen=True)
class Encoded:
    """The rows of one institution after encoding by the terms: those it sends and those it keeps back."""

    rows: Matrix
    labels: Labels
    test: Matrix
    test_labels: Labels


@dataclass(frozen=True)
class Round:
    """What the members send, and the terms that matter to the analyst."""

    parties: Sequence[Encoded]
    bases: Sequence[Matrix]
    anchor: Matrix
    model: Any
    classes: int

    def play(self) -> tuple[RoundResult, Predict]:
        """Compute the round as the product does; return the result, and how members predict."""
        spec, blobs = self._sent()
        result = compute_round(spec, blobs)
        maps = self._maps(result.alignment.changes_of_basis.open(blobs))
        onnx_file = result.model.onnx_file.open(blobs).tobytes()
        return result, lambda index, rows: run_model(onnx_file, (rows @ maps[index]).astype(np.float32))

    def play_unjudged(self) -> Predict:
        """Compute the round without the analyst's judgement, which takes most of the time."""
        spec, blobs = self._sent()
        maps = self._maps(align_parties(spec, blobs).changes_of_basis.open(blobs))
        aligned = np.vstack([party.rows @ whole for party, whole in zip(self.parties, maps, strict=True)])
        labels = np.concatenate([party.labels for party in self.parties])
        pipeline = fit(model_of(self.model), aligned, labels, self.classes).pipeline
        return lambda index, rows: np.asarray(pipeline.predict_proba(rows @ maps[index]))

    def _sent(self) -> tuple[RoundSpec, MemoryBlobs]:
        blobs = MemoryBlobs()

        def stored(key: str, array: NDArray[Any], dtype: Any) -> StoredArray:
            blobs.append(key, 0, raw_bytes(little_endian(array, dtype)))
            blobs.commit(key)
            return StoredArray(key, 0, dtype, array.shape)

        arrays = tuple(
            PartyArrays(
                f"party-{index}",
                stored(f"{index}/rep", party.rows @ basis, "f4"),
                stored(f"{index}/anchor_rep", self.anchor @ basis, "f4"),
                stored(f"{index}/labels", party.labels, "u1"),
            )
            for index, (party, basis) in enumerate(zip(self.parties, self.bases, strict=True))
        )
        spec = RoundSpec(
            arrays, self.classes, AlignmentTerms(), self.model, anchor_is_isotropic=True, folder="result"
        )
        return spec, blobs

    def _maps(self, changes: NDArray[Any]) -> list[Matrix]:
        return [basis @ change for basis, change in zip(self.bases, changes, strict=True)]


def one_span(bases: Sequence[Matrix], source: ByteSource) -> list[Matrix]:
    """Return bases of the span that the given ones share best, each turned by a secret of its own.

    The members would have it after a small exchange before the rows: the analyst returns the leading left
    singular vectors of ``[A F_1 .. A F_c]``, and A is orthogonal.
    """
    shared = np.linalg.svd(np.hstack(bases), full_matrices=False)[0][:, : bases[0].shape[1]]
    return [shared @ haar(source, shared.shape[1]) for _ in bases]
