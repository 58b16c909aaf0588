"""The client's certificate, handed from the TLS transport to the application.

uvicorn keeps it to itself, so this subclass of its protocol reads it once per connection and puts it
into every request's scope, under the names of the ASGI TLS extension. It also bounds what a peer can
send before its certificate is asked for, and tells the meter what its connection carries.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import replace
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from analyst_server.api.line import MeteredLine, purpose_of
from analyst_server.services.meter import Meter, Purpose
from protocol.limits import MAX_HEAD_BYTES, MAX_HEAD_S

READ_BYTES: Final = 256 * 2**10
"""The most that asyncio's TLS transport hands over at once."""


class TlsAwareProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with ``scope["extensions"]["tls"]`` and a bound on the head of a request.

    httptools keeps a head of any size in memory, and anybody may send one before a certificate is asked
    for.
    """

    _head_bytes = 0
    _in_head = True
    _head_timer: asyncio.TimerHandle | None = None
    _line: MeteredLine
    _under_way: deque[Any]
    """Scopes of the requests whose answers are not complete, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        meter: Meter = self.app_state["meter"]
        line, self._under_way = MeteredLine(transport, meter), deque()
        self._line = line
        super().connection_made(_CountedWrites(transport, line))  # type: ignore[arg-type]  # quacks like one
        self._head_timer = self.loop.call_later(MAX_HEAD_S, self._give_up)
        inner, extension = self.app, _tls_extension(transport)

        async def app_with_certificate(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["tls"] = extension

            async def counted_send(message: Any) -> None:
                if message["type"] == "http.response.body" and scope["method"] != "HEAD":
                    line.sent_body(len(message.get("body", b"")))
                await send(message)

            await inner(scope, receive, counted_send)

        self.app = app_with_certificate

    def data_received(self, data: bytes) -> None:
        self._line.received(len(data))
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES + READ_BYTES:  # a first piece of the body may come along
                self._give_up()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._line.answer_is_read(self._purpose_under_way())
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()
        self._under_way.append(self.cycle.scope)

    def on_body(self, body: bytes) -> None:
        self._line.received_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._line.request_is_whole()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._line.finish(_purpose(self._under_way.popleft()))
        super().on_response_complete()

    def eof_received(self) -> None:
        self._line.end(self._purpose_under_way())
        super().eof_received()

    def timeout_keep_alive_handler(self) -> None:
        self._line.answer_is_read(None)
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        if not self._under_way:
            self._line.answer_is_read(None)
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._line.close(self._purpose_under_way())

    def _purpose_under_way(self) -> Purpose | None:
        return _purpose(self._under_way[0]) if self._under_way else None

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self.transport.abort()


def _purpose(scope: Any) -> Purpose:
    """What a request is for; and whose it is, once the application has looked at it."""
    identity, invitation_id = scope["state"].get("identity"), scope["state"].get("invitation_id")
    purpose = purpose_of(scope["method"], scope["path"])
    if identity is not None:
        return replace(purpose, party=identity.name)
    return replace(purpose, invitation_id=invitation_id or purpose.invitation_id)


class _CountedWrites:
    """A transport that notes what is written to it."""

    def __init__(self, transport: asyncio.Transport, line: MeteredLine) -> None:
        self._transport, self._line = transport, line

    def write(self, data: bytes) -> None:
        self._line.sent(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _tls_extension(transport: asyncio.Transport) -> dict[str, Any]:
    ssl_object: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if ssl_object is None:
        return {"client_cert_chain": (), "tls_version": None, "cipher_suite": None}
    der = ssl_object.getpeercert(binary_form=True)
    cipher = ssl_object.cipher()
    return {
        "client_cert_chain": (ssl.DER_cert_to_PEM_cert(der),) if der else (),
        "tls_version": ssl_object.version(),
        "cipher_suite": cipher[0] if cipher else None,
    }
