"""The only module that uses parts of libraries that those libraries do not promise to keep.

Everything else in the project uses documented interfaces. For what follows there is none:

`asyncio`, ``transport._ssl_protocol._incoming.pending``
    Bytes that have come and that TLS has not decrypted yet, when a connection is handed to its protocol. A
    client sends its first request close behind the handshake; without this number that request would be
    counted as part of the handshake. asyncio shows the SSL object and the socket, and nothing in between.

`asyncio`, ``SSLProtocol.max_size``; of ``transport._ssl_protocol``, ``_ssl_buffer`` and ``_ssl_buffer_view``
    asyncio keeps a buffer of 256 KiB for each TLS connection, for as long as it is open: most of what an idle
    one costs. It is used only between two callbacks of one turn of the loop, so that all connections of a
    loop can have the same one, and a larger one; and a handshake does without such a large one. asyncio has
    no option for either.

`http.client`, ``HTTPConnection._create_connection``
    What opens the socket of a request. It is needed before TLS or a tunnel begins in it, so that an attempt
    can be cut off from another thread at any time; nobody is given the socket before that.

`uvicorn`, the methods and attributes of ``HttpToolsProtocol`` used by `WatchedProtocol`
    uvicorn takes a protocol class (``Config(http=...)``), but documents none of its methods, and an ASGI
    application is not told of connections, of bytes, or of the certificate of its peer. The class is an
    `asyncio.Protocol`, for which asyncio makes an object of each TLS record and joins them; into the buffer
    of an `asyncio.BufferedProtocol` it decrypts without either. Overridden are
    asyncio's callbacks (``connection_made``, ``data_received``, ``eof_received``, ``connection_lost``), those
    of the parser (``on_message_begin``, ``on_header``, ``on_headers_complete``, ``on_body``,
    ``on_message_complete``), and those of the answer (``on_response_complete``,
    ``timeout_keep_alive_handler``, ``shutdown``); used are ``app``, ``app_state``, ``scope``, ``transport``
    and ``cycle`` with its ``body`` and ``response_complete``: large bodies would be copied twice.

tests/integration/metering/test_private_parts.py runs all of it on a real TLS connection and fails when a new
version of a library has moved something.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from metering.server import Event

Scope = MutableMapping[str, Any]
"""An ASGI scope: one request."""


def undecrypted_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes wait in asyncio's buffer below TLS; 0 without TLS.

    uvloop has no such buffer to look into, and there the first request counts as handshake.
    """
    tls: Any = getattr(transport, "_ssl_protocol", None)
    return int(tls._incoming.pending) if tls is not None else 0


READ_BYTES: Final = 512 * 2**10
"""The most that is taken from a socket, or decrypted, at once."""
RECORD_BYTES: Final = 16 * 2**10
"""The most that a TLS record holds (RFC 8446, 5.1), and enough to read handshakes into."""
_GOODBYE_S: Final = 0.5
"""How long a peer may take to close its side when the server stops."""


class _Buffers(threading.local):
    """What the loop of each thread reads into, and what TLS decrypts into."""

    def __init__(self) -> None:
        self.read = memoryview(bytearray(READ_BYTES))
        self.decrypted = memoryview(bytearray(READ_BYTES))


_buffers = _Buffers()


def keep_handshakes_small() -> None:
    """Let TLS connections of this process that begin from now on read handshakes into 16 KiB, not 256."""
    SSLProtocol.max_size = RECORD_BYTES


def share_read_buffer(transport: asyncio.BaseTransport) -> None:
    """Let a TLS connection read into the one buffer of its loop, instead of one of its own.

    What is read is decrypted before the loop does anything else. Nothing changes where TLS is not asyncio's.
    """
    tls: Any = getattr(transport, "_ssl_protocol", None)
    if tls is not None:
        tls._ssl_buffer = _buffers.read.obj
        tls._ssl_buffer_view = _buffers.read


def open_by(connection: HTTPConnection, connect: Callable[..., socket.socket]) -> None:
    """Let a connection be opened, once it is, by what takes the place of `socket.create_connection`."""
    connection._create_connection = connect  # type: ignore[attr-defined]  # not in typeshed


class CutOffError(Exception):
    """Raised by a watcher of a connection that must not go on."""


class Watcher:
    """Told what happens on one connection. Each method does nothing unless overridden."""

    def received(self, plain_bytes: int) -> None:
        """Take note of bytes that came, before they are parsed; raise `CutOffError` to refuse them."""

    def received_field(self, field_bytes: int) -> None:
        """Take note of a line of a head, or of a trailer after a body; raise `CutOffError` to refuse it."""

    def received_body(self, body_bytes: int) -> None:
        """Take note of a piece of a request's body."""

    def sent(self, plain_bytes: int) -> None:
        """Take note of bytes that are about to be sent."""

    def sent_body(self, body_bytes: int) -> None:
        """Take note of a piece of an answer's body."""

    def happened(self, event: Event, request: Scope | None) -> None:
        """Take note of an event; raise `CutOffError` where a request begins to refuse it.

        ``request`` is the oldest whose head has come and whose answer was not complete before the event.
        """


class WatchedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """One connection of uvicorn, with watchers. A subclass says who watches it, and what requests carry."""

    _watchers: Sequence[Watcher] = ()
    _under_way: deque[Scope]
    """The requests whose answers are not complete, the oldest first."""
    _is_in_head = False

    def watch(self, transport: asyncio.Transport, lifespan_state: Mapping[str, Any]) -> Sequence[Watcher]:
        """Return who watches a new connection; called once, when TLS is established."""
        raise NotImplementedError

    def extensions(self, transport: asyncio.Transport) -> dict[str, Any]:
        """Return what every request of a connection carries in its scope, under ``extensions``."""
        raise NotImplementedError

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        self._under_way = deque()
        share_read_buffer(transport)
        self._watchers = self.watch(transport, self.app_state)
        super().connection_made(_WatchedWrites(transport, self._sent))  # type: ignore[arg-type]  # quacks like one
        self.app = self._watched(self.app, self.extensions(transport))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio says -1
        return _buffers.decrypted

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(_buffers.decrypted[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        try:
            for watcher in self._watchers:
                watcher.received(len(data))
        except CutOffError:
            self.transport.abort()
            return
        super().data_received(data)  # type: ignore[arg-type]  # its parser takes any buffer, and copies

    def eof_received(self) -> None:
        self._tell(Event.PEER_CLOSES)
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._tell(Event.CONNECTION_LOST)

    # the parser's callbacks

    def on_message_begin(self) -> None:
        self._is_in_head = True
        with self._cutting_off():
            self._tell(Event.REQUEST_BEGINS)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        with self._cutting_off():
            for watcher in self._watchers:
                watcher.received_field(len(name) + len(value))
        if self._is_in_head:  # uvicorn would add a trailer to the headers, whose reader is at work already
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()
        self._under_way.append(self.scope)  # type: ignore[arg-type]  # a TypedDict is a mapping to us
        self._tell(Event.HEAD_COMPLETE)

    def on_body(self, body: bytes) -> None:
        for watcher in self._watchers:
            watcher.received_body(len(body))
        super().on_body(self._handed_on_as_it_came(body))

    def on_message_complete(self) -> None:
        self._tell(Event.REQUEST_COMPLETE)
        super().on_message_complete()

    # the answer's callbacks

    def on_response_complete(self) -> None:
        is_one_of_several = len(self._under_way) > 1
        self._tell(Event.ONE_ANSWER_COMPLETE if is_one_of_several else Event.ANSWER_COMPLETE)
        self._under_way.popleft()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        self._tell(Event.WE_CLOSE)
        super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        self._tell(Event.WE_CLOSE)
        super().shutdown()
        if not self._under_way:  # an idle peer does not read, and so does not close its side of TLS
            asyncio.get_running_loop().call_later(_GOODBYE_S, self.transport.abort)

    def _handed_on_as_it_came(self, body: bytes) -> bytes:
        """Return what uvicorn still has to append: nothing, if it holds nothing yet.

        uvicorn copies each piece to the end of a bytearray, and that into bytes for the application. What is
        bytes already is handed on as it is.
        """
        cycle: Any = self.cycle
        if not cycle.body and not cycle.response_complete:
            cycle.body = body
            return b""
        if isinstance(cycle.body, bytes):
            cycle.body = bytearray(cycle.body)
        return body

    @contextmanager
    def _cutting_off(self) -> Iterator[None]:
        """Abort the connection that a watcher refuses; the error stops the parser."""
        try:
            yield
        except CutOffError:
            self.transport.abort()
            raise

    def _tell(self, event: Event) -> None:
        request = self._under_way[0] if self._under_way else None
        for watcher in self._watchers:
            watcher.happened(event, request)

    def _sent(self, plain_bytes: int) -> None:
        for watcher in self._watchers:
            watcher.sent(plain_bytes)

    def _watched(self, app: Any, extensions: dict[str, Any]) -> Any:
        """Return an ASGI application that gets ``extensions`` and whose answers are watched."""

        async def watched_app(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {}).update(extensions)

            async def watched_send(message: Any) -> None:
                if message["type"] == "http.response.body" and scope["method"] != "HEAD":
                    for watcher in self._watchers:
                        watcher.sent_body(len(message.get("body", b"")))
                await send(message)

            await app(scope, receive, watched_send)

        return watched_app


class _WatchedWrites:
    """A transport that tells how much is written to it."""

    def __init__(self, transport: asyncio.Transport, tell: Callable[[int], None]) -> None:
        self._transport, self._tell = transport, tell

    def write(self, data: bytes) -> None:
        self._tell(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
