"""The client's certificate, handed from the TLS transport to the application.

uvicorn keeps it to itself, so this subclass of its protocol reads it once per connection and puts it
into every request's scope, under the names of the ASGI TLS extension. It also bounds what a peer can
send before its certificate is asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(MAX_HEAD_S, self._give_up)
        inner, extension = self.app, _tls_extension(transport)

        async def app_with_certificate(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})["tls"] = extension
            await inner(scope, receive, send)

        self.app = app_with_certificate

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES + READ_BYTES:  # a first piece of the body may come along
                self._give_up()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self.transport.abort()


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
