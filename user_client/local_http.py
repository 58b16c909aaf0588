"""Connections of what listens on this machine: a silent one is not waited for, and takes nobody's place.

Whoever may connect, with or without a token, could otherwise keep all others out by saying nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
"""How long a connection may take to say what it wants."""
BODY_S: Final = 60.0
"""How long the body of a request may take to arrive."""
MOST_SILENT: Final = 50
"""Of so many connections on which a request is awaited, the one that is awaited longest ends for another."""


class LocalProtocol(H11Protocol):
    """uvicorn's protocol on h11, which ends a connection whose request does not arrive in time.

    ::

        connected, or answered | HEAD_S for the next head
        head                   | BODY_S for the body, if there is one
        whole request          | no time: the answer may take as long as it needs
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application, self.app = self.app, self._answer
        self._at_work = 0
        self._timer: asyncio.TimerHandle | None = None
        self.awaited_since = 0.0
        """By the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait(HEAD_S)
        silent = [one for one in self.connections if isinstance(one, LocalProtocol) and one.is_awaited]
        if len(silent) > MOST_SILENT:
            min(silent, key=lambda one: one.awaited_since).hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._at_work and not self.cycle.more_body:  # also if nobody has read to the end of it
            self._stop()

    @property
    def is_awaited(self) -> bool:
        """Return whether a request, or the rest of one, has yet to come."""
        return self._timer is not None

    def hang_up(self) -> None:
        """End the connection at once; from here on nothing is awaited on it."""
        self._stop()
        self.transport.abort()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_in_time() -> Any:
            message = await receive()
            if not message.get("more_body", False):
                self._stop()
            return message

        self._stop()
        if self.cycle.more_body:
            self._wait(BODY_S)
        self._at_work += 1
        try:
            await self._application(scope, receive_in_time, send)
        finally:
            self._at_work -= 1
            if not self._at_work and not self.transport.is_closing():
                self._wait(HEAD_S)

    def _wait(self, seconds: float) -> None:
        self._stop()
        self.awaited_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.hang_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
