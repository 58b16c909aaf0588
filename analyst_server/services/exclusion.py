"""The operator leaves a party out of a round, before its model is released (docs/adr/0025).

An excluded party takes no part: its anchor representation aligns nobody, its rows train nothing, and there is
no downlink for it. The ledger, the status and the report say so to every member.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import suppress

from analyst_server.services import rounds
from analyst_server.services.analyst import Analyst, find, move, stored_terms
from analyst_server.services.joined import require_no_group
from analyst_server.store import Collaboration, Unit
from protocol.errors import NotFoundError, OutOfOrderError
from protocol.states import Event, State, advance


def exclude(analyst: Analyst, collaboration_id: str, party: str) -> None:
    """Leave a party out; doing so again changes nothing.

    A model that is held, and was trained with its rows, is discarded: the round has then failed, and can be
    resumed. A round that waits for nobody else any more is sealed.

    Raises
    ------
    NotFoundError
        If the terms name no such party.
    OutOfOrderError
        If the round is being computed, is released or has ended; under sums; for a late consumer, who sends
        no rows; for a party whose rows are joined with others'; or if nobody would be left.
    """
    with analyst.records.begin(write=True) as unit:
        collaboration, now = find(unit, collaboration_id), analyst.clock()
        excluded = unit.excluded(collaboration_id)
        if party in excluded:
            return
        _check(collaboration, party, excluded)
        sent = [uplink for uplink in unit.uplinks_of(collaboration_id, party) if uplink.receipt is not None]
        subject = sent[0].manifest_digest if sent else None
        was_held = collaboration.now_in is State.TRAINING
        unjudged = collaboration.unjudged
        move(unit, collaboration, Event.EXCLUDE, at=now, party=party, subject=subject)
        if was_held:
            rounds.discard_result(unit, collaboration)
            collaboration.failure = f"{party} was excluded, and the model was trained before"
        is_sealed = _seal_if_complete(unit, collaboration, now)
    if was_held and unjudged is not None:
        with suppress(OSError):  # what stays is erased when the collaboration ends
            analyst.blobs.erase(unjudged["folder"])
    if is_sealed:
        analyst.has_work.set()


def _check(collaboration: Collaboration, party: str, excluded: AbstractSet[str]) -> None:
    """Raise unless a party can be excluded now."""
    terms, state = stored_terms(collaboration), collaboration.state
    advance(collaboration.now_in, Event.EXCLUDE)
    if party not in terms.parties:
        raise NotFoundError(f"the terms name no party {party}")
    if terms.sums is not None:
        why = (
            "masks cancel in the sums of all institutions only: cancel this collaboration, and start another"
        )
        raise OutOfOrderError(state, Event.EXCLUDE, why)
    require_no_group(terms, party, state)
    if party in terms.late_consumers:
        raise OutOfOrderError(state, Event.EXCLUDE, f"{party} is a late consumer, and sends no rows")
    if not set(terms.awaited_parties) - excluded - {party}:
        raise OutOfOrderError(state, Event.EXCLUDE, "nobody else is left: cancel the collaboration")
    if collaboration.now_in is State.TRAINING and not rounds.is_held(collaboration):
        raise OutOfOrderError(state, Event.EXCLUDE, "a worker is computing it: wait until it has ended")


def _seal_if_complete(unit: Unit, collaboration: Collaboration, now: int) -> bool:
    """Seal a round that waited for the excluded party alone; return whether it did."""
    if collaboration.now_in is not State.COLLECTING or not is_complete(unit, collaboration):
        return False
    move(unit, collaboration, Event.SEAL, at=now)
    return True


def is_complete(unit: Unit, collaboration: Collaboration) -> bool:
    """Return whether somebody has sent rows, and nobody is awaited any more who was not excluded.

    Each party has one complete uplink at most, and a late consumer none before the release.
    """
    awaited, excluded = stored_terms(collaboration).awaited_parties, unit.excluded(collaboration.id)
    if excluded:
        received = len(unit.uplinks_taking_part(collaboration.id))
    else:  # in a large round, without reading every manifest again with each uplink
        received = unit.count_received(collaboration.id)
    return 0 < received == len(set(awaited) - excluded)


def require_taking_part(unit: Unit, collaboration: Collaboration, party: str, event: Event) -> None:
    """Raise `OutOfOrderError` if the party was excluded."""
    if unit.has_step(collaboration.id, party, Event.EXCLUDE):
        error = OutOfOrderError(
            collaboration.state, event, f"the analyst's operator has excluded {party} from this round"
        )
        error.hint = "ask the analyst's operator why; every member sees it in `odc status`"
        raise error
