"""Answers the library in every process: counts the points of a stage, and makes the fault happen at one."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.faults.campaign.disk import Disk, Durable
from tests.faults.campaign.points import Fault, Place, Point, label

_ERRNO: Final[dict[Fault, int]] = {"eio": errno.EIO, "enospc": errno.ENOSPC}
_GONE_S: Final = 20.0


class Controller:
    """Listens at a socket; ``root`` holds one directory for each machine."""

    def __init__(self, root: Path, address: Path) -> None:
        self.root, self.address = root, address
        self.disks: dict[str, Disk] = {}
        self.cut_machine = ""
        """The machine that has lost its power and is not started again yet."""
        self.fired: Point | None = None
        self.calls: list[Point] = []
        self._counts: Counter[tuple[Place, str, str]] = Counter()
        self._stage = ""
        self._client = ""
        self._armed: tuple[Point, Fault] | None = None
        self._processes: dict[str, set[int]] = {}
        self._lock = threading.Lock()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(address))
        self._listening.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def begin(self, machines: dict[str, Path], durable: dict[str, Durable]) -> None:
        """Begin with what was durable on the machines: all, where nothing is said. Count nothing yet."""
        with self._lock:
            self.disks = {name: Disk(path, durable.get(name)) for name, path in machines.items()}
            self.cut_machine, self.fired, self.calls = "", None, []
            self._counts.clear()
            self._processes = {name: set() for name in machines}
            self._stage, self._armed = "", None

    def open(self, stage: str, client: str, armed: tuple[Point, Fault] | None) -> None:
        """Count from now on the calls of the analyst and of one institution; let a fault happen."""
        with self._lock:
            self._stage, self._client, self._armed = stage, client, armed

    def close(self) -> None:
        """Count no more; a fault that has not happened does not happen any more."""
        with self._lock:
            self._stage, self._armed = "", None

    def restore_power(self, seed: str, fault: Fault) -> None:
        """Wait until nothing of the machine runs, and leave on its disk what a power cut leaves."""
        machine, ends_at = self.cut_machine, time.monotonic() + _GONE_S
        while any(map(_runs, self._processes[machine])):
            if time.monotonic() > ends_at:
                raise RuntimeError(f"a process of {machine} outlived its power")
            time.sleep(0.002)
        with self._lock:
            if fault == "torn":
                self.disks[machine].tear(random.Random(seed))
            else:
                self.disks[machine].cut()
            self._processes[machine].clear()
            self.cut_machine = ""

    def end(self) -> None:
        """Listen no more."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(timeout=30)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # `end`
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid = struct.unpack("3i", credentials)[0]
        pending: Fault | None = None
        machine = kind = path = ""
        with connection:
            while data := _received(connection):
                fields = data.decode(errors="replace").split("\t")
                if fields[0] == "B":
                    _, place, kind, path, _other = fields
                    machine, failure, pending = self._before(pid, place, kind, path)
                    if failure is None:
                        return
                    _answer(connection, failure)
                elif self._after(pid, machine, kind, path, int(fields[1]), pending):
                    _answer(connection, 0)
                else:
                    return

    def _before(self, pid: int, place: str, kind: str, path: str) -> tuple[str, int | None, Fault | None]:
        """Return the machine, the errno of the call (None: it never returns), and what happens after it."""
        below = path.removeprefix(f"{self.root}/")
        machine = below.partition("/")[0] if path else place if place in self.disks else "analyst"
        with self._lock:
            if machine not in self.disks:
                return machine, 0, None
            self._processes[machine].add(pid)
            if machine == self.cut_machine:
                os.kill(pid, signal.SIGKILL)
                return machine, None, None
            point = None if _is_in_vain(kind, Path(path)) else self._point(place, machine, kind, below)
            if point is None:
                return machine, 0, None
            self.calls.append(point)
            if self._armed is None or self._armed[0] != point:
                return machine, 0, None
            fault, self._armed, self.fired = self._armed[1], None, point
            if fault == "kill-before":
                os.kill(pid, signal.SIGKILL)
                return machine, None, None
            return machine, _ERRNO.get(fault, 0), None if fault in _ERRNO else fault

    def _point(self, place: str, machine: str, kind: str, below: str) -> Point | None:
        """Return the point that a call is, None outside of a stage and of the places that are watched."""
        if not self._stage or below.endswith("-shm"):
            return None
        if kind == "fsync" and below.endswith("-wal"):
            kind = "commit"
        known: Place
        if place in ("server", "compute"):
            known = "server" if place == "server" else "compute"
        elif place == self._client:
            known = "client"
        else:
            return None
        if kind == "send":
            kind, below = ("answer" if known == "server" else "request"), known
        name = label(below.removeprefix(f"{machine}/"))
        self._counts[known, kind, name] += 1
        return Point(known, self._stage, kind, name, self._counts[known, kind, name])

    def _after(
        self, pid: int, machine: str, kind: str, path: str, result: int, pending: Fault | None
    ) -> bool:
        """Take note of a call that was made; return whether its process goes on."""
        with self._lock:
            if result >= 0 and path and machine in self.disks:
                self.disks[machine].note(kind, Path(path))
            if machine == self.cut_machine:
                return False
            if pending == "kill-after":
                os.kill(pid, signal.SIGKILL)
                return False
            if pending in ("cut", "torn"):
                self.cut_machine = machine
                for other in self._processes[machine]:
                    if _runs(other):
                        os.kill(other, signal.SIGKILL)
                return False
            return True


def _answer(connection: socket.socket, failure: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # killed
        connection.send(str(failure).encode())


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:  # killed
        return b""


def _is_in_vain(kind: str, path: Path) -> bool:
    """Return whether a call on a name will change nothing: programs try before they look."""
    match kind:
        case "mkdir":
            return path.exists()
        case "unlink" | "rmdir":
            return not path.is_symlink() and not path.exists()
        case "create":
            return not path.parent.exists()
    return False


def _runs(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
