"""Blobs: large bytes under a key, read in ranges and written whole or not at all.

An upload grows as a *partial* blob under the key that the whole one will have, and is committed once it is
complete. `Blobs` is what the services and the compute processes know; `DirectoryBlobs` keeps files,
`MemoryBlobs` keeps nothing on a disk.

A key is a path of names with ``/`` between them. The names before the last are its folders, and a folder is
what `Blobs.erase` removes.
"""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from protocol.errors import InputError, StorageBusyError
from runtime.files import hold, locked, make_directory, publish, sync_directory, sync_file, write_at

RETRY_AFTER_S: Final = 5
"""When whoever finds a store busy is asked to come again."""
ERASE_ATTEMPTS: Final = 3
"""An upload that is still under way may add a file while its folder is removed."""


class Blobs(ABC):
    """A store of blobs; whoever reads or commits one that is not there gets a `FileNotFoundError`.

    A store is pickled to reach the compute processes, so it holds an address and no connection.
    """

    holds_back_bytes: int = 0
    """How much of an append may wait in the memory of this store for the next `sync`: who appends for long
    has to sync so often. 0: what was appended survives the death of this process."""
    reads_copies: bool = False
    """Whether what is read is a copy of its own, so that a digest of it holds for as long as it is used."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, for an operator."""

    @property
    def ports(self) -> tuple[int, ...]:
        """The TCP ports that a process connects to which reads or writes here."""
        return ()

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Return whether the whole blob is there."""

    @abstractmethod
    def whole_keys(self) -> list[str]:
        """Return the keys of all whole blobs, in order."""

    @abstractmethod
    def read(self, key: str, offset: int = 0, length: int | None = None) -> memoryview:
        """Return a range of a whole blob, to its end if no length is given; read-only.

        Like a slice, the range ends where the blob ends. What was returned stays readable after the blob
        is replaced or erased. Nothing is copied where the store can avoid it.
        """

    @abstractmethod
    def read_copy(self, key: str, offset: int, length: int) -> bytes:
        """Return a range as `read` does, as a copy: a disk that fails raises `OSError` here.

        Under a view of its pages it would end the process.
        """

    @abstractmethod
    def append(self, key: str, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write to the partial blob from ``offset`` on, and cut off what lay behind.

        An append at 0 makes the partial blob. It is not durable before `sync`. Raises `FileNotFoundError` if
        there is none to append to, and `OSError` if it is shorter than ``offset``.
        """

    @abstractmethod
    def partial_size(self, key: str) -> int | None:
        """Return how many bytes the partial blob has, None if there is none."""

    @abstractmethod
    def partial_keys(self, folder: str) -> set[str]:
        """Return the keys of the partial blobs in a folder, by looking once."""

    @abstractmethod
    def read_partial(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a range of the partial blob, as `read` does of the whole one; a copy."""

    @abstractmethod
    def sync(self, key: str) -> None:
        """Make the partial blob durable, so that it survives a power cut; do nothing if there is none."""

    @abstractmethod
    def commit(self, key: str, whole: str | None = None) -> None:
        """Make the partial blob the whole one of its own key, or of ``whole``; an earlier one is replaced."""

    @abstractmethod
    def hand_over(self, key: str, new_key: str) -> None:
        """Give a partial blob another key, durably; do nothing if there is none.

        Once this returns, no append that was told the old key adds to it or cuts it, not even one that had
        begun. Raises `StorageBusyError` if such an append does not end.
        """

    def let_go(self, key: str) -> None:  # noqa: B027  # a store that holds nothing back has nothing to forget
        """Forget what is held back of a partial blob that others go on with."""

    @abstractmethod
    def discard(self, key: str) -> None:
        """Remove the partial blob, if there is one."""

    def abandon(self, key: str) -> None:
        """Remove the partial blob under this key; what another process has taken over of it stays whole.

        What is left of it that nobody sees goes by `tidy`.
        """
        self.discard(key)

    @abstractmethod
    def tidy(self, key: str, keep: str) -> None:
        """Remove whatever was left of partial blobs whose keys begin with ``KEY.``, but for one.

        The whole blob ``KEY`` stays.
        """

    @abstractmethod
    def erase(self, folder: str) -> None:
        """Remove every blob whose key begins with ``folder/``, whole or partial."""

    def ping(self) -> None:  # noqa: B027  # a store that needs no disk always works
        """Raise `OSError` if nothing can be written now."""

    @abstractmethod
    def stored_bytes(self) -> int:
        """Return how many bytes all blobs have, whole and partial; it looks at each of them."""

    def free_bytes(self) -> int | None:
        """Return how many bytes more there is space for, None if nothing limits them."""
        return None

    def write(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Write a whole blob at once, durably. Of several who write the same one, each has a partial blob."""
        own = f"{key}.{secrets.token_hex(4)}"
        self.append(own, 0, data)
        self.sync(own)
        self.commit(own, key)


_PING: Final = ".ping"
HAND_OVER_S: Final = 5.0
"""How long an append that had begun is waited for; it writes one chunk."""


class DirectoryBlobs(Blobs):
    """The default store: one file for each key below ``root``, readable by the server's user alone.

    A partial blob is a file beside the final one, with ``.part`` at the end of its name. It is synced and
    renamed, so a name without ``.part`` always has all its bytes on the disk.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"<DirectoryBlobs in {self.place}>"

    @property
    def place(self) -> str:
        return str(self._root)

    def ping(self) -> None:
        key = f"{_PING}-{secrets.token_hex(4)}"  # another process may look at the same time
        try:
            self.append(key, 0, b"ping")
            self.sync(key)
            self.commit(key)
        finally:
            self.discard(key)
            self._whole(key).unlink(missing_ok=True)

    def stored_bytes(self) -> int:
        total = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                with suppress(FileNotFoundError):  # erased or renamed meanwhile
                    total += Path(folder, name).stat().st_size
        return total

    def free_bytes(self) -> int:
        make_directory(self._root)
        return shutil.disk_usage(self._root).free

    def _whole(self, key: str) -> Path:
        return self._root / key

    def _partial(self, key: str) -> Path:
        return self._root / (key + ".part")

    def exists(self, key: str) -> bool:
        return self._whole(key).exists()

    def whole_keys(self) -> list[str]:
        # folders that are erased meanwhile are passed over by `os.walk`
        files = (Path(folder, name) for folder, _, names in os.walk(self._root) for name in names)
        keys = (file.relative_to(self._root).as_posix() for file in files)
        return sorted(key for key in keys if not key.startswith(_PING) and not key.endswith(".part"))

    def read(self, key: str, offset: int = 0, length: int | None = None) -> memoryview:
        """Return a view of the file's pages, which the system loads when they are touched."""
        with self._whole(key).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            end = size if length is None else min(size, offset + length)
            if end <= offset:  # an empty range cannot be mapped
                return memoryview(b"")
            start = offset - offset % mmap.ALLOCATIONGRANULARITY
            pages = mmap.mmap(file.fileno(), end - start, access=mmap.ACCESS_READ, offset=start)
        return memoryview(pages)[offset - start :]

    def read_copy(self, key: str, offset: int, length: int) -> bytes:
        with self._whole(key).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def append(self, key: str, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._append(key, offset, data, name_is_durable=True)

    def write(self, key: str, data: bytes | bytearray | memoryview) -> None:
        own = f"{key}.{secrets.token_hex(4)}"
        self._append(own, 0, data, name_is_durable=False)  # nobody goes on with it: the commit will do
        self.sync(own)
        self.commit(own, key)

    def _append(
        self, key: str, offset: int, data: bytes | bytearray | memoryview, *, name_is_durable: bool
    ) -> None:
        path = self._partial(key)
        descriptor = self._created(path, name_is_durable) if offset == 0 else os.open(path, os.O_RDWR)
        try:  # bare calls: each call gives way to the thread that reads from all lines
            hold(descriptor, path, HAND_OVER_S)
            size = os.fstat(descriptor).st_size
            if size < offset:
                raise too_short(key, offset)
            if size > offset:
                os.ftruncate(descriptor, offset)
            write_at(descriptor, offset, data)
        finally:
            os.close(descriptor)

    @staticmethod
    def _created(path: Path, name_is_durable: bool) -> int:
        """Open a file that may be there already; make the name of a new one durable, as `sync` relies on."""
        is_new = not path.exists()
        if is_new:
            make_directory(path.parent)  # it may be the first of its folder
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if is_new and name_is_durable:
                sync_directory(path.parent)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)  # else the next try would find it, and take its name for durable
            raise
        return descriptor

    def partial_size(self, key: str) -> int | None:
        try:
            return self._partial(key).stat().st_size
        except FileNotFoundError:
            return None

    def partial_keys(self, folder: str) -> set[str]:
        names = (path.stem for path in (self._root / folder).glob("*.part"))
        return {f"{folder}/{name}" for name in names}

    def read_partial(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        # read, not mapped: the pages of a file that is cut off meanwhile would end the process
        with self._partial(key).open("rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def sync(self, key: str) -> None:
        with suppress(FileNotFoundError):
            sync_file(self._partial(key))

    def commit(self, key: str, whole: str | None = None) -> None:
        publish(self._partial(key), self._whole(whole or key))

    def hand_over(self, key: str, new_key: str) -> None:
        path = self._partial(new_key)
        try:
            publish(self._partial(key), path)
        except FileNotFoundError:
            return
        descriptor = os.open(path, os.O_RDWR)
        try:  # whoever had opened it under its old name has locked it, or finds that it has no such name
            hold(descriptor, path, HAND_OVER_S)
        except BlockingIOError:
            raise StorageBusyError(
                "another process of the analyst still writes to this upload", retry_after_s=RETRY_AFTER_S
            ) from None
        finally:
            os.close(descriptor)

    def discard(self, key: str) -> None:
        self._partial(key).unlink(missing_ok=True)

    def tidy(self, key: str, keep: str) -> None:
        path = self._whole(key)
        for left in path.parent.glob(f"{path.name}.*.part"):
            if left != self._partial(keep):
                left.unlink(missing_ok=True)

    def erase(self, folder: str) -> None:
        path = self._root / folder
        for _ in range(ERASE_ATTEMPTS):
            shutil.rmtree(path, ignore_errors=True)
            if not path.exists():
                return
        shutil.rmtree(path)  # raises with the reason


class MemoryBlobs(Blobs):
    """Blobs of one process, for tests and for rounds that nobody has to resume."""

    def __init__(self) -> None:
        self._whole: dict[str, bytes] = {}
        self._partial: dict[str, bytearray] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<MemoryBlobs: {len(self._whole)} whole, {len(self._partial)} partial>"

    @property
    def place(self) -> str:
        return "memory"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "blobs in memory are of one process: compute in a thread, or keep them in a directory"
        )

    def exists(self, key: str) -> bool:
        return key in self._whole

    def whole_keys(self) -> list[str]:
        with self._lock:
            return sorted(self._whole)

    def stored_bytes(self) -> int:
        with self._lock:
            return sum(map(len, self._whole.values())) + sum(map(len, self._partial.values()))

    def read(self, key: str, offset: int = 0, length: int | None = None) -> memoryview:
        whole = self._whole.get(key)
        if whole is None:
            raise FileNotFoundError(key)
        return memoryview(whole)[offset : None if length is None else offset + length]

    def read_copy(self, key: str, offset: int, length: int) -> bytes:
        return bytes(self.read(key, offset, length))

    def append(self, key: str, offset: int, data: bytes | bytearray | memoryview) -> None:
        with self._lock:
            if offset and key not in self._partial:
                raise FileNotFoundError(key)
            partial = self._partial.setdefault(key, bytearray())
            if len(partial) < offset:
                raise too_short(key, offset)
            partial[offset:] = data

    def partial_size(self, key: str) -> int | None:
        partial = self._partial.get(key)
        return None if partial is None else len(partial)

    def partial_keys(self, folder: str) -> set[str]:
        with self._lock:
            return {key for key in self._partial if key.rpartition("/")[0] == folder}

    def read_partial(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._lock:
            if key not in self._partial:
                raise FileNotFoundError(key)
            return bytes(self._partial[key][offset : None if length is None else offset + length])

    def sync(self, key: str) -> None:
        """Do nothing: there is no disk to reach."""

    def commit(self, key: str, whole: str | None = None) -> None:
        with self._lock:
            if key not in self._partial:
                raise FileNotFoundError(key)
            self._whole[whole or key] = bytes(self._partial.pop(key))

    def hand_over(self, key: str, new_key: str) -> None:
        with self._lock:
            if key in self._partial:
                self._partial[new_key] = self._partial.pop(key)

    def discard(self, key: str) -> None:
        self._partial.pop(key, None)

    def tidy(self, key: str, keep: str) -> None:
        with self._lock:
            for left in [left for left in self._partial if left.startswith(f"{key}.") and left != keep]:
                del self._partial[left]

    def erase(self, folder: str) -> None:
        with self._lock:
            for kept in (self._whole, self._partial):
                for key in [key for key in kept if key.startswith(f"{folder}/")]:
                    del kept[key]


def too_short(key: str, offset: int) -> OSError:
    """Return the error of an append behind the end of a partial blob."""
    return OSError(f"the partial blob {key} is shorter than the {offset} bytes it should have")


@contextmanager
def only_server(data_dir: Path) -> Iterator[None]:
    """Hold a data directory; raises `InputError` while another process does.

    A second server would keep its own idea of the partial blobs under way. The system releases the lock
    when its process ends, however it ends.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(data_dir))
        except BlockingIOError:
            raise InputError(f"another server works in {data_dir}; stop it first") from None
        yield
