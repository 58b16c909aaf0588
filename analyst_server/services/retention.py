"""What is erased when a collaboration has ended: every array. Records and ledger stay."""

from __future__ import annotations

from typing import Final

from analyst_server.services.analyst import Analyst
from protocol.states import State

ENDED: Final = (State.CLOSED, State.CANCELLED)


def erase_arrays(analyst: Analyst, collaboration_id: str) -> None:
    """Remove uplinks, whole or partial, the sealed anchor matrix, and the arrays of the downlinks."""
    analyst.blobs.erase(collaboration_id)


def erase_ended(analyst: Analyst) -> None:
    """Erase the arrays of all collaborations that have ended.

    An erasure may have been cut off, or an upload may have brought bytes while the operator ended its round.
    """
    with analyst.records.begin() as unit:
        ended = [collaboration.id for collaboration in unit.in_states(ENDED)]
    for collaboration_id in ended:
        erase_arrays(analyst, collaboration_id)
