"""Waiting for news of a round: the analyst holds its answer until there is some, where it can.

Specified in docs/protocol.md, "Waiting for a status". Only what concerns us is asked for: the state of the
round and our own line. An analyst of an earlier version says everything every time, and is asked less and
less often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast

from protocol.errors import StorageBusyError
from protocol.operations import COLLABORATION_STATUS, ONLY_OWN, Status
from runtime.waiting import Look, watch_until
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport import AnalystConnection, Answer, json_object

log = logging.getLogger(__name__)

LONGEST_HOLD_S: Final = 25.0
"""Proxies cut requests that are silent for 30 to 60 seconds."""
SHORTEST_HOLD_S: Final = 2.0
"""Where a line does not last for so long, asking again and again costs no more."""
MOST_REFUSALS: Final = 3
"""An analyst that goes down holds no answer, and does so again after its restart; others never do."""


def wait_for(
    connection: AnalystConnection,
    collaboration_id: str,
    is_enough: Callable[[Status], bool],
    *,
    wait_s: float,
    pause: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> Status:
    """Return our status of a collaboration once it is enough, or as it is after ``wait_s`` seconds."""
    watch = _StatusWatch(connection, collaboration_id, clock)
    return watch_until(is_enough, watch.look, wait_s=wait_s, pause=pause)


class _StatusWatch:
    def __init__(
        self, connection: AnalystConnection, collaboration_id: str, clock: Callable[[], float]
    ) -> None:
        self._connection, self._clock = connection, clock
        self._path = f"{COLLABORATION_STATUS.url(collaboration_id=collaboration_id)}?{ONLY_OWN}"
        self._tag: str | None = None
        self._seen: Status | None = None
        self._hold_s = LONGEST_HOLD_S
        self._refusals = 0

    def look(self, most_s: float) -> Look[Status]:
        """Return our status: at once, or if it is held once there is news or ``most_s`` seconds are over."""
        hold_s = int(min(most_s, self._hold_s))
        if hold_s >= 1 and self._tag is not None and self._seen is not None:
            return self._held(self._seen, self._tag, hold_s)
        headers = {} if self._tag is None else {"if-none-match": self._tag}
        answer = self._connection.request("GET", self._path, headers=headers)
        can_hold = self._hold_s >= SHORTEST_HOLD_S and self._refusals < MOST_REFUSALS
        return Look(self._note(answer), will_hold=can_hold and self._tag is not None)

    def _held(self, seen: Status, tag: str, hold_s: int) -> Look[Status]:
        """Ask for news; return what was seen before if there is none, or if the line breaks."""
        headers = {"if-none-match": tag, "prefer": f"wait={hold_s}"}
        began = self._clock()
        try:
            answer = self._connection.request_once("GET", self._path, headers=headers)
        except TlsFailedError:
            raise
        except (ConnectionFailedError, StorageBusyError) as error:
            lasted_s = self._clock() - began
            if lasted_s >= 1:  # a proxy that cuts what is silent; an analyst that is away answers sooner
                self._hold_s = min(self._hold_s, lasted_s) / 2
            log.info("%s, after %.0f s of waiting for news", error.detail, lasted_s)
            return Look(seen, will_hold=False, held_s=lasted_s)
        if "preference-applied" not in answer.headers:  # it holds nothing now
            self._refusals += 1
            return Look(self._note(answer), will_hold=False)
        return Look(self._note(answer), will_hold=True, held_s=self._clock() - began)

    def _note(self, answer: Answer) -> Status:
        if answer.status != HTTPStatus.NOT_MODIFIED or self._seen is None:
            self._seen = cast("Status", json_object(answer))
            self._tag = answer.headers.get("etag")
        return self._seen
