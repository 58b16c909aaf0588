"""What listens on an institution's machine answers, however many connections say nothing."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx
import pytest
import uvicorn

from user_client import local_http
from user_client.local_http import MOST_SILENT, LocalProtocol, keep_connection

HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
WHOLE = HALF_A_HEAD + b"Connection: close\r\n\r\n"
BEGUN = b"POST /known HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 10\r\n\r\n12345"
LARGE = 2**24
HEAD_WITHOUT_BODY = HALF_A_HEAD.replace(b"GET", b"POST") + b"Content-Length: 10\r\n\r\n12345"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Read all of a request, think for a while, answer."""
    if scope["path"] == "/known":
        keep_connection(scope)
    if scope["path"] in ("/large", "/refused"):  # without a look at the body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(LARGE if scope["path"] == "/large" else 1)})
        return
    while (await receive()).get("more_body", False):
        pass
    if scope["path"] == "/pieces":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(16):
            await send({"type": "http.response.body", "body": bytes(2**20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if scope["path"] == "/slow":
        time.sleep(0.3)  # longer than any request of these tests may take to come
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        http=LocalProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        limit_concurrency=2 * MOST_SILENT,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HEAD_WITHOUT_BODY], ids=["nothing", "head", "body"])
def test_any_number_of_silent_connections_shuts_nobody_out(address: tuple[str, int], sent: bytes) -> None:
    with ExitStack() as held:
        for _ in range(3 * MOST_SILENT):
            held.enter_context(socket.create_connection(address)).sendall(sent)
        assert httpx.get("http://{}:{}/".format(*address)).text == "ok"


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HEAD_WITHOUT_BODY], ids=["nothing", "head", "body"])
def test_a_silent_connection_ends(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HEAD_S", 0.2)
    monkeypatch.setattr(local_http, "BODY_S", 0.2)
    with socket.create_connection(address, timeout=30) as silent:
        silent.sendall(sent)
        with suppress(ConnectionResetError):
            assert silent.recv(1) == b""


def test_a_connection_that_takes_nothing_of_its_answer_ends(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "BODY_S", 0.2)
    ended = threading.Event()  # what the system has taken, it goes on sending: the caller sees no end
    lost = LocalProtocol.connection_lost

    def noted(self: LocalProtocol, error: Exception | None) -> None:
        lost(self, error)
        ended.set()

    monkeypatch.setattr(LocalProtocol, "connection_lost", noted)
    with socket.create_connection(address, timeout=30) as deaf:
        deaf.sendall(WHOLE.replace(b"/ ", b"/pieces "))
        assert ended.wait(30)


def test_an_answer_takes_as_long_as_it_needs(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HEAD_S", 0.2)
    monkeypatch.setattr(local_http, "BODY_S", 0.2)
    with httpx.Client(base_url="http://{}:{}".format(*address)) as client:
        for _ in range(2):
            assert client.get("/slow").text == "ok"
            assert client.post("/slow", content=b"x" * 100).text == "ok"


def all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(2**16), b""))


def test_of_many_at_once_nobody_is_cut_off(address: tuple[str, int]) -> None:
    with ExitStack() as held:
        callers = [
            held.enter_context(socket.create_connection(address, timeout=30)) for _ in range(2 * MOST_SILENT)
        ]
        for caller in callers:
            caller.sendall(WHOLE)
        answers = [all_of(caller) for caller in callers]
    assert [answer.partition(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * len(callers)


def test_silent_connections_end_and_a_known_caller_goes_on(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_http, "SILENT_S", 0.2)
    monkeypatch.setattr(LocalProtocol, "told_at", -math.inf)
    with ExitStack() as held:
        caller = held.enter_context(socket.create_connection(address, timeout=30))
        caller.sendall(BEGUN)
        silent = [
            held.enter_context(socket.create_connection(address, timeout=5)) for _ in range(MOST_SILENT + 5)
        ]
        for first in silent[:5]:  # long before HEAD_S
            with suppress(ConnectionResetError):
                assert first.recv(1) == b""
        caller.sendall(b"67890")
        assert all_of(caller).endswith(b"\r\n\r\nok")
    assert caplog.text.count("the longest silent end") == 1


def test_far_too_many_silent_connections_end_at_once(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "MOST_AWAITED", MOST_SILENT + 10)
    monkeypatch.setattr(local_http, "SILENT_S", 60.0)
    with ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(address, timeout=5)) for _ in range(MOST_SILENT + 11)
        ]
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


def test_an_answer_is_not_cut_off_when_its_connection_ends(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HEAD_S", 0.2)
    with (
        socket.create_connection(address, timeout=30) as reading,
        socket.create_connection(address, timeout=30) as silent,
    ):
        reading.sendall(WHOLE.replace(b"GET /", b"GET /large").replace(b"close", b"keep-alive"))
        head = reading.recv(100)
        with suppress(ConnectionResetError):  # and by then HEAD_S is over for the other one too
            assert silent.recv(1) == b""
        with socket.create_connection(address, timeout=30) as later, suppress(ConnectionResetError):
            assert later.recv(1) == b""
        assert len(head + all_of(reading)) > LARGE


def test_a_request_beyond_the_limit_is_answered_whatever_it_still_sends(
    address: tuple[str, int],
) -> None:
    with ExitStack() as held:
        callers = [
            held.enter_context(socket.create_connection(address, timeout=30)) for _ in range(2 * MOST_SILENT)
        ]
        for caller in callers:
            caller.sendall(BEGUN)
        with httpx.Client(base_url="http://{}:{}".format(*address)) as client:
            ends = time.monotonic() + 30
            while (found := client.post("/", content=b"x" * 2**20)).status_code != 503:
                assert time.monotonic() < ends
            assert found.headers["retry-after"] == "1"
            for caller in callers:
                caller.sendall(b"67890")
                assert all_of(caller).endswith(b"\r\n\r\nok")
            assert client.post("/", content=b"x").text == "ok"


@pytest.mark.parametrize("waits", [False, True], ids=["sends at once", "asks first"])
def test_an_answer_before_the_body_has_come_arrives(address: tuple[str, int], waits: bool) -> None:
    head = b"POST /refused HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: %d\r\n" % LARGE
    with socket.create_connection(address, timeout=30) as caller:
        if waits:
            caller.sendall(head + b"Expect: 100-continue\r\n\r\n")
        else:
            caller.sendall(head + b"\r\n" + bytes(LARGE))
        assert all_of(caller).startswith(b"HTTP/1.1 200 OK\r\n")
