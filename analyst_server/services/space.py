"""Space for an uplink before its first byte: on the disk, and within what a party and a round may keep.

The records say what uploads under way have still to send, so that an accepted manifest keeps its space while
the analyst restarts. Files are looked at only where the disk is nearly full, and before the transaction that
writes: parties that begin at the same time wait for one another there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from analyst_server.services.analyst import Analyst
from analyst_server.services.stored import blob_key, partial_key
from analyst_server.store import Reserved, Unit
from protocol.errors import DiskFullError, LimitExceededError
from protocol.messages import UplinkManifest
from protocol.states import ENDED, State
from runtime.storage import RETRY_FULL_DISK_S

KEPT_FREE_BYTES: Final = 64 * 2**20
"""Of the disk, for the records and for what comes of a round."""
_GOING_ON: Final = (State.ANCHORED, State.COLLECTING)


class LookFirstError(Exception):
    """Raised inside a transaction that would have to look at files; never shown to anybody."""


@dataclass(frozen=True)
class Space:
    """What the disk has, and, once somebody has looked, what had arrived of uploads under way then."""

    free_bytes: int | None
    arrived: Mapping[str, int] | None = None
    """By upload; of one that began later nothing had."""

    @classmethod
    def of_disk(cls, analyst: Analyst) -> Space:
        """Return what the disk has, without a look at any upload."""
        return cls(analyst.blobs.free_bytes())

    @classmethod
    def of_uploads(cls, analyst: Analyst) -> Space:
        """Return what the disk has, and what has arrived of each upload under way."""
        with analyst.records.begin() as unit:
            reserved = unit.reserved(_GOING_ON)
        arrived = {one.id: _arrived_bytes(analyst, one) for one in reserved}
        return cls(analyst.blobs.free_bytes(), arrived)

    def require(self, unit: Unit, manifest: UplinkManifest) -> None:
        """Raise `DiskFullError` if an uplink will find no space beside what others have still to send.

        Raises `LookFirstError` if that depends on what has arrived of the others, and nobody has looked.
        """
        payload_bytes = payload_bytes_of(manifest)
        if self.free_bytes is None:
            return
        left = self.free_bytes - payload_bytes - KEPT_FREE_BYTES
        if left >= unit.most_awaited_bytes(_GOING_ON):
            return
        if self.arrived is None:
            raise LookFirstError
        own = (manifest.collaboration_id, manifest.party)  # an earlier one is replaced
        others = [one for one in unit.reserved(_GOING_ON) if (one.collaboration_id, one.party) != own]
        awaited = sum(one.payload_bytes - self.arrived.get(one.id, 0) for one in others)
        if left < awaited:
            raise DiskFullError(
                f"this uplink has {payload_bytes / 1e6:,.1f} MB, and the analyst's disk has"
                f" {self.free_bytes / 1e6:,.1f} MB left,"
                f" of which uploads under way need {awaited / 1e6:,.1f} MB",
                retry_after_s=RETRY_FULL_DISK_S,
            )


def payload_bytes_of(manifest: UplinkManifest) -> int:
    """Return how many bytes the arrays of an uplink have."""
    return sum(spec.payload_bytes for spec in manifest.arrays)


def require_within_limits(analyst: Analyst, unit: Unit, manifest: UplinkManifest) -> None:
    """Raise `LimitExceededError` if an uplink is too large, alone or with what is kept beside it.

    An uplink counts with all its payload once it has begun, until it is replaced or its round has ended.
    """
    payload_bytes = payload_bytes_of(manifest)
    if payload_bytes > analyst.max_uplink_bytes:
        raise LimitExceededError("uplink in bytes", analyst.max_uplink_bytes, payload_bytes)
    round_id, party = manifest.collaboration_id, manifest.party
    if limit := analyst.max_party_bytes:
        kept = unit.kept_bytes_of(party, ENDED, round_id)
        if kept + payload_bytes > limit:
            what = f"all uplinks of {party} in bytes, of which other rounds keep {kept}"
            raise _over(what, limit, kept + payload_bytes, "ODC_ANALYST_MAX_PARTY_BYTES")
    if limit := analyst.max_collaboration_bytes:
        kept = unit.kept_bytes(round_id, party)
        if kept + payload_bytes > limit:
            what = f"all uplinks of this round in bytes, of which other institutions have {kept}"
            raise _over(what, limit, kept + payload_bytes, "ODC_ANALYST_MAX_COLLABORATION_BYTES")


def _over(what: str, limit: int, got: int, setting: str) -> LimitExceededError:
    error = LimitExceededError(what, limit, got)
    error.hint = f"send less, or ask the analyst to close rounds that are over, or to raise {setting}"
    return error


def _arrived_bytes(analyst: Analyst, one: Reserved) -> int:
    blobs, key = analyst.blobs, blob_key(one)
    arrived = blobs.partial_size(partial_key(key, one.stored_as))
    if arrived is None and blobs.exists(key):
        return one.payload_bytes
    return arrived or 0
