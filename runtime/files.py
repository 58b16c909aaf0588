"""Files that survive a crash: written whole, synced, renamed; and locks between processes."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from protocol.errors import UnreadableFileError

WRITTEN_AT_ONCE_BYTES: Final = 2**18
"""A call that writes more is given memory in larger pieces by Linux, which can take six times as long."""
_STRETCH_BYTES = 2**22
_ERASED_AT_ONCE_BYTES = 2**20
_LOOK_AGAIN_S = 0.001
_ABANDONED_S = 3600
"""A file that nobody has written for so long is written by nobody, where locks cannot tell."""

if sys.platform == "win32":
    import errno
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:  # what it raises when another has it
            raise BlockingIOError from None

    def _wait_for_lock(descriptor: int) -> None:
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLOCK:  # that another had it for ten seconds
                    raise
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _wait_for_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False where the file system has no locks.

    Nobody is kept from anything there: whoever needs a lock goes on without one. Raises `BlockingIOError` if
    another descriptor has locked it.
    """
    try:
        _try_lock(descriptor)
    except BlockingIOError:
        raise
    except OSError:  # ENOTSUP or ENOLCK, of some network file systems
        return False
    return True


def write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file that only its owner can read; readers see the old content or the new.

    The parts are written one after another, never joined in memory. What a killed process has left of an
    earlier try is erased.
    """
    with writing_whole(path) as file:
        for part in parts:
            file.write(part)


@contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` at the end, as `write_whole` does."""
    make_directory(path.parent)
    erase_half_written(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with os.fdopen(_create_locked(temporary), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # still locked; there, an open file cannot be renamed
                publish(temporary, path)
        except BaseException:  # an interrupt too: where there are no locks, nobody else would remove it
            with suppress(OSError):
                temporary.unlink(missing_ok=True)  # a full disk needs the space
            raise
    if sys.platform == "win32":
        publish(temporary, path)


def _create_locked(path: Path) -> int:
    """Return the descriptor of a new empty file; its lock tells others that its writer lives."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            has_locks = _lock(descriptor)
        except BlockingIOError:  # another thread writes it, or somebody looks whether anybody does
            os.close(descriptor)
            time.sleep(_LOOK_AGAIN_S)
            continue
        if not has_locks or _is_at(descriptor, path):
            break
        os.close(descriptor)  # it was renamed or erased before we had the lock
    if os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, 0)
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def erase_half_written(path: Path) -> None:
    """Erase what processes that have ended left of a file; that of live ones is locked."""
    if sys.platform == "win32":
        return
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError):  # locked, or gone meanwhile; what cannot be erased now is erased another time
            descriptor = os.open(left, os.O_WRONLY)
            try:
                # without locks its writer may live; without its name it was published, and another may write
                if _lock(descriptor) and _is_at(descriptor, left):
                    erase(left)
            finally:
                os.close(descriptor)


def erase_abandoned(left: Path) -> bool:
    """Erase what is left of a file, where `erase_half_written` cannot tell whether its writer lives.

    That is a file system without locks. The writer lives if a process of this machine has its number, another
    than ours, and the file was written within the hour: then nothing happens, and the answer is False. A
    writer at another machine finds its file gone when it gives it its name, and fails.
    """
    if _may_be_written(left):
        return False
    taken = left.with_name(f"{left.name.rsplit('.', 2)[0]}.abandoned.part")
    with suppress(FileNotFoundError):
        left.replace(taken)  # it is overwritten only where nobody can give it its name
        erase(taken)
    return True


def _may_be_written(left: Path) -> bool:
    number = left.name.rsplit(".", 2)[1]
    try:
        is_old = time.time() - left.stat().st_mtime > _ABANDONED_S
    except FileNotFoundError:
        return False
    if is_old or not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def has_locks(directory: Path) -> bool:
    """Return whether the file system of a directory keeps those out that `locked` is to keep out."""
    descriptor = _open_lock(directory / ".lock")
    try:
        return _lock(descriptor)
    except BlockingIOError:  # somebody has it
        return True
    finally:
        os.close(descriptor)


def publish(temporary: Path, path: Path) -> None:
    """Give a file that is whole and synced its final name, durably."""
    temporary.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make what was written to a file durable."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_at(descriptor: int, offset: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of ``data`` to an open file, from an offset on.

    The disk begins with every stretch of the file that became whole, where the system can do that. Nobody
    waits for it, and a sync has less left to wait for.
    """
    left, end = memoryview(data), offset
    while len(left):
        written = os.pwrite(descriptor, left[:WRITTEN_AT_ONCE_BYTES], end)
        left, end = left[written:], end + written
    first, last = (place - place % _STRETCH_BYTES for place in (offset, end))
    if last > first and hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # whoever syncs the file is told of what the disk refuses
            # Linux then writes pages that are new, and keeps them: it gives up those that the disk has
            os.posix_fadvise(descriptor, first, last - first, os.POSIX_FADV_DONTNEED)


def erase(path: Path) -> int:
    """Overwrite a file once, unlink it and return its size; nothing happens to one that is not there.

    That is all a program can do: a solid-state disk, a journal, a snapshot or a backup may hold older copies.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return 0
    with os.fdopen(descriptor, "wb") as file:
        size = left = os.fstat(descriptor).st_size
        while left > 0:
            left -= file.write(bytes(min(left, _ERASED_AT_ONCE_BYTES)))
        file.flush()
        os.fsync(descriptor)
    path.unlink()
    sync_directory(path.parent)
    return size


def sync_directory(path: Path) -> None:
    """Make new and removed names in a directory durable."""
    if sys.platform != "win32":
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def make_directory(path: Path) -> None:
    """Make a directory that only its owner can read, and those above it, if they are not there.

    A file in it that is made durable stays so: after a power cut no directory on the way to it is missing.
    """
    missing: list[Path] = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
        sync_directory(one.parent)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Let one process at a time work in a directory; raises `BlockingIOError` in the second.

    The system releases the lock when its process ends, however it ends. Where the file system has no locks,
    nobody is kept out.
    """
    descriptor = take_lock(directory / ".lock")
    try:
        yield
    finally:
        os.close(descriptor)


def take_lock(path: Path) -> int:
    """Lock a file, which is created if it is missing, and return its descriptor: closing it unlocks.

    Raises `BlockingIOError` if another process, or another descriptor of this one, has locked it. Where the
    file system has no locks, the file is only opened.
    """
    descriptor = _open_lock(path)
    try:
        _lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise BlockingIOError(f"another process works in {path.parent}") from None
    return descriptor


def is_let_go(path: Path) -> bool:
    """Return whether a file is known to be locked by nobody; where there are no locks, that is not known."""
    descriptor = _open_lock(path)
    try:
        return _lock(descriptor)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def hold(descriptor: int, path: Path, wait_s: float) -> None:
    """Lock an open file until it is closed, and make sure that it still has its name.

    Raises `FileNotFoundError` if it was renamed or removed before we had the lock, and `BlockingIOError` if
    another one holds it for ``wait_s`` seconds. Where a file system has no locks, only the name is checked.
    """
    ends_at = time.monotonic() + wait_s
    while True:
        try:
            _lock(descriptor)
            break
        except BlockingIOError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(_LOOK_AGAIN_S)
    if not _is_at(descriptor, path):
        raise FileNotFoundError(path)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until nobody else holds the lock of a file, and hold it; for what takes a moment.

    Threads of one process wait for each other as well. Where the file system has no locks, nobody waits.
    """
    descriptor = _open_lock(path)
    try:
        with suppress(OSError):  # there are none
            _wait_for_lock(descriptor)
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
        error = UnreadableFileError(path, "not a text file in UTF-8")
        error.hint = "save it as UTF-8, or name another file"
        raise error from None
