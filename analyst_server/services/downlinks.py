"""The one downlink: a signed manifest, then G_i and the model as an array stream."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from analyst_server.services.analyst import Analyst, find_as_member, move
from analyst_server.services.rounds import change_key, model_key
from protocol.arrays import frame
from protocol.codec import decode
from protocol.envelope import Signed
from protocol.errors import NotFoundError, OutOfOrderError, RoundFailedError
from protocol.identity import Identity
from protocol.messages import DownlinkManifest
from protocol.states import Event, State


def fetch(analyst: Analyst, sender: Identity, collaboration_id: str) -> tuple[int, Iterator[bytes]]:
    """Return the length of the downlink in bytes, and its pieces.

    Raises
    ------
    OutOfOrderError
        If the round is not released.
    RoundFailedError
        If it failed; the reason is in the detail.
    NotFoundError
        If this party sent no uplink, so that there is no G_i for it.
    """
    now = analyst.clock()
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender, at=now)
        if collaboration.now_in is State.FAILED:
            raise RoundFailedError(f"the round failed: {collaboration.failure}")
        if collaboration.now_in is not State.RELEASED:
            raise OutOfOrderError(collaboration.state, Event.FETCH_DOWNLINK)
        row = unit.downlink(collaboration_id, sender.name)
        if row is None:
            raise NotFoundError("the round was sealed without an uplink of this party")
        move(unit, collaboration, Event.FETCH_DOWNLINK, at=now, party=sender.name)
        row.fetched_at = row.fetched_at or now
        signed = row.manifest
    chunk_bytes = decode(DownlinkManifest, decode(Signed, signed).payload).chunk_bytes
    pieces = [struct.pack("<I", len(signed)), signed]
    for key in (change_key(collaboration_id, sender.name), model_key(collaboration_id)):
        data = memoryview(analyst.blobs.path(key).read_bytes())
        pieces += [bytes(piece) for piece in frame(data, chunk_bytes)]
    return sum(map(len, pieces)), iter(pieces)
