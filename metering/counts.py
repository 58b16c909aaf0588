"""What is counted of a connection, and who counts below TLS: the kernel, or a socket of ours.

The kernel's count is TCP_INFO, the same fields read in the same way on both sides. `bytes_sent` less
`bytes_retrans` is every byte of the stream that has left, each once. `bytes_acked` would be the same
number a round trip later, and counts the handshake's sequence number as a byte.
"""

from __future__ import annotations

import array
import socket
import struct
import sys
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Final, Literal, Protocol, Self
from weakref import WeakValueDictionary

Counter = Literal["kernel", "transport"]
"""Who counted: the kernel (TCP_INFO), or our own transport below TLS where the kernel does not tell."""


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
    """TCP segments, also those without data. Their IP and TCP headers are in no figure here."""

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


@dataclass(frozen=True)
class TcpCount:
    """What a TCP connection has carried until now, as one of its ends sees it."""

    sent_bytes: int = 0
    """Each byte of the stream once."""
    retransmitted_bytes: int = 0
    received_bytes: int = 0
    segments_out: int = 0
    segments_in: int = 0


# the kernel's count

_TCP_INFO: Final = 11
_STATE_OFFSET: Final = 0
_RECEIVED_OFFSET: Final = 128
_SEGMENTS_OFFSET: Final = 136
_SENT_OFFSET: Final = 200
_NEEDED_BYTES: Final = 216
"""Up to and including tcpi_bytes_retrans, which came with Linux 4.19."""
_FIN_RECEIVED: Final = (6, 8, 9, 11)
"""TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: here bytes_received counts the peer's FIN as one byte."""


def read_tcp_info(sock: socket.socket) -> TcpCount | None:
    """Return the kernel's count of a connection, or None where the kernel does not tell."""
    if sys.platform != "linux":
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
    except OSError:  # no TCP socket, or closed
        return None
    return parse_tcp_info(info)


def kernel_counts() -> bool:
    """Return whether the kernel of this machine counts the bytes of a connection."""
    with socket.socket() as probe:
        return read_tcp_info(probe) is not None


def parse_tcp_info(info: bytes) -> TcpCount | None:
    """Return what a ``struct tcp_info`` says, or None if the kernel is too old to say it."""
    if len(info) < _NEEDED_BYTES:
        return None
    (received,) = struct.unpack_from("=Q", info, _RECEIVED_OFFSET)
    segments_out, segments_in = struct.unpack_from("=II", info, _SEGMENTS_OFFSET)
    sent, retransmitted = struct.unpack_from("=QQ", info, _SENT_OFFSET)
    is_fin_received = info[_STATE_OFFSET] in _FIN_RECEIVED
    return TcpCount(
        sent - retransmitted, retransmitted, received - is_fin_received, segments_out, segments_in
    )


# the count of one connection, whoever keeps it


class Count(Protocol):
    """The count of one connection below TLS."""

    def read(self) -> TcpCount:
        """Return what the connection has carried until now."""

    def unread_bytes(self) -> int:
        """Return how many of the received bytes nobody has read from the socket yet."""

    def release(self) -> None:
        """Let go of the connection: it was read for the last time."""


class KernelCount:
    """TCP_INFO through a second descriptor: the owner of the first may close it before it is read."""

    def __init__(self, connected: socket.socket) -> None:
        self._descriptor = connected.dup()
        self._latest = TcpCount()

    def read(self) -> TcpCount:
        self._latest = read_tcp_info(self._descriptor) or self._latest
        return self._latest

    def unread_bytes(self) -> int:
        import fcntl  # here, because only Linux gets this far and Windows has neither
        import termios

        unread = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, unread)
        return unread[0]

    def release(self) -> None:
        self._descriptor.close()


@dataclass
class OwnCount:
    """The count that our own transport keeps, of what it hands to the socket and takes from it."""

    sent_bytes: int = 0
    received_bytes: int = 0

    def read(self) -> TcpCount:
        return TcpCount(sent_bytes=self.sent_bytes, received_bytes=self.received_bytes)

    def unread_bytes(self) -> int:
        return 0  # what nobody has read is not counted yet

    def release(self) -> None:
        """Do nothing: there is no descriptor to close."""


class CountingSocket(socket.socket):
    """A socket that counts what asyncio reads from it and writes to it; so do those it accepts."""

    accepted: ClassVar[WeakValueDictionary[int, CountingSocket]] = WeakValueDictionary()
    """By descriptor: asyncio shows its protocols no more of a socket than that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.carried = OwnCount()

    @classmethod
    def around(cls, other: socket.socket) -> Self:
        """Return a counting socket that takes the place of another."""
        return cls(other.family, other.type, other.proto, fileno=other.detach())

    def accept(self) -> tuple[CountingSocket, Any]:
        plain, address = super().accept()
        counting = type(self).around(plain)
        self.accepted[counting.fileno()] = counting
        return counting, address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        self.carried.received_bytes += len(data)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer, nbytes, flags)
        self.carried.received_bytes += count
        return count

    def send(self, data: Any, flags: int = 0, /) -> int:
        count = super().send(data, flags)
        self.carried.sent_bytes += count
        return count

    def sendmsg(self, buffers: Any, *others: Any) -> int:
        count = super().sendmsg(buffers, *others)
        self.carried.sent_bytes += count
        return count


def count_of(connected: socket.socket | None, counter: Counter) -> Count | None:
    """Return the count of an accepted connection, or None if it cannot be counted.

    Parameters
    ----------
    connected : socket, optional
        What asyncio shows of the socket: ``transport.get_extra_info("socket")``.
    """
    if connected is None:
        return None
    if counter == "transport":
        accepted = CountingSocket.accepted.get(connected.fileno())
        return accepted.carried if accepted is not None else None
    try:
        return KernelCount(connected)
    except OSError:  # no descriptor is left: this connection is served but not counted
        return None
