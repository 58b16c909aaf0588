"""Asks a server for its health by the clock, and reads the peak of its memory from the kernel.

A question is due every tenth of a second, whether the one before has its answer or not, and its wait begins
when it is due. Whoever asks only after the last answer asks once while a server stalls, and finds it quick.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.memory import peak_mb

POLL_S: Final = 0.1
PATIENCE_S: Final = 10.0
"""A question that has no answer by then counts as one of so many seconds."""
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nhost: analyst\r\nconnection: close\r\n\r\n"
_AGAIN_S: Final = 0.01

Ask = Callable[[float], bool]
"""Asks once, for at most so many seconds, and returns whether the answer was good."""


def health_of(port: int, root: Path) -> Ask:
    """Return how to ask a server of this machine for its health, each time on a new connection with TLS."""
    trust = ssl.create_default_context(cafile=root)

    def ask(patience_s: float) -> bool:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), patience_s) as plain,
                trust.wrap_socket(plain, server_hostname="localhost") as line,
            ):
                line.sendall(HEALTH)
                return line.recv(4096).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    return ask


@dataclass
class Watch:
    """What is seen of a server: the wait of every question, and the peak of its memory in MiB."""

    ask: Ask
    pid: int
    poll_s: float = POLL_S
    patience_s: float = PATIENCE_S
    waits_s: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

    def until(self, is_over: threading.Event) -> None:
        """Ask by the clock until it is over; questions that are due by then are asked, and waited for."""
        began, ends, asked = time.monotonic(), math.inf, list[threading.Thread]()
        while (due := began + len(asked) * self.poll_s) <= ends:
            if ends == math.inf and is_over.wait(max(0.0, due - time.monotonic())):
                ends = time.monotonic()
                continue
            asked.append(threading.Thread(target=self._question, args=(due,)))
            asked[-1].start()
        for thread in asked:
            thread.join()
        self.peak_mib = peak_mb(self.pid)

    def for_seconds(self, seconds: float) -> None:
        """Ask by the clock for a time."""
        is_over = threading.Event()
        timer = threading.Timer(seconds, is_over.set)
        timer.start()
        try:
            self.until(is_over)
        finally:
            timer.cancel()

    def _question(self, due: float) -> None:
        """Wait for a good answer, however often it takes to ask, and note what it took since it was due."""
        ends = due + self.patience_s
        while not self.ask(max(_AGAIN_S, ends - time.monotonic())) and time.monotonic() < ends:
            time.sleep(_AGAIN_S)
        self.waits_s.append(time.monotonic() - due)
