"""Uploads of the hospital to the analyst of `tests.harness.world`, and where their bytes lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analyst_server.services.stored import blob_key
from analyst_server.store import Uplink as UplinkRow
from protocol.arrays import Layout
from tests.harness.world import HOSPITAL, Uplink, World, make_uplink

MANY_ROWS = 20_000
"""Enough that the representation has three chunks; the anchor's and the labels have one each."""


def hospital(world: World, **changed: Any) -> Uplink:
    return make_uplink(world.terms, HOSPITAL, **changed)


def stored(world: World, upload_id: str) -> UplinkRow:
    with world.records.begin() as unit:
        row = unit.uplink(upload_id)
    assert row is not None
    return row


def part_file(world: World, upload_id: str) -> Path:
    """Return where the bytes of an upload lie until it is complete."""
    return whole_file(world, upload_id).with_name(f"{upload_id}.part")


def whole_file(world: World, upload_id: str) -> Path:
    """Return where the arrays of an upload lie once it is complete."""
    return world.directory / "blobs" / blob_key(stored(world, upload_id))


def offset_after(uplink: Uplink, chunks: int) -> int:
    """Return how long the stream of an uplink is up to the end of so many chunks."""
    return Layout(uplink.manifest.arrays, uplink.manifest.chunk_bytes).stream_offset(chunks)
