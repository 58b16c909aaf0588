"""The one downlink: a signed manifest, then G_i and the model as an array stream."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from analyst_server.services.analyst import Analyst, find, find_as_member, move
from analyst_server.services.rounds import result_key
from protocol.arrays import Layout, frame
from protocol.codec import digest
from protocol.envelope import decode_stored
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
        signed = row.manifest
        manifest = decode_stored(DownlinkManifest, signed)
        if row.fetched_at is None:  # fetching again is no step
            row.fetched_at = now
            move(
                unit,
                collaboration,
                Event.FETCH_DOWNLINK,
                at=now,
                party=sender.name,
                subject=digest(manifest),
            )
    layout = Layout(manifest.arrays, manifest.chunk_bytes)
    head = struct.pack("<I", len(signed)) + signed
    paths = [analyst.blobs.path(result_key(collaboration_id, spec)) for spec in manifest.arrays]
    return len(head) + layout.stream_bytes, _pieces(head, paths, manifest.chunk_bytes)


def yet_to_fetch(analyst: Analyst, collaboration_id: str) -> list[str]:
    """Return the parties whose downlink is ready and was never asked for."""
    with analyst.records.begin() as unit:
        find(unit, collaboration_id)
        return sorted(row.party for row in unit.downlinks(collaboration_id) if row.fetched_at is None)


def _pieces(head: bytes, paths: list[Path], chunk_bytes: int) -> Iterator[bytes]:
    """Yield the downlink, holding one chunk at a time however slow its reader is."""
    with ExitStack() as stack:
        # all of them now: what is erased meanwhile can be read to its end
        files = [stack.enter_context(path.open("rb")) for path in paths]
        yield head
        for file in files:
            yield from frame(iter(partial(file.read, chunk_bytes), b""))
