"""Files written whole: a temporary name beside the final one, synced, then renamed."""

from __future__ import annotations

import os
from pathlib import Path

from protocol.errors import UnreadableFileError


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
