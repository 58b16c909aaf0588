"""A round as the analyst computes it, from what the members of a benchmark would send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from analyst_server.blobs import MemoryBlobs, StoredArray
from analyst_server.compute.aligned import AlignedRound
from analyst_server.compute.judging import Unjudged, judge_model
from analyst_server.compute.sequence import (
    PartyArrays,
    RoundResult,
    RoundSpec,
    align_parties,
    compute_round,
)
from analyst_server.compute.training_rows import TrainingRows, training_rows
from benchmarks.data import Matrix
from orthonormal_data_collaboration.answering import Mapped, SharedModel
from protocol.alignment_terms import AlignmentTerms
from protocol.arrays import little_endian, quantise, raw_bytes
from protocol.labels import AnyLabel
from protocol.messages import Dtype
from protocol.model_terms import ModelTerms
from protocol.table_schema import Schema
from user_client.custody.keystream import KeyStream
from user_client.privacy.noise import add_dither
from user_client.sdk.privacy import draw_basis, score_targets
from user_client.secret.basis import principal_axes
from user_client.secret.expansion import ByteSource, expand_anchor, haar
from user_client.secret.signal import score_of
from user_client.tables import encode_labels, encode_rows

Predict = Callable[[int, Matrix], NDArray[Any]]
"""What the model says of encoded rows, as the party of this number gets it."""


@dataclass(frozen=True)
class Encoded:
    """The rows of one institution after encoding by the terms: those it sends and those it keeps back."""

    rows: Matrix
    labels: NDArray[Any]
    test: Matrix
    test_labels: NDArray[Any]


@dataclass(frozen=True)
class Agreed:
    """The terms of a round as far as they matter here.

    ``dither`` 0 sends the projections as they are.
    """

    model: Any
    label: AnyLabel
    rep_dtype: Dtype
    dither: float


@dataclass(frozen=True)
class Round:
    """What the members of a round send: their projections under these bases."""

    parties: Sequence[Encoded]
    bases: Sequence[Matrix]
    anchor: Matrix
    agreed: Agreed
    seed: int
    """Of the dither: rounds with the same seed have the same noise."""

    def play(self) -> tuple[RoundResult, Predict]:
        """Compute and judge the round as the product does; return the result, and how members predict.

        The judgement has a headline also where rows have noise and the report shows none: for this it is
        made as if they had none.
        """
        spec, blobs = self._sent()
        result = compute_round(spec, blobs)
        unjudged = Unjudged.of(spec.folder, result)
        judgement = judge_model(replace(spec, rows_have_noise=False), blobs, unjudged)
        result = replace(result, model=replace(result.model, judgement=judgement))
        return result, self._predict(spec, blobs, result)

    def play_unjudged(self) -> Predict:
        """Compute the round as the product does, without the judgement, which takes most of the time."""
        spec, blobs = self._sent()
        return self._predict(spec, blobs, compute_round(spec, blobs))

    def trained_on(self) -> tuple[TrainingRows, list[Matrix]]:
        """Return the rows that the analyst trains the model on, and ``F_i G_i`` of every party."""
        spec, blobs = self._sent()
        alignment = align_parties(spec, blobs)
        rows = training_rows(spec, blobs, alignment.changes_of_basis.open(blobs), alignment.left_out)
        return rows, self._maps(spec, blobs, alignment)

    def _predict(self, spec: RoundSpec, blobs: MemoryBlobs, result: RoundResult) -> Predict:
        onnx_file = result.model.onnx_file.open(blobs).tobytes()
        model = SharedModel(onnx_file, self.agreed.label.model_output)
        answers = [Mapped(to_model, model) for to_model in self._maps(spec, blobs, result.alignment)]
        return lambda index, rows: answers[index](rows)

    def _sent(self) -> tuple[RoundSpec, MemoryBlobs]:
        blobs, normal = MemoryBlobs(), np.random.default_rng([self.seed, 2]).standard_normal

        def stored(key: str, array: NDArray[Any], dtype: str) -> StoredArray:
            blobs.append(key, 0, raw_bytes(little_endian(array, cast("Dtype", dtype))))
            blobs.commit(key)
            return StoredArray(key, 0, dtype, array.shape)

        def rounded(key: str, matrix: Matrix) -> tuple[StoredArray, StoredArray | None]:
            if self.agreed.rep_dtype != "i1":
                return stored(key, matrix, self.agreed.rep_dtype), None
            values, scale = quantise(matrix)
            return stored(key, values, "i1"), stored(f"{key}/scale", scale, "f4")

        arrays = []
        for index, (party, basis) in enumerate(zip(self.parties, self.bases, strict=True)):
            rep, rep_scale = rounded(
                f"{index}/rep", add_dither(party.rows @ basis, self.agreed.dither, normal)
            )
            anchor_rep, anchor_rep_scale = rounded(f"{index}/anchor_rep", self.anchor @ basis)
            labels = stored(f"{index}/labels", party.labels, self.agreed.label.wire_dtype)
            arrays.append(
                PartyArrays(
                    _name(index),
                    rep,
                    anchor_rep,
                    labels,
                    rep_scale,
                    anchor_rep_scale,
                    dither=self.agreed.dither,
                )
            )
        spec = RoundSpec(
            tuple(sorted(arrays, key=lambda one: (-one.rep.shape[0], one.party))),  # as the analyst has them
            self.agreed.label,
            AlignmentTerms(),
            self.agreed.model,
            anchor_is_isotropic=True,
            folder="result",
            rows_have_noise=self.agreed.dither > 0,
        )
        return spec, blobs

    def _maps(self, spec: RoundSpec, blobs: MemoryBlobs, alignment: AlignedRound) -> list[Matrix]:
        """Return ``F_i G_i`` of every party, with G_i as the downlink has it."""
        downlink_dtype = np.float64 if self.agreed.rep_dtype == "f8" else np.float32
        changes = alignment.changes_of_basis.open(blobs).astype(downlink_dtype)
        by_party = {one.party: change for one, change in zip(spec.parties, changes, strict=True)}
        return [basis @ by_party[_name(index)] for index, basis in enumerate(self.bases)]


def encoded(sent: pa.Table, test: pa.Table, schema: Schema) -> Encoded:
    """Encode what an institution sends and what it is tested on; numbers and times as 64-bit floats."""
    kind = np.int64 if schema.label_column.task == "classes" else np.float64
    found: list[NDArray[Any]] = []
    for table in (sent, test):
        found += [encode_rows(table, schema), encode_labels(table, schema).astype(kind)]
    return Encoded(*found)


def drafted_round(parties: Sequence[Encoded], drafted: Mapping[str, Any], schema: Schema, seed: int) -> Round:
    """Return a round of drafted terms: bases that keep each party's own score, and a Haar anchor."""
    label, streams = schema.label_column, KeyStream(np.random.default_rng([seed, 1]).bytes(32), "benchmark")
    bases = []
    for party in parties:
        score, (_, axes) = (
            score_of(party.rows, score_targets(party.labels, label.task)),
            principal_axes(party.rows),
        )
        bases.append(draw_basis(party.rows, score, drafted["latent_dim"], streams.read, axes=axes))
    anchor = expand_anchor("haar", streams.read, rows=schema.width, features=schema.width)
    model: Any = TypeAdapter(ModelTerms).validate_python(drafted["model"])
    return Round(parties, bases, anchor, Agreed(model, label, drafted["rep_dtype"], drafted["dither"]), seed)


def one_span(bases: Sequence[Matrix], source: ByteSource) -> list[Matrix]:
    """Return bases of the span that the given ones share best, each turned by a secret of its own.

    The members would have it after a small exchange before the rows: the analyst returns the leading left
    singular vectors of ``[A F_1 .. A F_c]``, and A is orthogonal.
    """
    shared = np.linalg.svd(np.hstack(bases), full_matrices=False)[0][:, : bases[0].shape[1]]
    return [shared @ haar(source, shared.shape[1]) for _ in bases]


def _name(index: int) -> str:
    return f"party-{index}"
