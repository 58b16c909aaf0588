"""Waiting for news of a round: the analyst holds its answer until there is some, where it can.

Specified in docs/protocol.md, "Waiting for a status". Only what concerns us is asked for: the state of the
round and our own line. An analyst of an earlier version says everything every time, and is asked less and
less often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from protocol.answers import Status
from protocol.busy import TooManyRequestsError
from protocol.errors import StorageBusyError
from protocol.operations import COLLABORATION_STATUS, ONLY_OWN, UNTIL_RELEASED, WHILE
from protocol.states import State
from runtime.waiting import Look, watch_until
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.sdk.answers import status_in
from user_client.transport import AnalystConnection, Answer, json_object, version_of

T = TypeVar("T")

log = logging.getLogger(__name__)

LONGEST_HOLD_S: Final = 25.0
"""Proxies cut requests that are silent for 30 to 60 seconds."""
SHORTEST_HOLD_S: Final = 2.0
"""Where a line does not last for so long, asking again and again costs no more."""
_FRESH_S: Final = 1.0
"""What was seen so recently need not be asked for again."""
MOST_REFUSALS: Final = 3
"""An analyst that goes down holds no answer, and does so again after its restart; others never do."""


class Patience:
    """Lets a wait go on while the analyst does not answer: until it does, what was seen last counts."""

    def __init__(self) -> None:
        self._away: ConnectionFailedError | StorageBusyError | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the last look found nobody: the next one need not try again and again."""
        return self._away is not None

    def look(self, look: Callable[[], T], before: T) -> T:
        """Return what a look finds, or what was seen ``before`` if nobody answers."""
        try:
            found = look()
        except TlsFailedError:
            raise  # waiting does not help
        except (ConnectionFailedError, StorageBusyError) as error:
            if self._away is None:
                log.warning("%s; the wait goes on", error.detail)
            self._away = error
            return before
        self._away = None
        return found

    def end(self) -> None:
        """Raise the error of the last look if the analyst is still away when the time is up."""
        if self._away is not None:
            raise self._away


class StatusWatch:
    """Our status of one collaboration: what was seen of it is not sent again."""

    def __init__(
        self,
        connection: AnalystConnection,
        collaboration_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._clock = connection, clock
        self._path = (
            f"{COLLABORATION_STATUS.url(collaboration_id=collaboration_id)}?{ONLY_OWN}&{UNTIL_RELEASED}"
        )
        self._tag: str | None = None
        self._seen: Status | None = None
        self._seen_at = 0.0
        self._hold_s = LONGEST_HOLD_S
        self._refusals = 0

    def now(self) -> Status:
        """Return our status as it is now."""
        return self._look(0).seen

    def past(self, state: State, *, wait_s: float) -> Status:
        """Return our status after a step of ours that led to ``state``; while it is that, once there is news.

        It is returned as it is where the analyst holds no answer, and after a while in any case.
        """
        hold_s = int(min(wait_s, self._hold_s))
        if hold_s < 1:
            return self.now()
        try:
            answer = self._connection.request_once(
                "GET", f"{self._path}&{WHILE}={state}", headers={"prefer": f"wait={hold_s}"}
            )
        except TlsFailedError:
            raise
        except (ConnectionFailedError, StorageBusyError, TooManyRequestsError) as error:
            log.info("%s, while waiting for news", error.detail)
            return self.now()
        return self._note(answer)

    def until(
        self,
        is_enough: Callable[[Status], bool],
        *,
        wait_s: float,
        pause: Callable[[float], None] = time.sleep,
    ) -> Status:
        """Return our status once it is enough, or as it is after ``wait_s`` seconds.

        Raises `ConnectionFailedError` if the analyst does not answer at first, or when the time is up.
        """
        seen = self._seen
        is_known = seen is not None and (not is_enough(seen) or self._clock() - self._seen_at < _FRESH_S)
        first = self._as_seen(seen) if seen is not None and is_known else self._look(0)
        patience = Patience()

        def look(most_s: float) -> Look[Status]:
            before = Look(self._seen or first.seen, will_hold=False)
            return patience.look(partial(self._look, most_s, tries_again=not patience.is_needed), before)

        found = watch_until(is_enough, look, first=first, wait_s=wait_s, pause=pause)
        if not is_enough(found):
            patience.end()
        return found

    def _look(self, most_s: float, *, tries_again: bool = True) -> Look[Status]:
        """Return our status: at once, or if it is held once there is news or ``most_s`` seconds are over."""
        hold_s = int(min(most_s, self._hold_s))
        if hold_s >= 1 and self._tag is not None and self._seen is not None:
            return self._held(self._seen, self._tag, hold_s)
        headers = {} if self._tag is None else {"if-none-match": self._tag}
        answer = self._connection.request("GET", self._path, headers=headers, tries_again=tries_again)
        return self._as_seen(self._note(answer))

    def _as_seen(self, seen: Status) -> Look[Status]:
        can_hold = self._hold_s >= SHORTEST_HOLD_S and self._refusals < MOST_REFUSALS
        return Look(seen, will_hold=can_hold and self._tag is not None)

    def _held(self, seen: Status, tag: str, hold_s: int) -> Look[Status]:
        """Ask for news; return what was seen before if there is none, or if the line breaks or is taken."""
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
        except TooManyRequestsError as error:
            self._connection.wait_turn(error)
            return Look(seen, will_hold=False, held_s=self._clock() - began)
        if "preference-applied" not in answer.headers:  # it holds nothing now
            self._refusals += 1
            return Look(self._note(answer), will_hold=False)
        return Look(self._note(answer), will_hold=True, held_s=self._clock() - began)

    def _note(self, answer: Answer) -> Status:
        self._seen_at = self._clock()
        if answer.status != HTTPStatus.NOT_MODIFIED or self._seen is None:
            self._seen = status_in(json_object(answer))
            self._tag = version_of(answer.headers)
        return self._seen
