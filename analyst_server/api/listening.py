"""Sockets that ask `Doors` whether a connection may come in, and bound the time of its handshake.

asyncio accepts as many connections as come, and tells nobody before TLS stands.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import os
import socket
import struct
from contextlib import suppress
from typing import Any, ClassVar, Final, Self
from weakref import WeakValueDictionary

from analyst_server.api.doors import Doors, Guest
from metering.counts import CountingSocket

_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_HANG_UP_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: nothing is waited for, and the peer is told by a reset."""
_UNREAD_S: Final = 60
"""How long a peer may leave unread what was sent, before the kernel ends the connection."""
ACCEPTED_IN_A_TURN: Final = 32
"""asyncio would accept two thousand before it does anything else."""
CLOSED_UNTIL_COLLECTED: Final = 256


class GuardedSocket(socket.socket):
    """A listening socket whose connections `Doors` counts until they are closed; or one of these."""

    accepted_guests: ClassVar[WeakValueDictionary[int, GuardedSocket]] = WeakValueDictionary()
    """By descriptor: asyncio shows its protocols no more of a socket than that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guest: Guest | None = None
        self._doors: Doors | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_s = 0.0
        self._reserve: int | None = None
        self._accepted = 0

    @classmethod
    def around(cls, other: socket.socket) -> Self:
        """Return a guarded socket that takes the place of another."""
        return cls(other.family, other.type, other.proto, fileno=other.detach())

    def guard(self, doors: Doors, handshake_s: float) -> None:
        """Let ``doors`` decide from now on who may connect to this listening socket."""
        self._doors, self._handshake_s = doors, handshake_s
        self._reserve = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection that may come in.

        Raises `ConnectionAbortedError`, after which asyncio goes on in its next turn, for one that may not.
        """
        self._count_turn()
        try:
            connected, address = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                raise
            # asyncio would leave it waiting and pause for a second, with everybody else behind it
            self._turn_away_one()
            raise ConnectionAbortedError("no descriptor is left for it") from error
        guarded = connected if isinstance(connected, GuardedSocket) else type(self).around(connected)
        if self._doors is not None and not guarded.come_in(self._doors, str(address[0]), self._handshake_s):
            guarded.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP_AT_ONCE)
            guarded.close()
            raise ConnectionAbortedError("no place is left for it")
        return guarded, address

    def _count_turn(self) -> None:
        """Raise `BlockingIOError` once so many were accepted in one turn of the loop."""
        if self._accepted == 0:
            asyncio.get_running_loop().call_soon(self._end_turn)
        if self._accepted >= ACCEPTED_IN_A_TURN:
            raise BlockingIOError(errno.EAGAIN, "enough for this turn")
        self._accepted += 1

    def _end_turn(self) -> None:
        self._accepted = 0

    def come_in(self, doors: Doors, host: str, handshake_s: float) -> bool:
        """Take a place and start the time of the handshake; return whether there was a place."""
        self._doors = doors
        self.guest = doors.enter(host, self._end)
        if self.guest is None:
            return False
        self._timer = asyncio.get_running_loop().call_later(handshake_s, self._end_handshake)
        self.accepted_guests[self.fileno()] = self
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            with suppress(OSError):
                self.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_S * 1000)
        return True

    def let_in(self, certificate: bytes | None) -> None:
        """Note that TLS stands, and has shown this certificate (DER)."""
        self._stop_timer()
        if certificate is not None and self.guest is not None and self._doors is not None:
            self._doors.show(self.guest, certificate)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self._stop_timer()
        if self.guest is not None and self._doors is not None:
            self._doors.leave(self.guest)
            self.guest = None
            _collect_after_many()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        super().close()

    def _end_handshake(self) -> None:
        if self._doors is not None:
            self._doors.refused["no-handshake"] += 1
        self._end()

    def _end(self) -> None:
        """Let whoever reads from this connection find its end."""
        with suppress(OSError):  # it has ended already
            self.shutdown(socket.SHUT_RDWR)

    def _turn_away_one(self) -> None:
        """Close the connection that waits for a descriptor, by means of one that is kept for this."""
        if self._reserve is None:
            return
        os.close(self._reserve)
        self._reserve = None
        if self._doors is not None:
            self._doors.refused["no-descriptor"] += 1
        with suppress(OSError):
            connected, _ = socket.socket.accept(self)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP_AT_ONCE)
            connected.close()
        with suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY)


_closed = itertools.count(1)


def _collect_after_many() -> None:
    """Free what closed connections have left behind, now and then.

    Each leaves a cycle with some 50 kB of OpenSSL's, which Python takes for a few small objects.
    """
    if next(_closed) % CLOSED_UNTIL_COLLECTED == 0:
        gc.collect()


class GuardedCountingSocket(GuardedSocket, CountingSocket):  # type: ignore[misc]  # what both accept is one of these
    """One that also counts what it carries, where the kernel does not."""


def guarded_connection(connected: socket.socket | None) -> GuardedSocket | None:
    """Return the accepted socket behind what asyncio shows of it, or None if it is not guarded.

    Parameters
    ----------
    connected : socket, optional
        ``transport.get_extra_info("socket")``.
    """
    return GuardedSocket.accepted_guests.get(connected.fileno()) if connected is not None else None
