"""Bounds on one connection: bytes of everything that is no body, requests ahead, and the time of each phase.

Strangers reach all of it before a certificate is asked for. The bodies of requests are bounded by whoever
reads them (`api.bodies`, `api.uploads`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from metering.private_parts import CutOffError, Scope, Watcher
from metering.server import Event
from protocol.limits import (
    MAX_FIELDS_OF_A_REQUEST,
    MAX_HEAD_BYTES,
    MAX_HEAD_S,
    MAX_IDLE_S,
    MAX_REQUESTS_AHEAD,
    MAX_REST_S,
)

_GRACE_S: Final = 5
"""The server closes an idle connection in order before it is cut off."""


class PhaseBound(Watcher):
    """Bounds what a peer may send beside bodies, and how long each phase of a connection may take.

    ::

        waiting for a head | the first in MAX_HEAD_S, later ones in MAX_IDLE_S
        head               | MAX_HEAD_S from its first byte
        body, answer       | no time here: whoever reads the body, or makes the answer, has a bound
        rest               | MAX_REST_S for what comes of a request after its answer

    Parameters
    ----------
    transport : Transport
        Aborted when a phase takes too long.
    longest_s : float
        Upper bound of all these times: the analyst's setting.
    note_phase : callable
        Told after each step whether a request is not answered yet, and whether one is still coming.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        longest_s: float,
        note_phase: Callable[[bool, bool], None] = lambda _answering, _coming: None,
    ) -> None:
        self._transport, self._longest_s, self._note_phase = transport, longest_s, note_phase
        self._bytes = self._fields = self._field_bytes = 0
        self._is_receiving = self._is_in_head = False
        self._unanswered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._start(MAX_HEAD_S)

    def received(self, plain_bytes: int) -> None:
        """Count bytes since the last piece of a body; refuse more once these were too many.

        httptools keeps a head, a trailer or the extension of a chunk of any size in memory. What comes now is
        not looked at yet: most of it may be a body, and after a pause it may be as much as TLS had kept.
        """
        if self._bytes > MAX_HEAD_BYTES:
            raise CutOffError
        self._bytes += plain_bytes

    def received_field(self, field_bytes: int) -> None:
        self._fields += 1
        self._field_bytes += field_bytes
        if self._fields > MAX_FIELDS_OF_A_REQUEST or self._field_bytes > MAX_HEAD_BYTES:
            raise CutOffError

    def received_body(self, body_bytes: int) -> None:  # noqa: ARG002  # of any size
        self._bytes = 0

    def happened(self, event: Event, request: Scope | None) -> None:  # noqa: ARG002  # whatever is asked
        match event:
            case Event.REQUEST_BEGINS:
                if self._unanswered >= MAX_REQUESTS_AHEAD:
                    raise CutOffError
                self._bytes = self._fields = self._field_bytes = 0
                self._is_receiving = self._is_in_head = True
            case Event.HEAD_COMPLETE:
                self._bytes, self._is_in_head = 0, False
                self._unanswered += 1
            case Event.REQUEST_COMPLETE:
                self._is_receiving = False
            case Event.ANSWER_COMPLETE | Event.ONE_ANSWER_COMPLETE:
                self._unanswered -= 1
            case Event.CONNECTION_LOST:
                self._stop()
                return
            case _:
                return
        self._note_phase(self._unanswered > 0, self._is_receiving)
        self._time_phase()

    def _time_phase(self) -> None:
        if self._is_in_head:
            self._start(MAX_HEAD_S)
        elif self._unanswered:
            self._stop()
        elif self._is_receiving:
            self._start(MAX_REST_S)
        else:
            self._start(MAX_IDLE_S, _GRACE_S)

    def _start(self, seconds: float, grace_s: float = 0) -> None:
        self._stop()
        in_time = min(seconds, self._longest_s) + grace_s
        self._timer = asyncio.get_running_loop().call_later(in_time, self._transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
