"""What both sides count of a request: its bytes each way, at every layer."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Literal

Counter = Literal["kernel", "transport"]
"""Who counted: the kernel (TCP_INFO), or the transport below TLS where the kernel does not tell."""


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
