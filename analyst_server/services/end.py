"""The end of a collaboration: cancelled before its release, or closed after it."""

from __future__ import annotations

from analyst_server.services.analyst import Analyst, find, move
from analyst_server.services.retention import erase_arrays
from protocol.states import Event


def cancel(analyst: Analyst, collaboration_id: str) -> None:
    """End a collaboration before its release, and erase the arrays that were received.

    Raises `OutOfOrderError` after the release.
    """
    _end(analyst, collaboration_id, Event.CANCEL)


def close(analyst: Analyst, collaboration_id: str) -> None:
    """End a released collaboration, and erase its arrays: no downlink can be fetched afterwards.

    Raises `OutOfOrderError` before the release.
    """
    _end(analyst, collaboration_id, Event.CLOSE)


def _end(analyst: Analyst, collaboration_id: str, event: Event) -> None:
    with analyst.records.begin(write=True) as unit:
        move(unit, find(unit, collaboration_id), event, at=analyst.clock())
    erase_arrays(analyst, collaboration_id)
