"""The connection to the analyst on a real socket."""

from __future__ import annotations

import logging
import re
import socket
import threading
from pathlib import Path

import pytest

from tests.harness.certificates import shared_root
from tests.harness.scripted_server import Pauses
from user_client.transport import AnalystConnection, Traffic


class OneAnswer:
    """A server that gives every caller the same bytes and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer:
                self.asked.append(peer.recv(65536))
                peer.sendall(self._answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def test_an_answer_that_closes_the_line_is_taken(tmp_path: Path) -> None:
    server = OneAnswer(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
    traffic = Traffic(tmp_path / "traffic.jsonl")
    try:
        with AnalystConnection(server.url, shared_root().pem.decode(), None, traffic, Pauses()) as line:
            assert line.request("GET", "/x").json() == {}
    finally:
        server.close()


@pytest.mark.parametrize(("level", "headers"), [(logging.WARNING, 0), (logging.INFO, 1)])
def test_a_request_names_its_trace_when_our_log_has_it_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int, headers: int
) -> None:
    """It is 70 bytes in each request, of the bytes that an institution sends for control."""
    server = OneAnswer(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
    traffic = Traffic(tmp_path / "traffic.jsonl")
    caplog.set_level(level, "user_client.transport.connection")
    try:
        with AnalystConnection(server.url, shared_root().pem.decode(), None, traffic, Pauses()) as line:
            line.request("GET", "/x")
    finally:
        server.close()
    sent = re.findall(rb"traceparent: 00-([0-9a-f]{32})-[0-9a-f]{16}-00\r\n", server.asked[0])
    assert len(sent) == headers
    for trace in sent:
        assert f"GET /x: 200, trace {trace.decode()}" in caplog.text
