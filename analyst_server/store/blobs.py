"""Blobs in a directory: large bytes under a key, written whole or not at all.

An upload grows in a partial file beside the final one and is renamed when it is complete, so a name
without ``.part`` always has all its bytes, synced to the disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

ERASE_ATTEMPTS: Final = 3
"""An upload that is still under way may put a file where others were just removed."""


class DirectoryBlobs:
    """The default store: one file per key below ``root``, readable by the server's user alone."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"<DirectoryBlobs in {self._root}>"

    def path(self, key: str) -> Path:
        """Return where a whole blob lies, for memory mapping."""
        return self._root / key

    def partial_path(self, key: str) -> Path:
        return self._root / (key + ".part")

    def exists(self, key: str) -> bool:
        return self.path(key).exists()

    def write(self, key: str, data: bytes) -> None:
        """Write a whole blob at once."""
        self.discard_partial(key)
        with self.append_partial(key, 0) as partial:
            partial.write(data)
        self.sync_partial(key)
        self.commit(key)

    def has_partial(self, key: str) -> bool:
        return self.partial_path(key).exists()

    @contextmanager
    def append_partial(self, key: str, offset: int) -> Iterator[BinaryIO]:
        """Open the partial file at ``offset``, cutting off whatever lay behind; made if missing.

        Not durable before `sync_partial`.
        """
        path = self.partial_path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as partial:  # buffered: a raw write may be a short one
            if os.fstat(descriptor).st_size < offset:
                raise OSError(f"{path} is shorter than the {offset} bytes it should have")
            partial.truncate(offset)
            partial.seek(offset)
            yield partial

    def sync_partial(self, key: str) -> None:
        """Make what was appended survive a power cut."""
        if not self.has_partial(key):
            return
        descriptor = os.open(self.partial_path(key), os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def commit(self, key: str) -> None:
        """Give a synced partial blob its final name."""
        path = self.path(key)
        self.partial_path(key).replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # the new name is durable only with its directory
        finally:
            os.close(directory)

    def discard_partial(self, key: str) -> None:
        self.partial_path(key).unlink(missing_ok=True)

    def erase(self, folder: str) -> None:
        """Remove every blob whose key begins with ``folder/``, the partial ones too."""
        path = self._root / folder
        for _ in range(ERASE_ATTEMPTS):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return
        shutil.rmtree(path)  # says why not
