"""Connections of what listens on this machine: a silent one is not waited for, and takes nobody's place.

Whoever may connect, with or without a token, could otherwise keep all others out by saying nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
from contextlib import suppress
from typing import Any, ClassVar, Final, Self
from weakref import WeakValueDictionary

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

HEAD_S: Final = 10.0
"""How long a connection may take to say what it wants."""
BODY_S: Final = 60.0
"""How long the body of a request may take to arrive."""
SILENT_S: Final = 2.0
"""A connection may end for another after so long a silence: what was on its way has come by then."""
MOST_SILENT: Final = 50
"""Of so many connections on which a request is awaited, those that are silent the longest end for others."""
MOST_AWAITED: Final = 500
"""Of so many, the longest silent ends at once: the usual limit on open files is a thousand."""
HANDSHAKE_S: Final = 10.0
"""How long a TLS handshake may take."""
MOST_IN_HANDSHAKE: Final = 200
"""Of so many connections without TLS yet, any ends for the next one."""
MOST_UNREAD_BYTES: Final = 2**26
"""So much of a body that nobody reads is taken and dropped before its request is answered."""
_TOLD_EVERY_S: Final = 60.0
_KEEP: Final = "odc.keep"


def keep_connection(scope: Any) -> None:
    """Say that a request is from somebody who may ask: its connection then ends for no other."""
    keep = scope.get("extensions", {}).get(_KEEP)
    if keep is not None:
        keep()


class LocalSocket(socket.socket):
    """A listening socket that bounds the TLS handshakes of what connects to it; or one of these connections.

    asyncio accepts as many connections as come, and shows nobody one whose handshake is not over: the
    protocol says when it is (`let_in`).
    """

    _accepted: ClassVar[WeakValueDictionary[int, LocalSocket]] = WeakValueDictionary()
    """By descriptor: asyncio shows its protocols no more of a socket than that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_handshake: set[LocalSocket] = set()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def around(cls, other: socket.socket) -> Self:
        """Return a socket of this kind that takes the place of another."""
        return cls(other.family, other.type, other.proto, fileno=other.detach())

    @classmethod
    def let_in(cls, shown: socket.socket | None) -> None:
        """Note that a connection needs its handshake no more; others than ours are left alone.

        Parameters
        ----------
        shown : socket, optional
            ``transport.get_extra_info("socket")``.
        """
        accepted = cls._accepted.get(shown.fileno()) if shown is not None else None
        if accepted is not None:
            accepted.stop_waiting()

    def accept(self) -> tuple[socket.socket, Any]:
        connected, address = super().accept()
        accepted = type(self).around(connected)
        accepted.begin_handshake(self._in_handshake)
        return accepted, address

    def begin_handshake(self, others: set[LocalSocket]) -> None:
        """Wait for the handshake, but not for ever, nor beside more than `MOST_IN_HANDSHAKE` of them.

        Any other may end for it, not the oldest: whoever connects quickly would let no handshake end.
        """
        if len(others) >= MOST_IN_HANDSHAKE:
            secrets.choice(list(others)).end()
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.end)
        self._accepted[self.fileno()] = self
        self._in_handshake = others
        others.add(self)

    def stop_waiting(self) -> None:
        """Await no handshake any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._in_handshake.discard(self)

    def end(self) -> None:
        """Let whoever reads from this connection find its end."""
        self.stop_waiting()
        with suppress(OSError):  # it has ended already
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stop_waiting()
        super().close()


class LocalProtocol(H11Protocol):
    """uvicorn's protocol on h11, which ends a connection whose request does not arrive in time.

    ::

        connected, or answered | HEAD_S for the next head
        head                   | BODY_S for the body, if there is one
        whole request          | no time: the answer may take as long as it needs

    ``limit_concurrency`` counts the requests that are whole or of known callers (`keep_connection`), and not
    as in uvicorn all connections: those beyond are answered 503. An answer waits for the end of its request's
    body, unless the server ends.
    """

    told_at: ClassVar[float] = -math.inf
    """When the log was last told of connections that ended for others."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application, self.app = self.app, self._answer
        self._most_at_work, self.limit_concurrency = self.limit_concurrency, None
        self._at_work = 0
        self._is_known = False
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._last: asyncio.TimerHandle | None = None
        self.heard_at = 0.0
        """When something last came or was answered, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        LocalSocket.let_in(transport.get_extra_info("socket"))
        self._wait(HEAD_S)
        self._look = self.loop.call_later(0, self._make_room)  # timers come behind what has just arrived

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        for handle in (self._look, self._last):
            if handle is not None:
                handle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self.loop.time()
        super().data_received(data)
        if self._at_work and not self.cycle.more_body:  # also if nobody has read to the end of it
            self._stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(BODY_S)  # who takes nothing of an answer for so long has gone

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._at_work and not self.cycle.more_body:
            self._stop()

    @property
    def may_end(self) -> bool:
        """Return whether a request, or the rest of one, has yet to come from somebody unknown."""
        return self._timer is not None and not self._is_known

    @property
    def is_at_work(self) -> bool:
        """Return whether a request is worked on that is whole, or of a known caller."""
        return self._at_work > 0 and not self.may_end

    def hang_up(self) -> None:
        """End the connection; from here on nothing is awaited on it."""
        self._stop()
        if self.cycle is None or not self.cycle.response_complete:
            self.transport.abort()
            return
        self.transport.close()  # what was answered may be on its way yet
        self._last = self.loop.call_later(BODY_S, self.transport.abort)

    def _make_room(self) -> None:
        """End those that are silent the longest, if there are too many, now or as soon as they may end."""
        awaited = [one for one in self.connections if isinstance(one, LocalProtocol) and one.may_end]
        awaited.sort(key=lambda one: one.heard_at)
        too_many, far_too_many = len(awaited) - MOST_SILENT, len(awaited) - MOST_AWAITED
        if too_many <= 0:
            return
        silent_since = self.loop.time() - SILENT_S
        ended = [
            one
            for place, one in enumerate(awaited[:too_many])
            if place < far_too_many or one.heard_at <= silent_since
        ]
        for one in ended:
            one.hang_up()
        if ended:
            self._tell()
        if len(ended) < too_many and not self.transport.is_closing():
            self._look = self.loop.call_later(SILENT_S, self._make_room)

    def _tell(self) -> None:
        if (now := self.loop.time()) - LocalProtocol.told_at >= _TOLD_EVERY_S:
            LocalProtocol.told_at = now
            log.warning("more than %d connections sent no request: the longest silent end", MOST_SILENT)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_in_time() -> Any:
            message = await receive()
            if not message.get("more_body", False):
                self._stop()
            return message

        async def send_when_read(message: Any) -> None:
            if message["type"] == "http.response.start":
                await self._drop_the_rest(receive_in_time)
            await send(message)

        self._stop()
        if self.cycle.more_body:
            self._wait(BODY_S)
        application = _too_busy if self._are_too_many() else self._application
        scope.setdefault("extensions", {})[_KEEP] = self._keep
        self._at_work += 1
        try:
            await application(scope, receive_in_time, send_when_read)
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._is_known = False
                if not self.transport.is_closing():  # a body may still come that nobody has waited for
                    self._wait(BODY_S if self.cycle.more_body else HEAD_S)

    async def _drop_the_rest(self, receive: Any) -> None:
        """Take what is left of a body: who is still sending loses an answer behind which we hang up."""
        cycle, taken = self.cycle, 0
        while cycle.more_body and cycle.keep_alive and not cycle.waiting_for_100_continue:
            message = await receive()
            taken += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or taken > MOST_UNREAD_BYTES:
                return

    def _are_too_many(self) -> bool:
        if self._most_at_work is None:
            return False
        working = sum(isinstance(one, LocalProtocol) and one.is_at_work for one in self.connections)
        return working >= self._most_at_work

    def _keep(self) -> None:
        self._is_known = True

    def _wait(self, seconds: float) -> None:
        self._stop()
        self.heard_at = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.hang_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _too_busy(_scope: Any, _receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"4"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"busy"})
