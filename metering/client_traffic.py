"""The client's bytes by kind of request, added up over all processes that write to one file.

`metering.client_transport` reports what its connections carry; here it is attributed to requests and kept.
Only counts are kept, never what was sent.
"""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, get_args

from metering.counts import Count, Counter, Counts, Flow, KernelCount, OwnCount, kernel_counts
from protocol.operations import Kind, kind_of


@dataclass(eq=False)  # two connections that carried the same are still two
class Line:
    """One connection: what it has carried, and how much of that is attributed."""

    tcp: Count
    """Who counts it below TLS."""
    plain_sent: int = 0
    plain_received: int = 0
    head_sent: int = 0
    """Of these, request lines and headers."""
    attributed: Counts = field(default_factory=Counts)

    def count(self) -> Counts:
        """Return everything until now except received bodies, which only their reader can tell."""
        tcp = self.tcp.read()
        return Counts(
            up=Flow(
                wire_bytes=tcp.sent_bytes,
                retransmitted_bytes=tcp.retransmitted_bytes,
                plain_bytes=self.plain_sent,
                body_bytes=self.plain_sent - self.head_sent,
                segments=tcp.segments_out,
            ),
            down=Flow(
                wire_bytes=tcp.received_bytes,
                plain_bytes=self.plain_received,
                segments=tcp.segments_in,
            ),
        )


@dataclass
class Exchange:
    """A request and its answer."""

    kind: Kind
    collaboration: str
    received_body: int = 0
    in_head: bool = True


class Traffic:
    """Attributes what connections carry to requests, and keeps it in a file across processes.

    Parameters
    ----------
    path : Path, optional
        Where one line of JSON a request is appended; None keeps nothing.
    counter : Counter, optional
        Who counts; the kernel where it can.
    """

    def __init__(self, path: Path | None = None, counter: Counter | None = None) -> None:
        self._path = path
        self.counter: Final[Counter] = counter or ("kernel" if kernel_counts() else "transport")
        self._lines: list[Line] = []
        self._exchange: Exchange | None = None
        self._collaboration = ""

    @contextmanager
    def during(self, url_path: str) -> Iterator[Exchange]:
        """Attribute what is carried in the meantime to a request, even if it fails."""
        kind, named = kind_of(url_path)
        if kind == "uplink":  # an upload's address does not name its collaboration
            named = named or self._collaboration
        self._collaboration = named
        self._exchange = Exchange(kind, named)
        try:
            yield self._exchange
        finally:
            for line in self._lines:
                self._attribute(line, kind)
            self._exchange = None

    def open(self, connected: socket.socket | None) -> Line:
        """Return a new connection to count; its owner keeps the count where the kernel does not."""
        if connected is None or self.counter == "transport":
            line = Line(OwnCount())
        else:
            line = Line(KernelCount(connected))
        self._lines.append(line)
        return line

    def sent(self, line: Line, plain_bytes: int) -> None:
        """Note what went into a connection above TLS; the first piece of a request is its head."""
        line.plain_sent += plain_bytes
        if self._exchange is not None and self._exchange.in_head:
            self._exchange.in_head = False
            line.head_sent += plain_bytes

    def received(self, line: Line, plain_bytes: int) -> None:
        """Note what came out of a connection above TLS."""
        line.plain_received += plain_bytes

    def handshaken(self, line: Line) -> None:
        """Attribute to control what a connection took to be established, a proxy's CONNECT included."""
        self._attribute(line, "control")
        if self._exchange is not None:
            self._exchange.in_head = True

    def closing(self, line: Line) -> None:
        """Attribute the rest of a connection to the request it was used for, or else to control."""
        if line not in self._lines:
            return
        found = line.count()
        is_in_use = self._exchange is not None and (
            found.up.plain_bytes > line.attributed.up.plain_bytes
            or found.down.plain_bytes > line.attributed.down.plain_bytes
        )
        self._attribute(line, self._exchange.kind if self._exchange and is_in_use else "control")
        self._lines.remove(line)
        line.tcp.release()

    def _attribute(self, line: Line, kind: Kind) -> None:
        found = line.count()
        new = found - line.attributed
        line.attributed = found
        up, down = new.up, new.down
        if self._exchange is not None and down.plain_bytes:
            down += Flow(body_bytes=self._exchange.received_body)
            self._exchange.received_body = 0
        if self._path is None or (up, down) == (Flow(), Flow()):
            return
        entry = {
            "kind": kind,
            "collaboration": self._collaboration,
            "counter": self.counter,
            "sent": asdict(up),
            "received": asdict(down),
        }
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


@dataclass(frozen=True)
class Recorded:
    """What stands in a traffic file."""

    counts: dict[tuple[str, Kind], Counts]
    """By collaboration ("" before one is named) and kind."""
    counter: Counter | None
    """Who counted; ``transport`` if it did so even once."""

    def of(self, collaboration: str) -> dict[Kind, Counts]:
        return {kind: counts for (named, kind), counts in self.counts.items() if named == collaboration}


def recorded(path: Path) -> Recorded:
    """Return what all processes have written to a traffic file."""
    sums: dict[tuple[str, Kind], Counts] = defaultdict(Counts)
    counters: set[Counter] = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            key = (str(entry["collaboration"]), entry["kind"])
            counts = Counts(Flow(**entry["sent"]), Flow(**entry["received"]))
        except (ValueError, KeyError, TypeError):  # a line that a power cut has torn
            continue
        if key[1] in get_args(Kind):
            sums[key] += counts
            counters.add("kernel" if entry.get("counter") == "kernel" else "transport")
    counter: Counter | None = "transport" if "transport" in counters else "kernel" if counters else None
    return Recorded(dict(sums), counter)


def total(path: Path) -> dict[str, dict[str, int]]:
    """Return bytes sent and received by kind, over all processes that wrote to ``path``."""
    sums: dict[str, Counts] = defaultdict(Counts)
    for (_, kind), counts in recorded(path).counts.items():
        sums[kind] += counts
    return {
        kind: {"sent": counts.up.measured_bytes, "received": counts.down.measured_bytes}
        for kind, counts in sums.items()
    }
