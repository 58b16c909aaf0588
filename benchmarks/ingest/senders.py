"""Institutions that send at the same time, each a process with the product's own client."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from protocol.messages import UplinkManifest
from user_client.transport import AnalystConnection, Traffic
from user_client.transport.connection import Identity
from user_client.transport.upload import send_uplink

WAIT_S: Final = 600
_starts: list[Barrier] = []
"""In a sending process: where all wait for one another."""


@dataclass(frozen=True)
class Uplink:
    """What one institution sends: a signed manifest, and a file with the arrays."""

    collaboration_id: str
    manifest: UplinkManifest
    signed: bytes
    payload: Path


@dataclass(frozen=True)
class Sender:
    """One institution, and whom it believes."""

    identity: Identity
    root_pem: str


class Crew:
    """As many processes as there are senders, for any number of turns."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self._senders = senders
        spawning = multiprocessing.get_context("spawn")
        self._start = spawning.Barrier(len(senders) + 1)
        self._pool = ProcessPoolExecutor(len(senders), spawning, _wait_at, (self._start,))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.abort()
        self._pool.shutdown()

    def send(self, url: str, uplinks: Sequence[Uplink]) -> float:
        """Let each sender send its uplink, all at once; return the seconds until the last receipt."""
        pairs = zip(self._senders, uplinks, strict=True)
        sent = [self._pool.submit(_send, url, sender, uplink) for sender, uplink in pairs]
        self._start.wait(WAIT_S)
        began = time.monotonic()
        for one in sent:
            one.result()
        return time.monotonic() - began


def _wait_at(start: Barrier) -> None:
    _starts.append(start)


def _send(url: str, sender: Sender, uplink: Uplink) -> bytes:
    with AnalystConnection(url, sender.root_pem, sender.identity, Traffic()) as line:
        _starts[0].wait(WAIT_S)  # nobody is given two uplinks, since all wait here
        return send_uplink(line, uplink.collaboration_id, uplink.signed, uplink.manifest, uplink.payload)
