"""Erase what has been kept as long as the terms allow (`Terms.retention_days`).

A round that is due ends as if the operator had closed or cancelled it, so that its ledger says so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from analyst_server.services import end
from analyst_server.services.analyst import Analyst, readable_outline
from analyst_server.store import Collaboration, Unit, Wanted, by_question
from protocol.errors import OutOfOrderError, StorageError
from protocol.states import ENDED, Event, State

log = logging.getLogger(__name__)

DAY_S: Final = 86_400
_NOT_ENDED: Final = tuple(state for state in State if state not in ENDED)


@dataclass(frozen=True)
class Kept:
    """A round of which the analyst has something that it may keep until some time.

    Attributes
    ----------
    erase_at : int
        Unix time.
    ended : bool
        Whether it has just been ended, and its arrays erased.
    """

    collaboration_id: str
    title: str
    state: State
    erase_at: int
    ended: bool = False


def erase_times(unit: Unit, collaborations: Sequence[Collaboration]) -> dict[str, int]:
    """Return until when rounds may be kept, of those with a limit of which something was received.

    One whose terms only a newer server can read has none here: that server ends it in time.
    """
    days = {one.id: limit for one in collaborations if (limit := _days(one)) is not None}
    if not days:
        return {}
    found = {}
    for collaboration_id, last in unit.last_steps_of(days, (Event.RELEASE, Event.ACCEPT_UPLINK)).items():
        at = last.get(Event.RELEASE, last.get(Event.ACCEPT_UPLINK))
        if at is not None:
            found[collaboration_id] = at + days[collaboration_id] * DAY_S
    return found


def _days(collaboration: Collaboration) -> int | None:
    if collaboration.now_in in ENDED:
        return None
    terms = readable_outline(collaboration)
    return terms.retention_days if terms is not None else None


def kept(analyst: Analyst) -> list[Kept]:
    """Return the rounds with a limit that have not ended, the one that is due first at the head."""
    found = []
    with analyst.records.begin() as unit:
        rows = unit.collaborations(wanted=Wanted(states=_NOT_ENDED))
        for part in by_question(rows):
            times = erase_times(unit, part)
            found += [Kept(one.id, one.title, one.now_in, times[one.id]) for one in part if one.id in times]
    return sorted(found, key=lambda one: one.erase_at)


def purge(analyst: Analyst) -> list[Kept]:
    """End every round that is due, and return all of `kept` as it is then; erase what is left of ended ones.

    One that is being computed is ended later: it can be neither closed nor cancelled.
    """
    found, now = [], analyst.clock()
    for one in kept(analyst):
        event = Event.CLOSE if one.state is State.RELEASED else Event.CANCEL
        if one.erase_at > now:
            found.append(one)
            continue
        try:
            ending = end.close if event is Event.CLOSE else partial(end.cancel, is_asked=False)
            ending(analyst, one.collaboration_id)
        except OutOfOrderError:  # it is computed, or has moved on meanwhile
            found.append(one)
            continue
        except (StorageError, OSError) as error:  # it has ended, or is due the next time
            log.error("round %s: cannot be ended or erased now: %s", one.collaboration_id[:8], error)
            found.append(one)
            continue
        log.info("round %s: ended, its terms let it be kept no longer", one.collaboration_id[:8])
        state = State.CLOSED if event is Event.CLOSE else State.CANCELLED
        found.append(Kept(one.collaboration_id, one.title, state, one.erase_at, ended=True))
    end.erase_ended(analyst)
    return found
