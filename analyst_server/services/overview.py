"""What there is to do on the whole server, counted: for those who watch it, without a party's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from analyst_server.blobs import Blobs
from analyst_server.services import damage, rounds
from analyst_server.services.analyst import Analyst, readable_outline
from analyst_server.services.awaited import Act, Awaited, awaited
from analyst_server.store import Collaboration, Unit, UplinkState
from protocol.states import ENDED, State

HELD: Final = "held"
"""A round in training that is computed and waits for the operator; counted as a state of its own."""
_SENDING: Final = (State.ANCHORED, State.COLLECTING, State.RELEASED)
Work = Literal["round", "late-consumer", "judging"]


@dataclass(frozen=True)
class Overview:
    """What is counted.

    Attributes
    ----------
    collaborations : mapping of str to int
        By state, with `HELD` as one of them; states that none is in are missing.
    unchanged_since : mapping of str to int
        When the collaboration that has not changed for longest took its last step, by state, in unix seconds.
    awaited : mapping of str to int
        How many parties, or the analyst, have to act next, by what they have to do.
    unfinished_uplinks : int
        Parties that have begun an uplink and completed none.
    queue : mapping of str to int
        What waits for a compute process.
    certificate_requests : int
        Requests that wait for the lead institution.
    """

    collaborations: Mapping[str, int]
    unchanged_since: Mapping[str, int]
    awaited: Mapping[Act, int]
    unfinished_uplinks: int
    queue: Mapping[Work, int]
    certificate_requests: int


def look(analyst: Analyst) -> Overview:
    """Return what there is to do, in one transaction that writes nothing."""
    with analyst.records.begin() as unit:
        by_state = unit.by_state()
        open_states = [state for state in by_state if state not in ENDED]
        collaborations = unit.in_states(open_states)
        held = [row for row in collaborations if rounds.is_held(row)]
        acts = Counter(one.act for row in collaborations for one in awaited_in(unit, row, analyst.blobs))
        counts = {state: found.collaborations for state, found in by_state.items()}
        since = {state: found.unchanged_since for state, found in by_state.items()}
        if held:
            counts[HELD], since[HELD] = len(held), min(row.updated_at for row in held)
            counts[State.TRAINING] -= len(held)
            others = [
                row.updated_at for row in collaborations if row.now_in is State.TRAINING and row not in held
            ]
            since[State.TRAINING] = min(others, default=0)
        return Overview(
            collaborations=counts,
            unchanged_since=since,
            awaited=acts,
            unfinished_uplinks=unit.count_unfinished_uplinks(_SENDING),
            queue={
                "round": counts.get(State.SEALED, 0),
                "late-consumer": len(unit.waiting_latecomers()),
                "judging": len(unit.unjudged()),
            },
            certificate_requests=unit.count_open_enrolments(),
        )


def awaited_in(unit: Unit, collaboration: Collaboration, blobs: Blobs) -> list[Awaited]:
    """Return who has to act next in one collaboration; nobody if only a newer server can read its terms."""
    if collaboration.now_in in ENDED:
        return []
    terms = readable_outline(collaboration)
    if terms is None or (collaboration.now_in is State.RELEASED and not terms.late_consumers):
        return []  # of those released there may be hundreds, and nobody has to act in them
    members = unit.member_states(collaboration.id)
    uplinks: dict[str, list[UplinkState]] = {member.party: [] for member in members}
    for uplink in unit.uplink_states(collaboration.id):
        uplinks[uplink.party].append(uplink)
    again = damage.asked_again(collaboration, uplinks, blobs)
    return awaited(collaboration, members, uplinks, unit.excluded(collaboration.id), again)
