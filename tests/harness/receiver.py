"""A receiver of webhooks: a real HTTP server in a thread, which does with a request what it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""That of the specification's own example."""
LIMIT_S: Final = 60.0


@dataclass
class Receiver:
    """What came, and what is answered.

    Attributes
    ----------
    statuses : list of int
        Of the next answers; 204 once they are used up.
    is_silent : bool
        Whether it takes requests and answers none.
    drips : bool
        Whether it answers a byte now and then, without end.
    """

    statuses: list[int] = field(default_factory=list)
    is_silent: bool = False
    drips: bool = False
    port: int = 0
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?for=odc"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.came]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.came]

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while len(self.came) < count:
            assert time.monotonic() < deadline, f"{len(self.came)} events came, not {count}"
            time.sleep(0.02)

    def wait_for_a(self, collaboration_id: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while all(event["data"].get("collaboration_id") != collaboration_id for event in self.events):
            assert time.monotonic() < deadline, "no event came of the collaboration"
            time.sleep(0.02)

    @contextmanager
    def listening(self) -> Iterator[Receiver]:
        """Listen at the port of before, or at a free one."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.came.append(({name.lower(): value for name, value in self.headers.items()}, body))
                receiver.answer(self)

            def do_GET(self) -> None:
                receiver.came.append(({"webhook-id": "followed a redirect"}, b"{}"))
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.over.clear()
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.is_silent:
            self.over.wait(LIMIT_S)
            request.close_connection = True
            return
        while self.drips and not self.over.wait(0.05):
            try:
                request.wfile.write(b"H")
            except OSError:
                return
        status = self.statuses.pop(0) if self.statuses else 204
        request.send_response(status)
        request.send_header("Location", self.url)
        request.send_header("Content-Length", "0" if status == 204 else "3")
        request.end_headers()
        if status != 204:
            request.wfile.write(b"no\n")
