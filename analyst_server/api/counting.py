"""Who counts the bytes of a connection: the kernel, or a socket of ours where it does not tell."""

from __future__ import annotations

import array
import asyncio
import fcntl
import socket
import termios
from typing import Any, ClassVar, Protocol, Self
from weakref import WeakValueDictionary

from metering.counts import Counter
from metering.kernel import TcpCount, read_tcp_info


class Count(Protocol):
    """The count of one connection below TLS."""

    def read(self) -> TcpCount: ...

    def unread_bytes(self) -> int:
        """Bytes that are counted, but that nobody has read yet."""

    def release(self) -> None:
        """The connection is gone and read for the last time."""


def count_of(transport: asyncio.Transport, counter: Counter) -> Count | None:
    """Return the count of a connection, or None if it cannot be counted."""
    connected: Any = transport.get_extra_info("socket")
    if connected is None:
        return None
    if counter == "transport":
        return CountingSocket.accepted.get(connected.fileno())
    try:
        return _KernelCount(connected.dup())
    except OSError:  # no descriptor is left: this connection goes uncounted
        return None


class _KernelCount:
    """TCP_INFO, through a descriptor of our own: asyncio closes its one before it tells us."""

    def __init__(self, descriptor: socket.socket) -> None:
        self._descriptor = descriptor

    def read(self) -> TcpCount:
        return read_tcp_info(self._descriptor) or TcpCount()

    def unread_bytes(self) -> int:
        unread = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, unread)
        return unread[0]

    def release(self) -> None:
        self._descriptor.close()


class CountingSocket(socket.socket):
    """A socket that counts what asyncio reads from it and writes to it; so do those it accepts."""

    accepted: ClassVar[WeakValueDictionary[int, CountingSocket]] = WeakValueDictionary()
    """By descriptor: asyncio shows its protocols no more of a socket than that."""

    _sent = _received = 0

    @classmethod
    def around(cls, other: socket.socket) -> Self:
        """Take another socket's place."""
        return cls(other.family, other.type, other.proto, fileno=other.detach())

    def accept(self) -> tuple[CountingSocket, Any]:
        plain, address = super().accept()
        counting = CountingSocket.around(plain)
        self.accepted[counting.fileno()] = counting
        return counting, address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        self._received += len(data)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer, nbytes, flags)
        self._received += count
        return count

    def send(self, data: Any, flags: int = 0, /) -> int:
        count = super().send(data, flags)
        self._sent += count
        return count

    def sendmsg(self, buffers: Any, *others: Any) -> int:
        count = super().sendmsg(buffers, *others)
        self._sent += count
        return count

    def read(self) -> TcpCount:
        return TcpCount(sent_bytes=self._sent, received_bytes=self._received)

    def unread_bytes(self) -> int:
        return 0  # what nobody has read is not counted yet

    def release(self) -> None:
        """asyncio closes it."""
