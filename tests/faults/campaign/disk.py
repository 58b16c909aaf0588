"""What is on a machine's disk after a power cut, by what POSIX promises and no more."""

from __future__ import annotations

import random
import shutil
from itertools import count
from pathlib import Path

Durable = dict[Path, bytes | None]
"""Contents by path below the root, None for a folder, which stands before what is in it."""


class Disk:
    """The files below a directory as they are durable: contents by fsync, names by fsync of their folder.

    Every file and folder has a number of its own for ever, since the system gives inodes again.
    """

    def __init__(self, root: Path, durable: Durable | None = None) -> None:
        self.root = root
        self._take_all_as_durable()
        if durable is not None:
            self._take_as_durable(durable)

    def _take_all_as_durable(self) -> None:
        self._numbers = count()
        self._of_inode: dict[int, int] = {}
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._is_folder: set[int] = set()
        for path in [self.root, *self.root.rglob("*")]:
            self._keep(path)

    def _take_as_durable(self, durable: Durable) -> None:
        """Take as durable what was so elsewhere, and of what lies here nothing else."""
        numbers = {path.relative_to(self.root): self._number(path) for path in self.root.rglob("*")}
        self._names = {number: {} for number in self._is_folder}
        self._contents = {}
        for path, content in durable.items():  # a folder stands before what is in it
            number = numbers[path] if path in numbers else next(self._numbers)
            numbers[path] = number
            if content is None:
                self._is_folder.add(number)
                self._names.setdefault(number, {})
            else:
                self._contents[number] = content
            above = numbers[path.parent] if path.parent.name else self._number(self.root)
            self._names[above][path.name] = number

    def note(self, kind: str, path: Path) -> None:
        """Take note of a call that has succeeded."""
        try:
            if kind in ("create", "mkdir"):
                self._of_inode.pop(path.lstat().st_ino, None)
                self._number(path)
            elif kind in ("fsync", "commit"):
                self._keep(path)
        except FileNotFoundError:  # unlinked while it was open
            return

    def _number(self, path: Path) -> int:
        inode = path.lstat().st_ino
        if inode not in self._of_inode:
            self._of_inode[inode] = next(self._numbers)
        number = self._of_inode[inode]
        if path.is_dir():
            self._is_folder.add(number)
        return number

    def _keep(self, path: Path) -> None:
        number = self._number(path)
        if path.is_dir():
            self._names[number] = {entry.name: self._number(entry) for entry in path.iterdir()}
        else:
            self._contents[number] = path.read_bytes()

    def durable(self) -> Durable:
        """Return what a power cut leaves now."""
        top = self._number(self.root)
        files: Durable = {}

        def walk(number: int, path: Path) -> None:
            for name, inner in self._names.get(number, {}).items():
                files[path / name] = None if inner in self._is_folder else self._contents.get(inner, b"")
                if inner in self._is_folder:
                    walk(inner, path / name)

        walk(top, Path())
        return files

    def cut(self) -> None:
        """Throw away everything that was not made durable."""
        self._rebuild({self.root / path: content for path, content in self.durable().items()})

    def tear(self, rng: random.Random) -> None:
        """Keep every name, and of each file what a disk may have got to by itself."""
        files: dict[Path, bytes | None] = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_dir():
                files[path] = None
            else:
                files[path] = _torn(self._contents.get(self._number(path), b""), path.read_bytes(), rng)
        self._rebuild(files)

    def _rebuild(self, files: dict[Path, bytes | None]) -> None:
        modes = {path: path.stat().st_mode & 0o777 for path in files if path.exists()}
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path, content in files.items():  # a folder stands before what is in it
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
        for path in files:
            path.chmod(modes.get(path, 0o700 if path.is_dir() else 0o600))
        self._take_all_as_durable()


def _torn(durable: bytes, now: bytes, rng: random.Random) -> bytes:
    if durable == now:
        return now
    begun = len(durable) if now.startswith(durable) else 0
    middle = begun + (len(now) - begun) // 2
    zeros = now[:begun] + bytes(len(now) - begun)
    return rng.choice((durable, now, now[:middle] + durable[middle:], zeros))
