"""What both sides count: which kind a request is of, and how many bytes it took each way."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from typing import Final, Literal

Kind = Literal["control", "anchor", "uplink", "downlink"]
"""What a request is for. Directions are seen from the institution: it sends up, it receives down."""
Counter = Literal["kernel", "transport"]
"""Who counted: the kernel (TCP_INFO), or the transport below TLS where the kernel does not tell."""

_KINDS: Final[dict[str, Kind]] = {
    "acceptances": "anchor",  # the lead fetches the keys in them to seal the anchor to
    "anchor": "anchor",
    "anchors": "anchor",
    "matrix": "anchor",
    "uplinks": "uplink",
    "downlink": "downlink",
}


def kind_of(path: str) -> tuple[Kind, str]:
    """Return what a request to ``path`` is for, and its collaboration ("" where the path names none).

    Both sides ask here, so that they attribute the same request to the same kind.
    """
    if path.startswith("/v1/uploads/"):
        return "uplink", ""
    found = re.fullmatch("/v1/collaborations/([0-9a-f]{32})(?:/([a-z]+))?", path.partition("?")[0])
    if found is None:
        return "control", ""
    return _KINDS.get(found[2] or "", "control"), found[1]


@dataclass(frozen=True)
class Flow:
    """What one side counted in one direction."""

    wire_bytes: int = 0
    """Bytes of the TCP stream, each once, TLS included."""
    retransmitted_bytes: int = 0
    """Bytes the kernel sent again. Only their sender can count them: 0 for what was received."""
    plain_bytes: int = 0
    """What went into TLS, or came out of it: HTTP."""
    body_bytes: int = 0
    """Of these, bodies of requests or answers."""
    segments: int = 0
    """TCP segments, also those without data. Each has an IP and a TCP header, which no figure here has."""

    def __add__(self, other: Flow) -> Flow:
        return Flow(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Flow) -> Flow:
        return Flow(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def measured_bytes(self) -> int:
        return self.wire_bytes + self.retransmitted_bytes


@dataclass(frozen=True)
class Counts:
    """What one side counted of one kind of request, both ways."""

    up: Flow = Flow()
    down: Flow = Flow()

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.up + other.up, self.down + other.down)

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.up - other.up, self.down - other.down)
