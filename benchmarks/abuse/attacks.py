"""What strangers do to a server, all at once: each attack is a thread of this process.

`python -m benchmarks.abuse.attacks --port PORT --root FILE --seconds S` prints as JSON how often each was
tried.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

HEAD: Final = b"GET /v1/collaborations HTTP/1.1\r\nhost: analyst\r\n"
POST: Final = b"POST /v1/enrolments HTTP/1.1\r\nhost: analyst\r\n"
TRAILER: Final = b"x-trailer: " + b"t" * 4000 + b"\r\n"
MOST_TRAILERS: Final = 12_500
"""Fifty megabytes."""
HELD: Final = 100
"""Connections that an attack holds at the same time."""
NICE: Final = 10
"""Strangers have machines of their own; here they get what processor time is left."""


class Stranger:
    """Makes connections to a server, from one address after another."""

    def __init__(self, port: int, root: Path, until: float) -> None:
        self._port, self._until = port, until
        self._trust = ssl.create_default_context(cafile=root)
        sources = (
            [f"127.0.1.{number}" for number in range(1, 9)] if sys.platform == "linux" else ["127.0.0.1"]
        )
        self._sources = itertools.cycle(sources)

    @property
    def has_time(self) -> bool:
        return time.monotonic() < self._until

    def plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), 5, (next(self._sources), 0))

    def secured(self) -> ssl.SSLSocket:
        return self._trust.wrap_socket(self.plain(), server_hostname="localhost")


Attack = Callable[[Stranger], Iterator[None]]
"""Yields whenever it has tried once."""


def trailers(stranger: Stranger) -> Iterator[None]:
    """Send fifty megabytes of trailers on one connection."""
    while stranger.has_time:
        with contextlib.suppress(OSError), stranger.secured() as line:
            line.sendall(POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
            for _ in range(MOST_TRAILERS):
                line.sendall(TRAILER)
        yield


def pipelining(stranger: Stranger) -> Iterator[None]:
    """Send 234 kB of requests at once."""
    requests = (HEAD + b"\r\n") * (234_000 // len(HEAD + b"\r\n"))
    while stranger.has_time:
        with contextlib.suppress(OSError), stranger.secured() as line:
            line.sendall(requests)
            while line.recv(65536) and stranger.has_time:
                pass
        yield


def requests(stranger: Stranger) -> Iterator[None]:
    """Ask on one connection as fast as the server answers."""
    while stranger.has_time:
        with contextlib.suppress(OSError), stranger.secured() as line:
            while stranger.has_time:
                line.sendall(HEAD + b"\r\n")
                if not line.recv(65536):
                    break
                yield


def handshakes(stranger: Stranger) -> Iterator[None]:
    """Begin handshakes, and leave most of them alone."""
    left: list[socket.socket] = []
    while stranger.has_time:
        with contextlib.suppress(OSError):
            if random.random() < 0.2:  # noqa: S311  # no secret
                stranger.secured().close()
            else:
                line = stranger.plain()
                line.sendall(b"\x16\x03\x01\x02\x00")
                left.append(line)
        if len(left) >= HELD:
            left.pop(0).close()
        yield
    for line in left:
        line.close()


def _holding(first: bytes, drip: bytes) -> Attack:
    """Return an attack that holds connections, says ``first`` on each and then ``drip`` every second."""

    def hold(stranger: Stranger) -> Iterator[None]:
        held: list[ssl.SSLSocket] = []
        while stranger.has_time:
            while len(held) < HELD and stranger.has_time:
                with contextlib.suppress(OSError):
                    line = stranger.secured()
                    line.sendall(first)
                    held.append(line)
                yield
            time.sleep(1)
            alive = []
            for line in held:
                try:
                    line.sendall(drip)
                    line.setblocking(False)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        if not line.recv(1):
                            raise ConnectionResetError
                    line.setblocking(True)
                    alive.append(line)
                except OSError:
                    line.close()
            held = alive
        for line in held:
            line.close()

    return hold


ATTACKS: Final[dict[str, Attack]] = {
    "trailers": trailers,
    "pipelining": pipelining,
    "slow heads": _holding(HEAD + b"x-slow: ", b"y"),
    "slow second heads": _holding(HEAD + b"\r\n" + HEAD, b"y"),
    "slow bodies": _holding(POST + b"content-length: 100000\r\n\r\n", b"y"),
    "idle connections": _holding(b"", b""),
    "handshakes": handshakes,
    "requests": requests,
}


def run(port: int, root: Path, seconds: float) -> Counter[str]:
    """Attack with everything at once for a time; return how often each was tried."""
    tried: Counter[str] = Counter()
    until = time.monotonic() + seconds

    def one(name: str, attack: Attack) -> None:
        for _ in attack(Stranger(port, root, until)):
            tried[name] += 1

    threads = [threading.Thread(target=one, args=each) for each in ATTACKS.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tried


def main() -> None:
    """Attack as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    os.nice(NICE)
    print(json.dumps(run(given.port, given.root, given.seconds)))


if __name__ == "__main__":
    main()
