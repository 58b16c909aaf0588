"""Erase what has been kept as long as the terms allow (`Terms.retention_days`).

A round that is due ends as if the operator had closed or cancelled it, so that its ledger says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from analyst_server.services import end
from analyst_server.services.analyst import Analyst, readable_terms
from analyst_server.store import Collaboration, Unit
from protocol.errors import OutOfOrderError, StorageError
from protocol.states import Event, State

log = logging.getLogger(__name__)

DAY_S: Final = 86_400


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


def erase_at(unit: Unit, collaboration: Collaboration) -> int | None:
    """Return until when a round may be kept; None without a limit, or if nothing was received yet.

    None also where only a newer server can read the terms: that one ends it in time.
    """
    terms = readable_terms(collaboration)
    days = terms.retention_days if terms is not None else None
    if days is None or collaboration.now_in in end.ENDED:
        return None
    last = unit.last_step_of(collaboration.id, None, Event.RELEASE) or unit.last_step_of(
        collaboration.id, None, Event.ACCEPT_UPLINK
    )
    return None if last is None else last.at + days * DAY_S


def kept(analyst: Analyst) -> list[Kept]:
    """Return the rounds with a limit that have not ended, the one that is due first at the head."""
    with analyst.records.begin() as unit:
        found = [
            Kept(one.id, one.title, one.now_in, at)
            for one in unit.collaborations()
            if (at := erase_at(unit, one)) is not None
        ]
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
