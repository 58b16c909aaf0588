"""A telephone line between an institution and the analyst that a test can slow down and cut."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

Direction = Literal["up", "down"]
_PIECE_BYTES = 16 * 2**10


class Line:
    """Relays TCP connections to one port; TLS goes through it unread.

    Parameters
    ----------
    to_port : int
        Where the analyst listens, on this machine unless ``to_host`` says otherwise.
    cuts : sequence of (direction, bytes)
        Each, in turn, cuts the connection that has carried so many bytes that way.
    up_bytes_per_s : float, optional
        How fast the line is upwards.
    hold_after : int, optional
        Once a connection has carried so many bytes upwards, nothing goes up any more, and nobody hangs up.
    door : (str, int)
        Where the line answers; port 0 for a free one.
    """

    def __init__(
        self,
        to_port: int,
        cuts: tuple[tuple[Direction, int], ...] = (),
        up_bytes_per_s: float | None = None,
        *,
        to_host: str = "127.0.0.1",
        hold_after: int | None = None,
        door: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._to, self._cuts, self._speed = (to_host, to_port), list(cuts), up_bytes_per_s
        self._hold_after, self._is_held, self._is_closed = hold_after, False, threading.Event()
        self._door = socket.create_server(door)
        self.port = int(self._door.getsockname()[1])
        self._threads = [threading.Thread(target=self._take_calls)]
        self._open: list[socket.socket] = []
        self._carried_up, self._counting = 0, threading.Lock()
        self._threads[0].start()

    @property
    def cuts_left(self) -> int:
        return len(self._cuts)

    @property
    def carried_up(self) -> int:
        """Return how many bytes have come to be carried upwards, in all connections."""
        return self._carried_up

    def _take_calls(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:  # the door was closed
                return
            try:
                analyst = socket.create_connection(self._to)
            except OSError:  # nobody is there: what the caller sees is a closed connection
                caller.close()
                continue
            self._open += [caller, analyst]
            call = threading.Thread(target=self._call, args=(caller, analyst))
            self._threads.append(call)
            call.start()

    def _call(self, caller: socket.socket, analyst: socket.socket) -> None:
        down = threading.Thread(target=self._carry, args=(analyst, caller, "down"))
        down.start()
        self._carry(caller, analyst, "up")
        down.join()
        # shut down alone, an end would still take what its peer sends, until its buffer is full
        caller.close()
        analyst.close()

    def _carry(self, source: socket.socket, target: socket.socket, way: Direction) -> None:
        carried = 0
        try:
            while data := source.recv(_PIECE_BYTES):
                if way == "up" and self._speed:
                    time.sleep(len(data) / self._speed)
                carried += len(data)
                if way == "up":
                    with self._counting:
                        self._carried_up += len(data)
                if self._cuts and self._cuts[0][0] == way and carried >= self._cuts[0][1]:
                    self._cuts.pop(0)
                    break
                if way == "up" and self._is_held_by(carried):
                    self._is_closed.wait()
                target.sendall(data)
        except OSError:  # the other direction has hung up
            pass
        _hang_up(source, target)

    def _is_held_by(self, carried: int) -> bool:
        """Whether nothing goes up any more, on any connection: one that follows would only go on."""
        if self._hold_after is not None and carried >= self._hold_after:
            self._is_held = True
        return self._is_held

    def close(self) -> None:
        self._is_closed.set()
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        _hang_up(*self._open)
        for thread in self._threads:
            thread.join(timeout=60)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def line(
    to_port: int, cuts: tuple[tuple[Direction, int], ...] = (), up_bytes_per_s: float | None = None
) -> Iterator[Line]:
    made = Line(to_port, cuts, up_bytes_per_s)
    try:
        yield made
    finally:
        made.close()


class Distant:
    """A server behind a line: whoever uses it by that address sees it go away and come back.

    Parameters
    ----------
    host, port
        Where it really listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._to_port = host, port
        self._line = Line(port, to_host=host)
        self.port = self._line.port

    @classmethod
    @contextmanager
    def from_url(cls, url: str) -> Iterator[Distant]:
        """Yield the server that an address without TLS names."""
        found = urlsplit(url)
        made = cls(str(found.hostname), found.port or 80)
        try:
            yield made
        finally:
            made.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._line.close()

    def start(self) -> None:
        self._line = Line(self._to_port, to_host=self._host, door=("127.0.0.1", self.port))
