"""What listens on an institution's machine answers, however many connections say nothing."""

from __future__ import annotations

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
from user_client.local_http import MOST_SILENT, LocalProtocol

HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
HEAD_WITHOUT_BODY = HALF_A_HEAD.replace(b"GET", b"POST") + b"Content-Length: 10\r\n\r\n12345"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Read all of a request, think for a while, answer."""
    while (await receive()).get("more_body", False):
        pass
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


def test_an_answer_takes_as_long_as_it_needs(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "HEAD_S", 0.2)
    monkeypatch.setattr(local_http, "BODY_S", 0.2)
    with httpx.Client(base_url="http://{}:{}".format(*address)) as client:
        for _ in range(2):
            assert client.get("/slow").text == "ok"
            assert client.post("/slow", content=b"x" * 100).text == "ok"
