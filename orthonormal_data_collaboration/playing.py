"""Play a round: every party sends, the analyst computes, every party gets what it predicts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analyst_server.blobs import MemoryBlobs, StoredArray
from analyst_server.compute.aligned import change_dtype
from analyst_server.compute.judging import Unjudged, judge_model
from analyst_server.compute.sequence import InstalledAlignment, RoundResult, RoundSpec, compute_round
from analyst_server.compute.sums import SumsResult, SumsSpec, compute_sums
from orthonormal_data_collaboration.answering import Answer, Mapped, SharedModel
from orthonormal_data_collaboration.bases import Condition
from orthonormal_data_collaboration.members import (
    Encoded,
    Senders,
    Sent,
    Streams,
    anchor_of,
    decoded,
    encoded,
)
from protocol.arrays import little_endian, raw_bytes
from protocol.errors import InputError
from protocol.terms import Terms
from user_client.custody.masks import MaskKey
from user_client.sdk import PrivacyOptions
from user_client.sdk.desk import AttackLevel
from user_client.sdk.hold_out import fit_alone
from user_client.sdk.payload import Made
from user_client.sdk.sums import feature_map, masked, summed
from user_client.sdk.sums_limits import check_rows, leaving_of
from user_client.secret.expansion import Matrix64
from user_client.secret.local_model import LocalModel
from user_client.secret.own_model import train_own_model

_FOLDER = "result"


@dataclass(frozen=True)
class Wishes:
    """How a round is played, beside its terms; the fields are arguments of `simulate`."""

    privacy: Mapping[str, PrivacyOptions]
    """By party, of all parties."""
    bases: Condition | None
    public: Any
    level: AttackLevel
    judge: bool
    train_on_suspected_rows: bool
    installed: InstalledAlignment | None


@dataclass(frozen=True, repr=False)
class Projected:
    """What one party has sent of its rows, and what came back, as both lie at the analyst."""

    made: Made
    rep: NDArray[np.floating]
    anchor_rep: NDArray[np.floating]
    labels: NDArray[Any]
    change_of_basis: Matrix64


@dataclass(frozen=True, repr=False)
class PlayedMember:
    """One party after the round; ``projected`` is None under sums, where no row leaves."""

    encoded: Encoded
    answer: Answer
    alone: LocalModel | None
    uplink_bytes: int
    downlink_bytes: int
    projected: Projected | None


@dataclass(frozen=True, repr=False)
class Played:
    """A round that was played; without an anchor under sums."""

    members: dict[str, PlayedMember]
    result: RoundResult | SumsResult
    onnx_file: bytes
    anchor: Matrix64 | None


def play(terms: Terms, tables: Mapping[str, pa.Table], wishes: Wishes, streams: Streams) -> Played:
    """Play a round under some terms.

    Raises
    ------
    TableError, InputError
        If a table does not fit the terms, or an option of its party.
    ValueError
        As `compute_round` and `compute_sums` do.
    """
    if terms.joined_rows:
        raise InputError(
            "rows that several parties hold different columns of are not simulated: leave out joined_rows, or"
            " play the round by `odc`"
        )
    parties = [
        encoded(terms, name, table, wishes.privacy[name].hold_out, streams) for name, table in tables.items()
    ]
    return (
        _play_rows(terms, parties, wishes, streams)
        if terms.sums is None
        else _play_sums(terms, parties, wishes, streams)
    )


def _play_rows(terms: Terms, parties: list[Encoded], wishes: Wishes, streams: Streams) -> Played:
    anchor = anchor_of(terms, wishes.public, streams)
    senders = Senders(terms, anchor, streams, bases=wishes.bases, level=wishes.level)
    sent = {party.name: senders.send(party, wishes.privacy[party.name]) for party in parties}
    result, order = _computed(terms, sent, senders.blobs, wishes)
    changes = result.alignment.changes_of_basis.open(senders.blobs)
    dtype = np.dtype(change_dtype(terms))

    @cache
    def shared(stored: StoredArray) -> SharedModel:
        return SharedModel(stored.open(senders.blobs).tobytes(), terms.table_schema.label_column.model_output)

    predictions = result.model.anchor_predictions
    members = {}
    for party in parties:
        own, place = sent[party.name], order.index(party.name)
        change = changes[place, : own.arrays.rep.shape[1]].astype(dtype).astype(np.float64)
        answer: Answer
        if predictions is None:
            model = shared(result.model.of_party(party.name).onnx_file)
            answer = Mapped(own.made.treated.secret_basis @ change, model, own.made.treated.own_map)
            downlink_bytes = change.size * dtype.itemsize + len(model.onnx_file)
        else:
            returned = predictions.open(senders.blobs)[place]
            answer, downlink_bytes = train_own_model(anchor, returned).probabilities, returned.nbytes
        uplink_bytes = sum(spec.payload_bytes for spec in own.specs)
        projected = _projected(own, change, senders.blobs)
        members[party.name] = PlayedMember(
            party, answer, own.made.alone, uplink_bytes, downlink_bytes, projected
        )
    return Played(members, result, shared(result.model.onnx_file).onnx_file, anchor)


def _computed(
    terms: Terms, sent: Mapping[str, Sent], blobs: MemoryBlobs, wishes: Wishes
) -> tuple[RoundResult, list[str]]:
    """Return what the analyst computes, and its order of the parties: the one with most rows first."""
    arrays = sorted((one.arrays for one in sent.values()), key=lambda one: (-one.rep.shape[0], one.party))
    spec = RoundSpec.of(
        terms,
        arrays,
        _FOLDER,
        rows_have_noise=any(one.has_noise for one in sent.values()),
        train_on_suspected_rows=wishes.train_on_suspected_rows,
    )
    if wishes.installed is not None:
        spec = replace(spec, alignment=wishes.installed)
    result = compute_round(spec, blobs)
    if wishes.judge and result.model.is_to_be_judged:
        judgement = judge_model(spec, blobs, Unjudged.of(_FOLDER, result))
        result = replace(result, model=replace(result.model, judgement=judgement))
    return result, [one.party for one in arrays]


def _projected(own: Sent, change: Matrix64, blobs: MemoryBlobs) -> Projected:
    arrays = own.arrays
    return Projected(
        own.made,
        decoded(arrays.rep, arrays.rep_scale, blobs),
        decoded(arrays.anchor_rep, arrays.anchor_rep_scale, blobs),
        arrays.labels.open(blobs),
        change,
    )


def _play_sums(terms: Terms, parties: list[Encoded], wishes: Wishes, streams: Streams) -> Played:
    if terms.sums is None:
        raise ValueError("these terms ask for rows")
    if wishes.bases is not None or wishes.public is not None or wishes.installed is not None:
        raise InputError("no row leaves under sums: bases, public and an alignment are about rows")
    if any(options != PrivacyOptions(hold_out=options.hold_out) for options in wishes.privacy.values()):
        raise InputError("no row leaves under sums: of the options on rows, only hold_out is used")
    seed, blobs, stored = streams.of_lead(), MemoryBlobs(), []
    features = feature_map(terms, seed)
    keys = [MaskKey.generate() for _ in parties]  # masks cancel, so no result depends on them
    public = [key.public_bytes() for key in keys]
    leaving = {}
    for party, key in zip(parties, keys, strict=True):
        leaves = party.kept.leaves(len(party.table.rows))
        rows, labels = party.table.rows.where(leaves), party.table.labels[leaves]
        check_rows(terms, terms.sums, leaving_of(labels, terms, 0.0))
        noise = streams.of_party(party.name)("sums/noise")
        numbers, _ = summed(terms, rows, labels, features, noise)
        covered = masked(numbers, key, terms, party.name, seed, public)
        blobs.append(party.name, 0, raw_bytes(little_endian(covered, "u8")))
        blobs.commit(party.name)
        stored.append(StoredArray(party.name, 0, "u8", covered.shape))
        leaving[party.name] = fit_alone(terms, rows, labels) if len(party.kept) else None
    result = compute_sums(SumsSpec.of(terms, stored, _FOLDER), blobs)
    onnx_file = result.model.onnx_file.open(blobs).tobytes()
    model = SharedModel(onnx_file, terms.table_schema.label_column.model_output)
    total_bytes = 0 if result.total is None else result.total.size_bytes
    members = {
        party.name: PlayedMember(
            party,
            Mapped(features, model),
            leaving[party.name],
            array.size_bytes,
            len(onnx_file) + total_bytes,
            None,
        )
        for party, array in zip(parties, stored, strict=True)
    }
    return Played(members, result, onnx_file, None)
