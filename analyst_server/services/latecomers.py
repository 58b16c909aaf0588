"""Late consumers: institutions that send no rows and come after the release.

The uplink of one is aligned to the target that was kept at the release, and gets a downlink like all others;
theirs do not change. A worker holds the round's lease meanwhile. If it is cut off, the next one starts again
from the uplink.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress

from analyst_server.blobs import DamagedBlobError, StoredArray
from analyst_server.compute.latecomers import LatecomerSpec, align_latecomer
from analyst_server.compute.sequence import Run, here
from analyst_server.services import damage, downlinks, newer, own_arrays
from analyst_server.services.analyst import Analyst, find, move, stored_terms
from analyst_server.services.rounds import arrays_of, in_order, owned, take_lease
from analyst_server.services.stored import blob_key, stored_downlink
from analyst_server.store import Collaboration, Unit, Uplink
from protocol.codec import digest
from protocol.errors import RoundFailedError
from protocol.states import Event


def are_waiting(analyst: Analyst, unit: Unit) -> bool:
    """Return whether there is a late consumer to claim."""
    return _next(analyst, unit) is not None


def claim(analyst: Analyst, owner: str, lease_s: int) -> Uplink | None:
    """Claim the round of the late consumer that has waited longest; return its uplink."""
    own_arrays.require_here(analyst)
    with analyst.records.begin(write=True) as unit:
        uplink = _next(analyst, unit)
        if uplink is not None:
            take_lease(analyst, find(unit, uplink.collaboration_id), owner, lease_s)
            analyst.tried_at[uplink.id] = time.monotonic()
        return uplink


def _next(analyst: Analyst, unit: Unit) -> Uplink | None:
    """Return the uplink of the late consumer that has waited longest, and whose round nobody holds.

    One that was tried comes after all that were not. One whose bytes are awaited again, or those of a sender
    of rows, waits for them; one that only a newer server can read is left to that.
    """
    waiting = sorted(unit.waiting_latecomers(), key=lambda one: analyst.tried_at.get(one.id, 0.0))
    for uplink in waiting:
        collaboration = find(unit, uplink.collaboration_id)
        if not newer.ours(analyst, [collaboration]):
            continue
        if analyst.leases.is_over(collaboration) and not _waits(analyst, unit, collaboration, uplink):
            return uplink
    return None


def _waits(analyst: Analyst, unit: Unit, collaboration: Collaboration, uplink: Uplink) -> bool:
    """Return whether bytes that the alignment of a late consumer reads are awaited again."""
    uplinks = {one.id: [one] for one in unit.uplink_states(collaboration.id)}
    marked = damage.asked_again(collaboration, uplinks, analyst.blobs)
    if not marked or uplink.id in marked:
        return bool(marked)
    late = stored_terms(collaboration).late_consumers
    return any(one.party not in late for number in marked for one in uplinks[number])


def compute(
    analyst: Analyst, uplink: Uplink, owner: str, *, run: Run = here, check: Run | None = None
) -> None:
    """Align a claimed late consumer and write its downlink; ``run`` and ``check`` as for a round.

    Raises
    ------
    ValueError
        If its anchor representation cannot be aligned.
    RoundFailedError
        If another worker has taken the round; or if what is stored is damaged: if that is an uplink, its
        institution is asked to send the same bytes again. The claim ends with its lease. Also if the round
        was closed meanwhile.
    """
    spec, blobs = spec_of(analyst, uplink), analyst.blobs
    try:
        found = run(align_latecomer, spec, blobs).open(blobs)
    except DamagedBlobError as error:
        raise _asked_again(analyst, uplink, error, check or run) from error
    with analyst.records.begin() as unit:
        collaboration = owned(analyst, unit, uplink.collaboration_id, owner)
        first = stored_downlink(unit.downlinks(collaboration.id, most=1)[0].manifest)
    # blobs before the records that name them, as in a round
    downlink = downlinks.write_late(analyst, collaboration, uplink, found, first)
    with analyst.records.begin(write=True) as unit:
        collaboration = owned(analyst, unit, uplink.collaboration_id, owner)
        unit.put_downlink(downlink)
        collaboration.lease_owner = collaboration.lease_until = None
        move(
            unit,
            collaboration,
            Event.ALIGN_CONSUMER,
            at=analyst.clock(),
            party=uplink.party,
            subject=digest(stored_downlink(downlink.manifest)),
        )
    with suppress(OSError):  # what stays is erased when the collaboration ends
        blobs.erase(spec.folder)


def _asked_again(analyst: Analyst, uplink: Uplink, error: DamagedBlobError, check: Run) -> RoundFailedError:
    """Ask again for the uplink that a damaged blob holds, if it holds one; return what happened."""
    own_arrays.require_here(analyst)
    with analyst.records.begin() as unit:
        received = unit.received_uplinks(uplink.collaboration_id)
    named = [one for one in received if blob_key(one) == error.key]
    if not named:
        return RoundFailedError(f"the blob {error.key} is damaged: restore it from a backup")
    found = damage.find(named, analyst.blobs, check)
    if not found:
        return RoundFailedError(damage.was_whole(error))
    damage.mark(named, analyst.blobs)
    return RoundFailedError(damage.in_words(found))


def spec_of(analyst: Analyst, uplink: Uplink) -> LatecomerSpec:
    """Return what a late consumer is aligned with, and a new folder for what comes of it."""
    with analyst.records.begin() as unit:
        collaboration = find(unit, uplink.collaboration_id)
        terms, kept = stored_terms(collaboration), collaboration.kept or {}
        others = in_order(unit, collaboration)
    return LatecomerSpec(
        party=arrays_of(uplink),
        others=tuple(map(arrays_of, others)),
        method=kept.get("method", terms.alignment.method),  # an earlier version kept none, and chose none
        anchor_is_isotropic=terms.anchor.traits.is_isotropic,
        target=StoredArray.from_json(kept["target"]),
        trusted=kept["trusted"],
        model=StoredArray.from_json(kept["model"]) if kept["model"] else None,
        folder=f"{collaboration.id}/work-{uuid.uuid4().hex[:12]}",
        maps_are_linear=not terms.own_maps,
    )


def refuse(analyst: Analyst, uplink: Uplink, owner: str, reason: str) -> None:
    """End a claim with the reason why the late consumer gets nothing."""
    with analyst.records.begin(write=True) as unit:
        collaboration = owned(analyst, unit, uplink.collaboration_id, owner)
        collaboration.lease_owner = collaboration.lease_until = None
        row = unit.uplink(uplink.id)
        if row is not None:
            row.refused = reason
        move(
            unit,
            collaboration,
            Event.REFUSE_CONSUMER,
            at=analyst.clock(),
            party=uplink.party,
            subject=uplink.manifest_digest,
        )
