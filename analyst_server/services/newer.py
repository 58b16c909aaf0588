"""Rounds that a newer server has stored, and of which this one cannot read everything: it leaves them alone.

Servers that share their records are upgraded one after another. A round that only the newer ones understand
is theirs to compute: an older one takes no step in it, and lets it neither wait nor fail.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

from analyst_server.services.analyst import Analyst, readable_outline
from analyst_server.store import Collaboration

log = logging.getLogger(__name__)

LEFT_ALONE_S: Final = 3600.0
"""For so long a round is not claimed again that was found to be for a newer server."""


def ours(analyst: Analyst, collaborations: Iterable[Collaboration]) -> list[Collaboration]:
    """Return the rounds that this server can compute."""
    found = []
    for one in collaborations:
        if _is_left_alone(analyst, one):
            continue
        if readable_outline(one) is None:
            leave_alone(analyst, one.id)
        else:
            found.append(one)
    return found


def leave_alone(analyst: Analyst, collaboration_id: str) -> None:
    """Claim a round no more for some time, because this server cannot read what belongs to it."""
    analyst.left_alone[collaboration_id] = time.monotonic()
    log.warning(
        "round %s: left to a newer server, which has stored what this one cannot read; upgrade this one",
        collaboration_id[:8],
    )


def _is_left_alone(analyst: Analyst, collaboration: Collaboration) -> bool:
    at_s = analyst.left_alone.get(collaboration.id)
    return at_s is not None and time.monotonic() < at_s + LEFT_ALONE_S
