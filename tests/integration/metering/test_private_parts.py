"""The private parts of libraries that the meter uses are where it looks for them: tried on real connections.

A failure here means that an installed version of a library has moved something: read the docstring of
metering/private_parts.py, mend that module, and no other.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import platform
import random
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from metering import private_parts
from metering.counts import KernelCount, kernel_counts
from metering.private_parts import (
    READ_BYTES,
    CutOffError,
    Scope,
    WatchedProtocol,
    Watcher,
    open_by,
    undecrypted_bytes,
)
from metering.server import Event
from tests.harness.certificates import shared_member
from user_client.custody.home import key_pem

ASKED = b"POST /x HTTP/1.1\r\nhost: analyst\r\ncontent-length: 10\r\n\r\n0123456789"
ANSWER = b"an answer of 22 bytes."


def moved(part: str) -> str:
    """Return what to do about a part that is not where it was."""
    libraries = f"Python {platform.python_version()}, uvicorn {version('uvicorn')}"
    return f"{part} is not what metering/private_parts.py takes it for, with {libraries}: mend that module"


class Notes(Watcher):
    """Writes down what a watcher is told."""

    def __init__(self, transport: asyncio.Transport) -> None:
        connected: Any = transport.get_extra_info("socket")
        count = KernelCount(connected)
        self.early_bytes = undecrypted_bytes(transport) + count.unread_bytes()
        count.release()
        self.events: list[tuple[Event, str | None]] = []
        self.up = self.up_body = self.down = self.down_body = 0
        self.fields: list[int] = []
        self.refuses = self.refuses_requests = self.refuses_fields = False
        self.is_lost = threading.Event()

    def received(self, plain_bytes: int) -> None:
        self.up += plain_bytes
        if self.refuses:
            raise CutOffError

    def received_field(self, field_bytes: int) -> None:
        self.fields.append(field_bytes)
        if self.refuses_fields:
            raise CutOffError

    def received_body(self, body_bytes: int) -> None:
        self.up_body += body_bytes

    def sent(self, plain_bytes: int) -> None:
        self.down += plain_bytes

    def sent_body(self, body_bytes: int) -> None:
        self.down_body += body_bytes

    def happened(self, event: Event, request: Scope | None) -> None:
        self.events.append((event, request["path"] if request is not None else None))
        if event is Event.REQUEST_BEGINS and self.refuses_requests:
            raise CutOffError
        if event is Event.CONNECTION_LOST:
            self.is_lost.set()


class Noted(WatchedProtocol):
    """Keeps the notes of every connection."""

    made: ClassVar[list[Notes]] = []
    came: ClassVar[list[bytes]] = []
    """The pieces of bodies, as the application is handed them."""
    pause_s: ClassVar[float] = 0
    """How long the application does something else after each piece."""

    def watch(self, transport: asyncio.Transport, lifespan_state: Mapping[str, Any]) -> Sequence[Watcher]:
        assert isinstance(lifespan_state, Mapping), moved("HttpToolsProtocol.app_state")
        self.made.append(Notes(transport))
        return self.made[-1:]

    def extensions(self, transport: asyncio.Transport) -> dict[str, Any]:
        return {"test": transport.get_extra_info("ssl_object").version()}


async def answering(scope: Any, receive: Any, send: Any) -> None:
    assert scope["extensions"]["test"] == "TLSv1.3", moved("HttpToolsProtocol.app")
    is_more = True
    while is_more:
        message = await receive()
        is_more = message.get("more_body", False)
        Noted.came.append(message.get("body", b""))
        await asyncio.sleep(Noted.pause_s)
    assert b"x-trailer" not in dict(scope["headers"]), moved("HttpToolsProtocol.on_header")
    headers = [(b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


class Served:
    """uvicorn with `Noted`, behind TLS."""

    def __init__(self, directory: Path) -> None:
        member = shared_member("analyst", "analyst")
        (directory / "certificate.pem").write_bytes(member.pem)
        (directory / "key.pem").write_bytes(key_pem(member.key, None))
        self.trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.trust.check_hostname = False  # whom to believe is not what is tested here
        self.trust.verify_mode = ssl.CERT_NONE
        config = uvicorn.Config(
            answering,
            http=Noted,
            lifespan="off",
            log_config=None,
            ssl_certfile=directory / "certificate.pem",
            ssl_keyfile=str(directory / "key.pem"),
        )
        config.load()
        assert config.ssl is not None
        config.ssl.num_tickets = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.web = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.web.run, args=([self._socket],))
        self._thread.start()

    def stop(self) -> None:
        self.web.should_exit = True
        self._thread.join()
        self._socket.close()

    def plainly(self) -> socket.socket:
        return socket.create_connection(self._socket.getsockname(), timeout=10)

    @contextmanager
    def connected(self) -> Iterator[tuple[ssl.SSLSocket, Notes]]:
        """Yield a client's end of a connection, and the notes of the server's end."""
        Noted.made.clear()
        with self.plainly() as plain, self.trust.wrap_socket(plain) as line:
            line.sendall(ASKED)
            assert line.recv(1) == b"H"
            (notes,) = Noted.made
            yield line, notes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("served"))
    yield server
    server.stop()


def rest_of_answers(line: ssl.SSLSocket, count: int) -> int:
    """Read until so many answers are complete; return the bytes of all, the first byte included."""
    data = b"H"
    while data.count(ANSWER) < count:
        piece = line.recv(4096)
        assert piece, "the server hung up"
        data += piece
    return len(data)


def test_everything_used_of_uvicorns_protocol_exists() -> None:
    (watched,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(private_parts)))
        if isinstance(node, ast.ClassDef) and node.name == "WatchedProtocol"
    )
    own = {node.name for node in watched.body if isinstance(node, ast.FunctionDef)}
    used = {
        node.attr
        for node in ast.walk(watched)
        if isinstance(node, ast.Attribute)
        and not node.attr.startswith("_")
        and ast.unparse(node.value) in ("self", "super()")
        and not (ast.unparse(node.value) == "self" and node.attr in own)
    }
    config = uvicorn.Config(answering, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    config.load()

    async def make() -> HttpToolsProtocol:
        return HttpToolsProtocol(config, server.server_state, {})

    protocol = asyncio.run(make())
    assert {"app", "app_state", "scope", "transport", "on_response_complete"} <= used
    for name in sorted(used):
        assert hasattr(protocol, name), moved(f"HttpToolsProtocol.{name}")
        assert f"``{name}``" in (private_parts.__doc__ or ""), f"{name} is not listed in the docstring"


def test_a_request_is_told_step_by_step_and_byte_by_byte(served: Served) -> None:
    with served.connected() as (line, notes):
        sent_bytes = rest_of_answers(line, 1)
        line.unwrap()
    assert notes.is_lost.wait(10)
    assert notes.events == [
        (Event.REQUEST_BEGINS, None),
        (Event.HEAD_COMPLETE, "/x"),
        (Event.REQUEST_COMPLETE, "/x"),
        (Event.ANSWER_COMPLETE, "/x"),
        (Event.PEER_CLOSES, None),
        (Event.CONNECTION_LOST, None),
    ], moved("a callback of HttpToolsProtocol")
    assert (notes.up, notes.up_body) == (len(ASKED), 10), moved("HttpToolsProtocol.data_received or on_body")
    assert (notes.down, notes.down_body) == (sent_bytes, len(ANSWER)), moved(
        "HttpToolsProtocol.transport.write"
    )


@pytest.mark.parametrize("pause_s", [0, 0.02])
def test_a_large_body_arrives_as_it_was_sent(
    served: Served, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    """Also to an application that is slower than the line, for which pieces are held and joined."""
    body = random.Random(3).randbytes(1_500_000)
    with served.connected() as (line, notes):
        rest_of_answers(line, 1)
        Noted.came.clear()
        monkeypatch.setattr(Noted, "pause_s", pause_s)
        line.sendall(b"POST /large HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 50_000):
            line.sendall(body[start : start + 50_000])
        assert line.recv(1) == b"H"
        rest_of_answers(line, 1)
    assert b"".join(Noted.came) == body, moved("HttpToolsProtocol.on_body or RequestResponseCycle.body")
    assert {type(piece) for piece in Noted.came} == {bytes}
    assert notes.up_body == 10 + len(body)


def test_a_request_before_the_last_was_answered_is_told_as_one_of_several(served: Served) -> None:
    with served.connected() as (line, notes):
        rest_of_answers(line, 1)
        notes.events.clear()
        line.sendall(ASKED + ASKED)
        rest_of_answers(line, 2)
        line.unwrap()
    assert notes.is_lost.wait(10)
    answered = [event for event, path in notes.events if path == "/x" and "answer" in event.value]
    assert answered == [Event.ONE_ANSWER_COMPLETE, Event.ANSWER_COMPLETE], moved("HttpToolsProtocol.pipeline")


def test_a_refused_connection_is_aborted_before_its_bytes_are_parsed(served: Served) -> None:
    with served.connected() as (line, notes):
        rest_of_answers(line, 1)
        notes.events.clear()
        notes.refuses = True
        line.sendall(ASKED)
        with suppress(ConnectionError):
            assert line.recv(1) == b""
    assert notes.is_lost.wait(10)
    assert notes.events == [(Event.CONNECTION_LOST, None)], moved("HttpToolsProtocol.transport.abort")


@pytest.mark.parametrize("what", ["refuses_requests", "refuses_fields"])
def test_a_request_that_is_refused_while_it_is_parsed_gets_no_answer(served: Served, what: str) -> None:
    with served.connected() as (line, notes):
        rest_of_answers(line, 1)
        setattr(notes, what, True)
        line.sendall(ASKED)
        with suppress(ConnectionError):
            assert line.recv(1) == b""
    assert notes.is_lost.wait(10)
    assert notes.events[4:] == [(Event.REQUEST_BEGINS, None), (Event.CONNECTION_LOST, None)], moved(
        "HttpToolsProtocol.on_message_begin or on_header"
    )


def test_trailers_are_told_and_not_handed_on(served: Served) -> None:
    chunks = b"1\r\nx\r\n0\r\nx-trailer: 12345\r\n\r\n"
    with served.connected() as (line, notes):
        rest_of_answers(line, 1)
        notes.fields.clear()
        line.sendall(b"POST /trailers HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)
        rest_of_answers(line, 1)  # `answering` has looked at the headers
        line.unwrap()
    assert notes.fields == [len("transfer-encodingchunked"), len("x-trailer12345")], moved(
        "HttpToolsProtocol.on_header"
    )


def test_connections_of_a_loop_share_the_buffer_that_they_read_into(served: Served) -> None:
    """asyncio's own, one for each, would have 256 KiB."""

    def connect(opened: ExitStack) -> None:
        plain = opened.enter_context(served.plainly())
        line = opened.enter_context(served.trust.wrap_socket(plain))
        line.sendall(ASKED)
        assert line.recv(1) == b"H"

    with ExitStack() as opened:
        connect(opened)  # whatever is made once
        tracemalloc.start()
        try:
            for _ in range(20):
                connect(opened)
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept_bytes / 20 < READ_BYTES / 2, moved("asyncio's transport._ssl_protocol._ssl_buffer")


def test_tls_decrypts_into_the_buffer_of_its_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one asyncio makes room for 256 KiB for each record, and gives the most of it back."""
    rooms: list[int] = []
    read = ssl.SSLObject.read

    def noted(tls: ssl.SSLObject, size: int = 1024, buffer: Any = None) -> Any:
        rooms.append(id(buffer.obj) if buffer is not None else 0)
        return read(tls, size, buffer)

    monkeypatch.setattr(ssl.SSLObject, "read", noted)
    with served.connected() as (line, _):
        rest_of_answers(line, 1)
    assert len(set(rooms)) == 1, moved("asyncio's way to read into an asyncio.BufferedProtocol")
    assert 0 not in rooms, moved("asyncio's way to read into an asyncio.BufferedProtocol")


@pytest.mark.parametrize("way", ["keep-alive ends", "the server stops"])
def test_that_we_close_is_told_before_it_is_done(tmp_path: Path, way: str) -> None:
    server = Served(tmp_path)
    try:
        if way == "keep-alive ends":
            server.web.config.timeout_keep_alive = 0
        with server.connected() as (line, notes):
            rest_of_answers(line, 1)
            if way == "the server stops":
                server.web.should_exit = True
            assert line.recv(1) == b""
    finally:
        server.stop()
    assert notes.is_lost.wait(10)
    expected = [(Event.WE_CLOSE, None), (Event.CONNECTION_LOST, None)]
    events = [each for each in notes.events if each[0] is not Event.PEER_CLOSES]
    assert events[-2:] == expected, moved("HttpToolsProtocol.shutdown or timeout_keep_alive_handler")


@pytest.mark.skipif(not kernel_counts(), reason="this kernel does not tell what is unread")
def test_a_request_close_behind_the_handshake_waits_below_tls(served: Served) -> None:
    """The client's Finished and its first request in one segment: asyncio reads them together."""
    Noted.made.clear()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = served.trust.wrap_bio(incoming, outgoing)
    with served.plainly() as plain:
        while True:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
            else:
                break
        finished = outgoing.read()
        client.write(ASKED)
        request = outgoing.read()
        plain.sendall(finished + request)
        assert plain.recv(1)
    (notes,) = Noted.made
    assert notes.early_bytes == len(request), moved("asyncio's transport._ssl_protocol._incoming.pending")
    assert notes.is_lost.wait(10)


def test_without_tls_nothing_waits_below_it() -> None:
    async def count() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server:
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, *server.getsockname()
            )
            transport.close()
            return undecrypted_bytes(transport)

    assert asyncio.run(count()) == 0


@pytest.mark.parametrize("kind", [HTTPConnection, HTTPSConnection])
def test_a_connection_of_http_client_is_opened_by_what_it_is_given(kind: type[HTTPConnection]) -> None:
    asked: list[object] = []

    def refuse(address: object, *_: object) -> socket.socket:
        asked.append(address)
        raise ConnectionRefusedError

    connection = kind("nobody.invalid", 1)
    open_by(connection, refuse)
    with pytest.raises(ConnectionRefusedError):
        connection.request("GET", "/")
    assert asked == [("nobody.invalid", 1)], moved("http.client's HTTPConnection._create_connection")
