"""Bytes on the wire, as the kernel counts them: TCP_INFO of the connection, TLS included.

Counters are read after each answer and the difference goes to the kind of request it was. Where the
kernel does not tell (not Linux), nothing is guessed: the figures stay empty.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

Kind = Literal["control", "anchor", "uplink", "downlink"]

_TCP_INFO = 11
_ACKED_RECEIVED_OFFSET = 120
"""tcpi_bytes_acked and tcpi_bytes_received, after 8 one-byte and 24 four-byte fields and two rates."""


def read_tcp_info(sock: socket.socket) -> tuple[int, int] | None:
    """Return (bytes sent and acknowledged, bytes received) of a connection, or None."""
    if sys.platform != "linux" or sock.fileno() < 0:  # closed: the last request's answer said so
        return None
    info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
    if len(info) < _ACKED_RECEIVED_OFFSET + 16:
        return None
    acked, received = struct.unpack_from("=QQ", info, _ACKED_RECEIVED_OFFSET)
    return acked, received


class Traffic:
    """Adds up what a process sends and receives, and keeps it in a file across processes."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # by the socket itself: a file number is given again, and so may an address
        self._seen: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()

    def note(self, sock: Any, kind: Kind) -> None:
        """Attribute what a connection carried since the last look to ``kind``."""
        counted = read_tcp_info(sock) if sock is not None else None
        if counted is None:
            return
        before = self._seen.get(sock, (0, 0))
        self._seen[sock] = counted
        line = {"kind": kind, "sent": counted[0] - before[0], "received": counted[1] - before[1]}
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def total(path: Path) -> dict[str, dict[str, int]]:
    """Return bytes sent and received by kind, over all processes that wrote to ``path``."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"sent": 0, "received": 0})
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # a line that a power cut has torn
                continue
            for direction in ("sent", "received"):
                sums[entry["kind"]][direction] += entry[direction]
    return dict(sums)
