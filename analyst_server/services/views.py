"""What members and the analyst's operator can see of a collaboration: status, receipt, ledger.

The ``viewer`` of these functions is a member, or None for the operator, who sees every collaboration.
`report` has the costs and results of a round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Final, NamedTuple, TypedDict

from analyst_server.blobs import Blobs
from analyst_server.services import damage, retention, rounds
from analyst_server.services.analyst import (
    Analyst,
    find_as_member,
    find_to_view,
    outline,
    readable_outline,
    readable_terms,
)
from analyst_server.services.awaited import THE_ANALYST, awaited
from analyst_server.services.joined import with_their_groups
from analyst_server.services.stored import blob_key, partial_key
from analyst_server.store import (
    Collaboration,
    DownlinkState,
    LedgerRow,
    MemberState,
    Suspicions,
    Unit,
    UplinkState,
    Wanted,
    by_question,
)
from protocol.answers import Computing, MemberStatus, Status
from protocol.codec import pack_list, pack_lists
from protocol.errors import MalformedMessageError, NotFoundError
from protocol.identity import Identity
from protocol.ledger import LedgerEntry, LedgerHead, encode_page
from protocol.limits import MAX_LEDGER_PAGE
from protocol.states import Event, State
from protocol.suspicions import Suspected

MOST_LISTED: Final = 200
"""Collaborations of one page of a listing."""
_MOST_OF_A_PAGE: Final = 4096
"""Manifests that are read for one page; about half as many fit into a message."""


UNREADABLE: Final = (
    "its terms cannot be read: upgrade this server if a newer one stored them, else restore a backup"
)
UPGRADE: Final = f"{THE_ANALYST}: upgrade this server, which is older than the terms and cannot read them"
"""Whom a collaboration waits for whose terms only a newer server can read, as this one sees it."""


class _Limit(TypedDict, total=False):
    erase_at: int


class _Held(TypedDict, total=False):
    held: bool


class _Unreadable(TypedDict, total=False):
    unreadable: bool


class _Progress(TypedDict, total=False):
    computing: Computing


class _Suspicion(TypedDict):
    suspected: Suspected
    left_out: bool


class _Found(NamedTuple):
    """A status as the records have it, and the uplinks that are arriving, by party."""

    status: Status
    arriving: Mapping[str, UplinkState]

    def with_arrivals(self, blobs: Blobs) -> Status:
        """Return the status with how much has come of each uplink; after the transaction has ended.

        A store may ask a server for each of them.
        """
        for member in self.status["members"]:
            if uplink := self.arriving.get(member["party"]):
                arrived = blobs.partial_size(partial_key(blob_key(uplink), uplink.stored_as))
                member["arrived_bytes"], member["payload_bytes"] = arrived or 0, uplink.payload_bytes
        return self.status


def listing(
    analyst: Analyst, viewer: Identity | None, only: str | None = None, *, begins: str = ""
) -> list[Status]:
    """Return the status of every collaboration that the viewer can see, the oldest first.

    With ``only``, the id of a collaboration, leave out all others, and all whose id does not begin with
    ``begins``. Where only a newer server can read the terms, the status has what is known without them.
    """
    return _listed(analyst, viewer, Wanted(only=only, begins=begins))


def page(
    analyst: Analyst, viewer: Identity | None, only: str | None, after: str, *, begins: str = ""
) -> tuple[list[Status], str | None]:
    """Return `MOST_LISTED` of a listing, behind the collaboration ``after``, and the last if there are more.

    Raises `MalformedMessageError` if the viewer can see no collaboration ``after``.
    """
    behind = None
    if after:
        try:
            with analyst.records.begin() as unit:
                behind = find_to_view(unit, after, viewer)
        except NotFoundError:
            raise MalformedMessageError("after", "is no collaboration of the caller") from None
    wanted = Wanted(only=only, begins=begins, behind=behind, most=MOST_LISTED + 1)
    found = _listed(analyst, viewer, wanted)
    shown = found[:MOST_LISTED]
    return shown, shown[-1]["collaboration_id"] if len(found) > MOST_LISTED else None


def newest(
    analyst: Analyst,
    viewer: Identity | None,
    only: str | None,
    start: int,
    most: int,
    *,
    states: Collection[State] | None = None,
) -> tuple[list[Status], bool]:
    """Return so many of a listing at most, the newest first, from one of them on; and if there are more.

    With ``states``, of the collaborations that are in one of them.
    """
    wanted = Wanted(only=only, states=states, newest_first=True, skip=start, most=most + 1)
    found = _listed(analyst, viewer, wanted)
    return found[:most], len(found) > most


def _listed(analyst: Analyst, viewer: Identity | None, wanted: Wanted) -> list[Status]:
    with analyst.records.begin() as unit:
        rows = unit.collaborations(viewer.name if viewer else None, wanted)
        found = [one for part in by_question(rows) for one in _statuses(unit, part, viewer, analyst.blobs)]
    return [one.with_arrivals(analyst.blobs) for one in found]


def status(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> Status:
    """Return the status of one collaboration.

    Raises `NotFoundError`, and `OlderServerError` if this server cannot read its terms.
    """
    with analyst.records.begin() as unit:
        collaboration = _to_view(unit, collaboration_id, viewer)
        (found,) = _statuses(unit, [collaboration], viewer, analyst.blobs)
    return found.with_arrivals(analyst.blobs)


def own_status(analyst: Analyst, viewer: Identity | None, collaboration_id: str) -> Status:
    """Return the status without the other members and without whom it waits for; raises as `status`."""
    with analyst.records.begin() as unit:
        collaboration = _to_view(unit, collaboration_id, viewer)
        own = viewer.name if viewer else ""
        (found,) = _statuses(unit, [collaboration], viewer, analyst.blobs, party=own)
    status = found.with_arrivals(analyst.blobs)
    del status["waiting_for"]
    return status


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


def manifests_page(analyst: Analyst, sender: Identity, collaboration_id: str, after: str) -> bytes:
    """Return a list of the signed manifests of complete uplinks, from the first party after ``after`` on."""
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        found = [one.manifest for one in unit.received_uplinks(collaboration_id, after, _MOST_OF_A_PAGE)]
    return next(pack_lists(found), pack_list([]))


def ledger_page(analyst: Analyst, viewer: Identity | None, collaboration_id: str, start: int) -> bytes:
    """Return the ledger entries from number ``start`` on, as many as fit, and the signed head of all.

    Raises `MalformedMessageError` if ``start`` is beyond the last entry.
    """
    with analyst.records.begin() as unit:
        find_to_view(unit, collaboration_id, viewer)
        last = unit.last_of_ledger(collaboration_id)
        if last is None:  # a collaboration is stored together with its first entry
            raise MalformedMessageError("ledger", "has no entries")
        length, end = last.index + 1, min(last.index + 1, start + MAX_LEDGER_PAGE)
        if start >= length:
            raise MalformedMessageError("ledger", f"has no entry {start}")
        entries = analyst.packed_ledgers.read(unit, collaboration_id, start, end)
        head = LedgerHead(
            collaboration_id=collaboration_id, length=length, digest=last.digest, at=analyst.clock()
        )
    return encode_page(entries, analyst.sign(head))


def entry_of(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(
        index=row.index,
        at=row.at,
        event=Event(row.event),
        party=row.party,
        state=State(row.state),
        subject=row.subject,
        previous=row.previous,
    )


def _to_view(unit: Unit, collaboration_id: str, viewer: Identity | None) -> Collaboration:
    """Return a collaboration whose terms can be read, to show it alone."""
    collaboration = find_to_view(unit, collaboration_id, viewer)
    outline(collaboration)
    return collaboration


class _Known(NamedTuple):
    """What the records have of one collaboration."""

    members: Sequence[MemberState]
    uplinks: Mapping[str, Sequence[UplinkState]]
    """Of every member, an empty sequence if it has begun none."""
    downlinks: Mapping[str, DownlinkState]
    excluded: Set[str]
    suspicions: Mapping[str, _Suspicion]
    erase_at: int | None


def _statuses(
    unit: Unit,
    collaborations: Sequence[Collaboration],
    viewer: Identity | None,
    blobs: Blobs,
    party: str | None = None,
) -> list[_Found]:
    """Return the status of each, with all members or with one party alone, by a fixed number of questions."""
    ids = [one.id for one in collaborations]
    unit.read_results([one.id for one in collaborations if one.now_in is State.TRAINING])  # it may be held
    members, uplinks = unit.member_states_of(ids, party), unit.uplink_states_of(ids, party)
    downlinks, excluded = unit.downlink_states_of(ids, party), unit.excluded_of(ids)
    suspected, erased = unit.suspicions_of(ids), retention.erase_times(unit, collaborations)
    found = []
    for one in collaborations:
        sent: dict[str, list[UplinkState]] = {member.party: [] for member in members.get(one.id, ())}
        for uplink in uplinks.get(one.id, ()):
            sent[uplink.party].append(uplink)
        known = _Known(
            members.get(one.id, ()),
            sent,
            {downlink.party: downlink for downlink in downlinks.get(one.id, ())},
            excluded.get(one.id, set()),
            _suspicions(one, suspected.get(one.id)),
            erased.get(one.id),
        )
        found.append(_Found(_status(one, known, viewer, blobs), _arriving(sent)))
    return found


def _status(collaboration: Collaboration, known: _Known, viewer: Identity | None, blobs: Blobs) -> Status:
    is_released = collaboration.now_in is State.RELEASED
    terms = readable_outline(collaboration)
    late = terms.late_consumers if terms is not None else frozenset[str]()
    asks_again = late or not is_released
    asked_again = damage.asked_again(collaboration, known.uplinks, blobs) if asks_again else set()
    waits = [UPGRADE]
    if terms is not None:
        awaiting = awaited(collaboration, known.members, known.uplinks, known.excluded, asked_again)
        waits = [one.text for one in awaiting]
    return {
        "collaboration_id": collaboration.id,
        "title": collaboration.title,
        "state": collaboration.state,
        "members": [
            _member_status(
                member,
                known.uplinks[member.party],
                known.downlinks.get(member.party),
                is_anchored=collaboration.now_in is not State.ENROLLING,
                is_released=is_released,
                is_late=member.party in late,
                is_excluded=member.party in known.excluded,
                is_asked_again=member.party in asked_again,
                tells_rows=terms is not None and not terms.is_of_sums,
                suspicion=known.suspicions.get(member.party),
            )
            for member in known.members
        ],
        "waiting_for": waits,
        "failure": collaboration.failure,
        "judging": collaboration.is_judging,
        **_unreadable(is_known=terms is not None),
        **_held(collaboration),
        **_progress(collaboration),
        **_limit(known.erase_at),
        "you": {"party": viewer.name, "role": viewer.role} if viewer else None,
    }


def _arriving(uplinks: Mapping[str, Sequence[UplinkState]]) -> dict[str, UplinkState]:
    """Return the uplinks that are not complete, by party; of several the one that was begun last."""
    return {
        party: begun[-1]
        for party, begun in uplinks.items()
        if begun and not any(uplink.is_received for uplink in begun)
    }


def _limit(at: int | None) -> _Limit:
    return {} if at is None else {"erase_at": at}


def _progress(collaboration: Collaboration) -> _Progress:
    told = rounds.progress_of(collaboration)
    return {"computing": told} if told else {}


def _held(collaboration: Collaboration) -> _Held:
    return {"held": True} if rounds.is_held(collaboration) else {}


def _unreadable(*, is_known: bool) -> _Unreadable:
    return {} if is_known else {"unreadable": True}


def _suspicions(collaboration: Collaboration, told: Suspicions | None) -> dict[str, _Suspicion]:
    """Return what a status says of each suspected party, and of no other: most rounds have none.

    A suspicion of joined rows is of all whose rows they are.
    """
    if told is None:
        return {}
    terms = readable_terms(collaboration)
    return {
        party: {
            "suspected": {"assumption": one["assumption"], "evidence": one["evidence"]},
            "left_out": one["party"] in told.left_out,
        }
        for one in told.suspicions
        for party in ([one["party"]] if terms is None else with_their_groups(terms, [one["party"]]))
    }


def _member_status(
    member: MemberState,
    uplinks: Sequence[UplinkState],
    downlink: DownlinkState | None,
    *,
    is_anchored: bool,
    is_released: bool,
    is_late: bool,
    is_excluded: bool,
    is_asked_again: bool,
    tells_rows: bool,
    suspicion: _Suspicion | None,
) -> MemberStatus:
    received = next((uplink for uplink in uplinks if uplink.is_received), None)
    is_fetched = downlink is not None and downlink.is_fetched
    found: MemberStatus = {
        "party": member.party,
        "accepted": member.has_accepted,
        "anchor_ready": member.has_anchor and is_anchored,
        "uplink": "received" if received and not is_asked_again else "receiving" if uplinks else "none",
        "rows": received.rows if received and tells_rows else None,
        "downlink": "fetched" if is_fetched else "ready" if downlink and is_released else "none",
        "last_seen_at": member.last_seen_at,
        "late_consumer": is_late,
        "refused": received.refused if received else None,
        "excluded": is_excluded,
        "rejected": member.rejected,
    }
    if suspicion is not None:
        found["suspected"], found["left_out"] = suspicion["suspected"], suspicion["left_out"]
    return found
