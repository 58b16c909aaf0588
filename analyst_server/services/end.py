"""The end of a collaboration: cancelled before its release or closed after it, and what is then erased.

Every array is erased. Records and ledger stay.
"""

from __future__ import annotations

import logging

from analyst_server.services import judging, rounds
from analyst_server.services.analyst import Analyst, find, move
from protocol.errors import StorageError
from protocol.states import ENDED, Event, State

log = logging.getLogger(__name__)


def cancel(analyst: Analyst, collaboration_id: str, *, is_asked: bool = True) -> None:
    """End a collaboration before its release, and erase the arrays that were received.

    A model that is held is discarded, and one that is computed no longer, if a person asks for that.

    Raises `OutOfOrderError` after the release, and for a round that is computed if nobody asks.
    """
    _end(analyst, collaboration_id, Event.CANCEL, is_asked=is_asked)


def close(analyst: Analyst, collaboration_id: str) -> None:
    """End a released collaboration, and erase its arrays: no downlink can be fetched afterwards.

    Raises `OutOfOrderError` before the release.
    """
    _end(analyst, collaboration_id, Event.CLOSE, is_asked=True)


def _end(analyst: Analyst, collaboration_id: str, event: Event, *, is_asked: bool) -> None:
    with analyst.records.begin(write=True) as unit:
        collaboration = find(unit, collaboration_id)
        is_computed = collaboration.now_in in (State.ALIGNING, State.TRAINING)
        if event is Event.CANCEL and is_computed and (is_asked or rounds.is_held(collaboration)):
            move(unit, collaboration, Event.FAIL, at=analyst.clock())
            rounds.discard_result(unit, collaboration)
        move(unit, collaboration, event, at=analyst.clock())
        judging.drop(collaboration)
        collaboration.lease_owner = collaboration.lease_until = None  # whoever computes for it stops
    erase_arrays(analyst, collaboration_id)


def erase_arrays(analyst: Analyst, collaboration_id: str) -> None:
    """Remove uplinks, whole or partial, the sealed anchor matrix, and the arrays of the downlinks."""
    analyst.blobs.erase(collaboration_id)


def erase_if_ended(analyst: Analyst, collaboration_id: str) -> None:
    """Erase what was computed for a collaboration while it ended."""
    with analyst.records.begin() as unit:
        is_ended = find(unit, collaboration_id).now_in in ENDED
    if is_ended:
        erase_arrays(analyst, collaboration_id)


def erase_ended(analyst: Analyst) -> None:
    """Erase the arrays of all collaborations that have ended.

    An erasure may have been cut off, or an upload may have brought bytes while the operator ended its round.
    What cannot be erased now is left for the next time.
    """
    with analyst.records.begin() as unit:
        ended = [collaboration.id for collaboration in unit.in_states(ENDED)]
    for collaboration_id in ended:
        try:
            erase_arrays(analyst, collaboration_id)
        except (StorageError, OSError) as error:
            log.error(
                "round %s: has ended, and its arrays cannot be erased now: %s", collaboration_id[:8], error
            )
