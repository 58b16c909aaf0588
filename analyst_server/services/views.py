"""What members and the analyst's operator can see of a collaboration: status, receipt, ledger.

The ``viewer`` of these functions is a member, or None for the operator, who sees every collaboration.
`report` has the costs and results of a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from analyst_server.services import damage
from analyst_server.services.analyst import Analyst, find_as_member, find_to_view, stored_terms
from analyst_server.store import (
    Blobs,
    Collaboration,
    DownlinkState,
    LedgerRow,
    MemberState,
    Unit,
    UplinkState,
)
from protocol.codec import encode
from protocol.errors import MalformedMessageError, NotFoundError
from protocol.identity import Identity
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage
from protocol.limits import MAX_LEDGER_PAGE
from protocol.operations import MemberStatus, Status
from protocol.states import Event, State
from protocol.terms import Terms


def listing(analyst: Analyst, viewer: Identity | None, only: str | None = None) -> list[Status]:
    """Return the status of every collaboration that the viewer can see.

    With ``only``, the id of a collaboration, leave out all others.
    """
    with analyst.records.begin() as unit:
        rows = unit.collaborations(viewer.name if viewer else None)
        return [_status(unit, row, viewer, analyst.blobs) for row in rows if only in (None, row.id)]


def status(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> Status:
    """Return the status of one collaboration; raises `NotFoundError`."""
    with analyst.records.begin() as unit:
        return _status(unit, find_to_view(unit, collaboration_id, viewer), viewer, analyst.blobs)


def own_status(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> Status:
    """Return the status without the other members and without whom it waits for; raises `NotFoundError`."""
    with analyst.records.begin() as unit:
        collaboration = find_to_view(unit, collaboration_id, viewer)
        found = _status(unit, collaboration, viewer, analyst.blobs, party=viewer.name if viewer else "")
    del found["waiting_for"]
    return found


def receipt(analyst: Analyst, sender: Identity, collaboration_id: str) -> bytes:
    """Return the signed receipt of the sender's uplink.

    Raises `NotFoundError` until the uplink is complete.
    """
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        for uplink in unit.uplinks_of(collaboration_id, sender.name):
            if uplink.receipt is not None:
                return uplink.receipt
        raise NotFoundError("no uplink of this party is complete")


def ledger_page(analyst: Analyst, viewer: Identity | None, collaboration_id: str, start: int) -> bytes:
    """Return the ledger entries from number ``start`` on, as many as fit, and the signed head of all.

    Raises `MalformedMessageError` if ``start`` is beyond the last entry.
    """
    with analyst.records.begin() as unit:
        find_to_view(unit, collaboration_id, viewer)
        head = signed_head(analyst, unit, collaboration_id)
        rows = unit.ledger(collaboration_id, start=start, limit=MAX_LEDGER_PAGE)
    if not rows and start:
        raise MalformedMessageError("ledger", f"has no entry {start}")
    return encode(LedgerPage(entries=tuple(map(_entry, rows)), head=head))


def signed_head(analyst: Analyst, unit: Unit, collaboration_id: str) -> bytes:
    """Return the analyst's signature under all entries of a ledger."""
    last = unit.last_of_ledger(collaboration_id)
    if last is None:  # a collaboration is stored together with its first entry
        raise MalformedMessageError("ledger", "has no entries")
    return analyst.sign(
        LedgerHead(
            collaboration_id=collaboration_id,
            length=last.index + 1,
            digest=last.digest,
            at=analyst.clock(),
        )
    )


def _entry(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(
        index=row.index,
        at=row.at,
        event=Event(row.event),
        party=row.party,
        state=State(row.state),
        subject=row.subject,
        previous=row.previous,
    )


def _status(
    unit: Unit, collaboration: Collaboration, viewer: Identity | None, blobs: Blobs, party: str | None = None
) -> Status:
    """Return the status with all members, or of them with one party alone."""
    members = unit.member_states(collaboration.id, party)
    uplinks: dict[str, list[UplinkState]] = {member.party: [] for member in members}
    for uplink in unit.uplink_states(collaboration.id, party):
        uplinks[uplink.party].append(uplink)
    downlinks = {downlink.party: downlink for downlink in unit.downlink_states(collaboration.id, party)}
    is_released = collaboration.now_in is State.RELEASED
    terms = stored_terms(collaboration)
    late = set(terms.late_consumers)
    asked_again = _asked_again(collaboration, uplinks, blobs) if late or not is_released else set()
    return {
        "collaboration_id": collaboration.id,
        "title": collaboration.title,
        "state": collaboration.state,
        "members": [
            _member_status(
                member,
                uplinks[member.party],
                downlinks.get(member.party),
                is_anchored=collaboration.now_in is not State.ENROLLING,
                is_released=is_released,
                is_late=member.party in late,
                is_asked_again=member.party in asked_again,
                tells_rows=terms.sums is None,
            )
            for member in members
        ],
        "waiting_for": _waiting_for(collaboration, terms, members, uplinks, asked_again),
        "failure": collaboration.failure,
        "judging": collaboration.is_judging,
        "you": {"party": viewer.name, "role": viewer.role} if viewer else None,
    }


def _asked_again(
    collaboration: Collaboration, uplinks: Mapping[str, Sequence[UplinkState]], blobs: Blobs
) -> set[str]:
    """Return the parties whose stored uplink is damaged: they are to send the same bytes again."""
    if collaboration.now_in not in (State.FAILED, State.RELEASED):
        return set()
    return {
        party
        for party, sent in uplinks.items()
        if any(uplink.is_received and damage.is_marked(uplink, blobs) for uplink in sent)
    }


def _member_status(
    member: MemberState,
    uplinks: Sequence[UplinkState],
    downlink: DownlinkState | None,
    *,
    is_anchored: bool,
    is_released: bool,
    is_late: bool,
    is_asked_again: bool,
    tells_rows: bool,
) -> MemberStatus:
    received = next((uplink for uplink in uplinks if uplink.is_received), None)
    is_fetched = downlink is not None and downlink.is_fetched
    return {
        "party": member.party,
        "accepted": member.has_accepted,
        "anchor_ready": member.has_anchor and is_anchored,
        "uplink": "received" if received and not is_asked_again else "receiving" if uplinks else "none",
        "rows": received.rows if received and tells_rows else None,
        "downlink": "fetched" if is_fetched else "ready" if downlink and is_released else "none",
        "last_seen_at": member.last_seen_at,
        "late_consumer": is_late,
        "refused": received.refused if received else None,
    }


def _waiting_for(
    collaboration: Collaboration,
    terms: Terms,
    members: Sequence[MemberState],
    uplinks: Mapping[str, Sequence[UplinkState]],
    asked_again: AbstractSet[str],
) -> list[str]:
    """Return who has to act next, each with the command to run."""
    state, late = collaboration.now_in, set(terms.late_consumers)
    if state is State.ENROLLING:
        unsigned = [member.party for member in members if not member.has_accepted]
        awaited = [f"{party}: odc terms accept" for party in unsigned if party not in late]
        return (awaited or [f"{terms.lead}: odc anchor create"]) + [
            f"{party}, a late consumer: odc terms accept, before the anchor is created"
            for party in unsigned
            if party in late
        ]
    if state in (State.ANCHORED, State.COLLECTING):
        return [
            f"{party}: odc contribute"
            for party, sent in uplinks.items()
            if party not in late and not any(uplink.is_received for uplink in sent)
        ]
    if state is State.TRAINING and collaboration.results is not None:  # computed, and held
        return ["the analyst: odc-analyst collaboration release"]
    if state in (State.SEALED, State.ALIGNING, State.TRAINING):
        return ["the analyst: the round is computed"]
    if asked_again:
        return [f"{party}: odc contribute" for party in sorted(asked_again)]
    if state is State.FAILED:
        return ["the analyst: odc-analyst collaboration resume"]
    if state is State.RELEASED and any(member.has_accepted and not member.has_anchor for member in members):
        return [f"{terms.lead}: odc anchor share"]
    return []
