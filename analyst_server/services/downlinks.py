"""The one downlink of each party: a signed manifest, then G_i and the model as an array stream.

It is written when a round is computed, kept under the digests of its arrays, and sent as often as somebody
asks for it, whole or from some byte on. Whether it has arrived is for the party to say.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from numpy.typing import NDArray

from analyst_server.blobs import StoredArray
from analyst_server.compute.aligned import change_dtype
from analyst_server.compute.sequence import RoundResult
from analyst_server.compute.sums import SumsResult
from analyst_server.services.analyst import Analyst, find, find_as_member, move, stored_terms
from analyst_server.services.stored import stored_downlink, stored_manifest
from analyst_server.store import Collaboration, Downlink, Unit, Uplink
from protocol.arrays import Layout, frame, little_endian, raw_bytes, specify
from protocol.codec import digest
from protocol.errors import (
    LostDataError,
    NotFoundError,
    OutOfOrderError,
    RoundError,
    RoundFailedError,
    StorageError,
)
from protocol.identity import Identity
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import ArraySpec, DownlinkManifest, Dtype
from protocol.states import Event, State
from protocol.sums import TOTAL


def result_key(collaboration_id: str, spec: ArraySpec) -> str:
    """Return the key of an array of a downlink.

    It is the array's digest, so that a later run of the round cannot change what is signed.
    """
    return f"{collaboration_id}/results/{spec.digest.hex()}"


def put(analyst: Analyst, collaboration_id: str, name: str, array: NDArray[Any], dtype: Dtype) -> ArraySpec:
    """Write an array as a blob under its digest, and return its line of a manifest."""
    on_wire = little_endian(array, dtype)
    spec = specify(name, on_wire, dtype, DEFAULT_CHUNK_BYTES)
    analyst.blobs.write(result_key(collaboration_id, spec), raw_bytes(on_wire))
    return spec


def write(
    analyst: Analyst,
    collaboration: Collaboration,
    uplinks: Sequence[Uplink],
    result: RoundResult | SumsResult,
) -> list[Downlink]:
    """Write each party's arrays as blobs, and return the signed manifests as records.

    Of rows that were joined each party gets the block of G_i that its own numbers pass through.
    """
    written = list(_write_arrays(analyst, collaboration, result, uplinks))
    # with several models every member gets the digests of all, which the ledger has together
    models = sorted({spec.digest for arrays in written for spec in arrays if spec.name == "model"})
    named = models if result.model.groups is not None else ()
    return [
        _signed(analyst, collaboration, uplink, arrays, result.model.of_party(uplink.party).parameters, named)
        for uplink, arrays in zip(uplinks, written, strict=True)
    ]


def keep(
    analyst: Analyst, collaboration: Collaboration, result: RoundResult | SumsResult
) -> dict[str, Any] | None:
    """Write what late consumers are aligned with; return where it is, None if the terms name none.

    That is the target, the method that made it and, where the terms ask for predictions, the model.
    """
    if isinstance(result, SumsResult) or result.alignment.target is None:
        return None

    def kept(name: str, stored: StoredArray, dtype: Dtype) -> dict[str, Any]:
        spec = put(analyst, collaboration.id, name, stored.open(analyst.blobs), dtype)
        return StoredArray.of(spec, result_key(collaboration.id, spec), 0, DEFAULT_CHUNK_BYTES).as_json()

    needs_model = result.model.anchor_predictions is not None
    return {
        "target": kept("target", result.alignment.target, "f8"),
        "model": kept("model", result.model.onnx_file, "u1") if needs_model else None,
        "trusted": result.alignment.trusted,
        "method": result.alignment.method,
    }


def write_late(
    analyst: Analyst,
    collaboration: Collaboration,
    uplink: Uplink,
    found: NDArray[Any],
    first: DownlinkManifest,
) -> Downlink:
    """Write what a late consumer gets, as `write` does: its G_i, or its predictions.

    ``first`` is the downlink of any party of the round: the model is the same.
    """
    if first.has_anchor_predictions:
        arrays: tuple[ArraySpec, ...] = (put(analyst, collaboration.id, "anchor_predictions", found, "f4"),)
    else:
        change = put(analyst, collaboration.id, "change_of_basis", found, first.change_of_basis.dtype)
        arrays = (change, first.model)
    return _signed(analyst, collaboration, uplink, arrays, first.model_parameters)


def _signed(
    analyst: Analyst,
    collaboration: Collaboration,
    uplink: Uplink,
    arrays: tuple[ArraySpec, ...],
    model_parameters: int,
    models: Sequence[bytes] = (),
) -> Downlink:
    manifest = DownlinkManifest(
        collaboration_id=collaboration.id,
        terms_digest=collaboration.terms_digest,
        party=uplink.party,
        uplink_digest=uplink.manifest_digest,
        arrays=arrays,
        model_parameters=model_parameters,
        models=tuple(models),
    )
    return Downlink(
        collaboration_id=collaboration.id,
        party=uplink.party,
        manifest=analyst.sign(manifest),
        fetched_at=None,
    )


def released(unit: Unit, collaboration_id: str) -> bytes | None:
    """Return what the ledger says of the release: the same in all downlinks, None if no model goes out."""
    rows = unit.downlinks(collaboration_id, most=1)
    return stored_downlink(rows[0].manifest).released if rows else None


@dataclass(frozen=True)
class DownlinkStream:
    """A downlink as it is sent: its bytes from anywhere on, and the name of this version of it."""

    tag: str
    length: int
    _head: bytes
    _layout: Layout
    _arrays: Sequence[memoryview]
    """Opened already: one that is erased meanwhile can be read to its end."""
    _note_arrival: Callable[[], None]

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from ``start`` to ``end``; one chunk is held, however slow the reader is."""
        left = (self.length if end is None else end) - start
        for piece in self._from(start):
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    def _from(self, start: int) -> Iterator[bytes]:
        if start < len(self._head):
            yield self._head[start:]
        skipped_bytes = max(start - len(self._head), 0)
        for index in range(self._layout.chunk_count):
            slot = self._layout.slot(index)
            if slot.stream_end <= skipped_bytes:
                continue
            inside = slot.payload_offset - self._layout.payload_start(slot.array)
            # copied here, in a thread: the event loop must not wait for pages of a disk
            chunk = bytes(self._arrays[slot.array][inside : inside + slot.payload_bytes])
            yield b"".join(frame([chunk]))[max(skipped_bytes - slot.stream_offset, 0) :]

    def whole(self) -> Iterator[bytes]:
        """Yield all bytes to a party that acknowledges nothing: that the last one was sent has to do."""
        yield from self.pieces()
        with suppress(StorageError):  # it is asked again before anything is erased
            self.acknowledge()

    def acknowledge(self) -> None:
        """Note that the party has the downlink; once is enough."""
        self._note_arrival()


def fetch(analyst: Analyst, sender: Identity, collaboration_id: str) -> DownlinkStream:
    """Return the downlink of a party, and enter into the ledger that it was asked for.

    Raises
    ------
    OutOfOrderError
        If the round is not released, or a late consumer's G_i is not computed yet.
    RoundFailedError
        If it failed, or a late consumer's G_i could not be computed; the reason is in the detail.
    NotFoundError
        If this party sent no uplink, so that there is no G_i for it.
    LostDataError
        If an array is missing, or shorter than it was: then nobody has fetched anything.
    """
    with analyst.records.begin() as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        if collaboration.now_in is State.FAILED:
            raise RoundFailedError(f"the round failed: {collaboration.failure}")
        if collaboration.now_in is not State.RELEASED:
            raise OutOfOrderError(collaboration.state, Event.FETCH_DOWNLINK)
        row = unit.downlink(collaboration_id, sender.name)
        if row is None:
            raise _nothing_for(unit, collaboration, sender.name)
        signed = row.manifest
        is_first = not unit.has_step(collaboration_id, sender.name, Event.FETCH_DOWNLINK)
    manifest = stored_downlink(signed)
    arrays = [_open(analyst, collaboration_id, spec) for spec in manifest.arrays]
    if is_first:
        _enter_request(analyst, collaboration_id, sender.name, manifest)
    head, layout = struct.pack("<I", len(signed)) + signed, Layout(manifest.arrays, manifest.chunk_bytes)
    return DownlinkStream(
        tag=f'"{hashlib.sha256(signed).hexdigest()}"',
        length=len(head) + layout.stream_bytes,
        _head=head,
        _layout=layout,
        _arrays=arrays,
        _note_arrival=partial(_note_arrival, analyst, collaboration_id, sender.name, signed),
    )


def _enter_request(analyst: Analyst, collaboration_id: str, party: str, manifest: DownlinkManifest) -> None:
    """Enter into the ledger that a downlink was asked for; again is no step."""
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        if not unit.has_step(collaboration_id, party, Event.FETCH_DOWNLINK):
            at, subject = analyst.clock(), digest(manifest)
            move(unit, collaboration, Event.FETCH_DOWNLINK, at=at, party=party, subject=subject)


def _open(analyst: Analyst, collaboration_id: str, spec: ArraySpec) -> memoryview:
    try:
        array = analyst.blobs.read(result_key(collaboration_id, spec))
    except FileNotFoundError as error:
        raise LostDataError(f"the analyst no longer has the {spec.name} of this downlink") from error
    if len(array) != spec.payload_bytes:
        raise LostDataError(f"the analyst no longer has all bytes of the {spec.name} of this downlink")
    return array


def _note_arrival(analyst: Analyst, collaboration_id: str, party: str, signed: bytes) -> None:
    with analyst.records.begin(write=True) as unit:
        row = unit.downlink(collaboration_id, party)
        if row is not None and row.fetched_at is None and row.manifest == signed:
            row.fetched_at = analyst.clock()


def _nothing_for(unit: Unit, collaboration: Collaboration, party: str) -> RoundError:
    """Return why a released round has no downlink for a party."""
    if unit.has_step(collaboration.id, party, Event.EXCLUDE):
        found = NotFoundError(f"the analyst's operator has excluded {party} from this round")
        found.hint = "ask the analyst's operator why; there is no result for you"
        return found
    if party not in stored_terms(collaboration).late_consumers:
        return NotFoundError("the round was sealed without an uplink of this party")
    sent = [uplink for uplink in unit.uplinks_of(collaboration.id, party) if uplink.receipt is not None]
    if not sent:
        error: RoundError = NotFoundError("this late consumer has sent no uplink yet")
        error.hint = "run `odc contribute TABLE`: no row of the table is sent"
        return error
    if sent[0].refused is None:
        return OutOfOrderError(
            collaboration.state, Event.FETCH_DOWNLINK, f"what {party} gets is still being computed"
        )
    error = RoundFailedError(f"{party} could not be aligned: {sent[0].refused}")
    error.hint = "an uplink is final: ask the lead institution for another collaboration"
    return error


def yet_to_fetch(analyst: Analyst, collaboration_id: str) -> list[str]:
    """Return the parties whose downlink is ready, and who have not said that it has arrived."""
    with analyst.records.begin() as unit:
        find(unit, collaboration_id)
        return sorted(row.party for row in unit.downlinks(collaboration_id) if row.fetched_at is None)


def _write_arrays(
    analyst: Analyst,
    collaboration: Collaboration,
    result: RoundResult | SumsResult,
    uplinks: Sequence[Uplink],
) -> Iterator[tuple[ArraySpec, ...]]:
    """Write what goes back to each party as blobs; yield the lines of its manifest.

    Where the terms ask for predictions, only those go back: neither G_i nor the model leaves. Of sums comes
    the model, and where the terms say so the total.
    """
    as_blob = partial(put, analyst, collaboration.id)
    if result.model.anchor_predictions is not None:
        for predictions in result.model.anchor_predictions.open(analyst.blobs):
            yield (as_blob("anchor_predictions", predictions, "f4"),)
        return
    dtype = change_dtype(stored_terms(collaboration))

    @cache
    def model_in(stored: StoredArray) -> ArraySpec:
        return as_blob("model", stored.open(analyst.blobs), "u1")

    if isinstance(result, SumsResult):
        total = () if result.total is None else (as_blob(TOTAL, result.total.open(analyst.blobs), "u8"),)
        yield from [(model_in(result.model.onnx_file), *total)] * len(uplinks)
        return
    changes, terms = result.alignment.changes_of_basis.open(analyst.blobs), stored_terms(collaboration)
    for uplink in uplinks:
        own, group = result.model.of_party(uplink.party), terms.group_of(uplink.party)
        place = result.parties.index(group.labels if group else uplink.party)
        rows = group.block_of(uplink.party) if group else slice(stored_manifest(uplink).rep.shape[1])
        yield as_blob("change_of_basis", changes[place][rows], dtype), model_in(own.onnx_file)
