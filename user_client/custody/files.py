"""Files written whole: a temporary name beside the final one, synced, then renamed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol.errors import UnreadableFileError
from user_client.errors import BusyError

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file that only its owner can read; readers see the old content or the new.

    The parts are written one after another, never joined in memory.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    if sys.platform != "win32":  # the new name is durable only with its directory
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory; raises `BusyError` in the second.

    The system gives the lock back when its process ends, however it ends.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _try_lock(descriptor)
        except OSError:
            raise BusyError("another odc command works on this collaboration") from None
        yield
    finally:
        os.close(descriptor)


def read_bytes(path: Path) -> bytes:
    """Read a file a person named; raises `UnreadableFileError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or "unknown reason") from None


def read_text(path: Path) -> str:
    """Read a text file a person named; raises `UnreadableFileError`."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFileError(path, "not a text file") from None
