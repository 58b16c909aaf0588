"""The client's certificate, handed from the TLS transport to the application.

uvicorn keeps it to itself, so this subclass of its protocol reads it once per connection and puts it
into every request's scope, under the names of the ASGI TLS extension. It also bounds what a peer can
send before its certificate is asked for, and tells the meter what its connection carries.
"""

from __future__ import annotations

import asyncio
import ssl
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        meter: Meter = self.app_state["meter"]
        line = self._line = MeteredLine(transport, meter)
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
        self._line.settle_answer()
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()
        self._line.begin(self._purpose())

    def on_body(self, body: bytes) -> None:
        self._line.received_body(len(body))
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._line.finish(self._purpose())
        super().on_response_complete()

    def eof_received(self) -> None:
        self._line.settle_answer()
        super().eof_received()

    def timeout_keep_alive_handler(self) -> None:
        self._line.settle_answer()
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        self._line.settle_answer()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._line.close()

    def _purpose(self) -> Purpose:
        """What the request at hand is for; whose it is once the application has looked at it."""
        scope: Any = self.cycle.scope
        identity, invitation_id = scope["state"].get("identity"), scope["state"].get("invitation_id")
        purpose = purpose_of(scope["method"], scope["path"])
        if identity is not None:
            return replace(purpose, party=identity.name)
        return replace(purpose, invitation_id=invitation_id or purpose.invitation_id)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self.transport.abort()


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
