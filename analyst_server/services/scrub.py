"""Read everything that is stored and compare it with what was signed for it; nothing is changed.

Before it is computed, a round checks its uplinks by itself (`rounds`). This is for an operator who wants to
know earlier, or what a disk or a restored backup has done to the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from analyst_server.blobs import StoredArray
from analyst_server.services import own_arrays
from analyst_server.services.analyst import Analyst, readable_terms
from analyst_server.services.anchor_matrix import matrix_key
from analyst_server.services.downlinks import result_key
from analyst_server.services.stored import stored_arrays, stored_downlink
from analyst_server.store import Collaboration, Unit
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.states import ENDED
from protocol.version import OlderServerError


@dataclass(frozen=True)
class Found:
    """A stored array, and to whom it matters."""

    collaboration_id: str
    kind: str
    """``uplink``, ``downlink``, ``late consumers`` for what they are aligned with, or ``terms``."""
    parties: tuple[str, ...]
    """Whose uplink or downlink it is in; empty for what late consumers are aligned with."""
    name: str
    blob: str
    """The file below the folder of blobs; empty, as the name is, if a record cannot be read."""


@dataclass(frozen=True)
class Scrubbed:
    """What was read, and what of it is not what was signed."""

    arrays: int
    bytes: int
    damaged: tuple[Found, ...]
    unreadable: tuple[Found, ...]
    """Records that this server cannot read, so that it does not know what was signed."""
    unchecked: tuple[str, ...]
    """Files that the analyst cannot check: of a sealed matrix, only members know the digest."""

    def as_json(self) -> dict[str, Any]:
        """Return this as ``odc-analyst verify --json`` shows it."""
        return asdict(self)


def scrub(analyst: Analyst) -> Scrubbed:
    """Check every array of the collaborations that have not ended; may take as long as reading the disk.

    Raises `StorageError` if the arrays of these records are elsewhere: all of them would look damaged.
    """
    own_arrays.require_for_command(analyst)
    with analyst.records.begin() as unit:
        running = [row for row in unit.collaborations() if row.now_in not in ENDED]
        listed = [pair for row in running for pair in _arrays_of(unit, row)]
    unreadable = tuple(found for found, array in listed if array is None)
    known = [(found, array) for found, array in listed if array is not None]
    size, damaged = 0, []
    for found, array in known:
        size += array.size_bytes
        if not array.is_intact(analyst.blobs):
            damaged.append(found)
    sealed = [matrix_key(row.id) for row in running if _may_have_a_matrix(row)]
    unchecked = tuple(key for key in sealed if analyst.blobs.exists(key))
    return Scrubbed(len(known), size, tuple(damaged), unreadable, unchecked)


def _may_have_a_matrix(collaboration: Collaboration) -> bool:
    terms = readable_terms(collaboration)
    return terms is None or terms.anchor_matrix_bytes > 0


_Listed = Iterator[tuple[Found, StoredArray | None]]
"""What is stored; None for an array whose record cannot be read."""


def _arrays_of(unit: Unit, collaboration: Collaboration) -> _Listed:
    if readable_terms(collaboration) is None:
        yield _unreadable(collaboration, "terms"), None
    for uplink in unit.received_uplinks(collaboration.id):
        try:
            arrays = stored_arrays(uplink)
        except OlderServerError:
            yield _unreadable(collaboration, "uplink", uplink.party), None
            continue
        for name, array in arrays.items():
            yield Found(collaboration.id, "uplink", (uplink.party,), name, array.key), array
    yield from _arrays_of_downlinks(unit, collaboration)
    kept = collaboration.kept or {}
    for name in ("target", "model"):
        if kept.get(name):
            array = StoredArray.from_json(kept[name])
            # an earlier version kept no digest beside it; the key ends with it
            digest = array.key.rpartition("/")[2]
            array = replace(array, digest=digest, chunk_bytes=DEFAULT_CHUNK_BYTES)
            yield Found(collaboration.id, "late consumers", (), name, array.key), array


def _unreadable(collaboration: Collaboration, kind: str, *parties: str) -> Found:
    return Found(collaboration.id, kind, parties, "", "")


def _arrays_of_downlinks(unit: Unit, collaboration: Collaboration) -> _Listed:
    """Yield each array once; the model is the same in all downlinks."""
    arrays: dict[str, tuple[str, StoredArray]] = {}
    parties: dict[str, list[str]] = {}
    for downlink in unit.downlinks(collaboration.id):
        try:
            manifest = stored_downlink(downlink.manifest)
        except OlderServerError:
            yield _unreadable(collaboration, "downlink", downlink.party), None
            continue
        for spec in manifest.arrays:
            key = result_key(collaboration.id, spec)
            arrays[key] = spec.name, StoredArray.of(spec, key, 0, manifest.chunk_bytes)
            parties.setdefault(key, []).append(downlink.party)
    for key, (name, array) in arrays.items():
        yield Found(collaboration.id, "downlink", tuple(parties[key]), name, key), array
