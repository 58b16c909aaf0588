"""The connection to the analyst on a real socket."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from tests.harness.certificates import shared_root
from tests.harness.scripted_server import Pauses
from user_client.transport import AnalystConnection, Traffic


class OneAnswer:
    """A server that gives every caller the same bytes and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
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
                peer.recv(65536)
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
