from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import UnreadableFileError
from runtime.files import (
    erase,
    hold,
    is_let_go,
    locked,
    make_directory,
    one_at_a_time,
    read_bytes,
    read_text,
    take_lock,
    write_whole,
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"content")
    assert read_bytes(tmp_path / "file") == b"content"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_a_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "deep" / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_whole(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    killed = """
import os, signal, sys
from pathlib import Path
from runtime.files import write_whole
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]) / "file", b"half")
"""
    subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".part")
    write_whole(tmp_path / "other file", b"content")
    assert left.exists()
    write_whole(tmp_path / "file", b"content")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other file"]


def test_what_a_live_writer_writes_stays(tmp_path: Path) -> None:
    live = """
import os, sys
from pathlib import Path
from runtime import files
def publish(temporary, path):
    print("written", flush=True)
    sys.stdin.read()
    temporary.replace(path)
files.publish = publish
files.write_whole(Path(sys.argv[1]) / "file", b"slow")
"""
    command = [sys.executable, "-c", live, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        write_whole(tmp_path / "file", b"quick")
        assert read_bytes(tmp_path / "file") == b"quick"
        writer.communicate()
    assert writer.returncode == 0
    assert read_bytes(tmp_path / "file") == b"slow"


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []


def test_threads_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_whole(tmp_path / "file", content), contents * 10))
    assert read_bytes(tmp_path / "file") in contents


def test_what_a_writer_published_meanwhile_is_not_taken_for_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the eraser opened it, and before it has the lock, it is published and a new file begun."""
    begun = tmp_path / f".file.{os.getpid() + 1}.part"
    begun.write_bytes(b"first")
    open_file = os.open

    def publish_in_between(path: str, flags: int, *rest: int) -> int:
        descriptor = open_file(path, flags, *rest)
        if str(path) == str(begun) and begun.read_bytes() == b"first":
            begun.replace(tmp_path / "file")
            begun.write_bytes(b"second")
        return descriptor

    monkeypatch.setattr("os.open", publish_in_between)
    write_whole(tmp_path / "file", b"third")
    assert begun.read_bytes() == b"second"


def test_a_reader_of_a_replaced_file_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    with path.open("rb") as reader:
        write_whole(path, b"new content")
        assert reader.read() == b"old"


def test_a_write_that_is_cut_off_leaves_the_old_content(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def cut_off(*_: object) -> None:
        raise OSError("power cut")

    monkeypatch.setattr("os.fsync", cut_off)
    with pytest.raises(OSError, match="power cut"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_content_reaches_the_disk_before_its_name(tmp_path: Path, monkeypatch: Any) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda _descriptor: seen.append((tmp_path / "file").exists()))
    write_whole(tmp_path / "file", b"content")
    assert seen[0] is False


def test_a_directory_has_its_name_on_the_disk_before_anything_is_in_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    synced: list[tuple[int, int]] = []

    def note(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, len(list((tmp_path / "a").rglob("*")))))

    monkeypatch.setattr("os.fsync", note)
    make_directory(tmp_path / "a" / "b" / "c")
    assert synced == [
        (tmp_path.stat().st_ino, 0),
        ((tmp_path / "a").stat().st_ino, 1),
        ((tmp_path / "a" / "b").stat().st_ino, 2),
    ]
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 3


@pytest.mark.parametrize("reads", [read_bytes, read_text])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, reads: Any) -> None:
    with pytest.raises(UnreadableFileError, match="No such file"):
        reads(tmp_path / "nothing")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="directory"):
        read_bytes(tmp_path)


def test_bytes_are_no_text(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"\xff\xfe")
    with pytest.raises(UnreadableFileError, match="not a text file"):
        read_text(tmp_path / "file")


def test_two_processes_cannot_work_in_one_directory(tmp_path: Path) -> None:
    holds = (
        "import sys, pathlib; from runtime.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError, match="another process works in"), locked(tmp_path):
            pass
        other.kill()
    with locked(tmp_path):  # the lock of a process that was killed is gone
        pass


def test_a_second_user_of_a_file_waits_for_the_first(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:

        def enter() -> None:
            with one_at_a_time(tmp_path / ".lock"):
                pass

        with one_at_a_time(tmp_path / ".lock"):
            second = thread.submit(enter)
            with pytest.raises(TimeoutError):
                second.result(0.2)
        second.result(30)


def test_a_lock_that_is_held_is_not_let_go(tmp_path: Path) -> None:
    descriptor = take_lock(tmp_path / "lock")
    assert not is_let_go(tmp_path / "lock")
    os.close(descriptor)
    assert is_let_go(tmp_path / "lock")


class TestWithoutLocks:
    """A network file system that has no locks is used without them, by all alike."""

    @pytest.fixture(autouse=True)
    def _no_locks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)

    def test_a_directory_is_used(self, tmp_path: Path) -> None:
        with locked(tmp_path):
            pass

    def test_nobody_waits(self, tmp_path: Path) -> None:
        with one_at_a_time(tmp_path / ".lock"), one_at_a_time(tmp_path / ".lock"):
            pass

    def test_a_file_is_written_and_held(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "file", b"content")
        with (tmp_path / "file").open("rb") as file:
            hold(file.fileno(), tmp_path / "file", 0)

    def test_it_is_not_known_whether_anybody_has_a_lock(self, tmp_path: Path) -> None:
        os.close(take_lock(tmp_path / "lock"))
        assert not is_let_go(tmp_path / "lock")

    def test_what_may_still_be_written_stays(self, tmp_path: Path) -> None:
        begun = tmp_path / ".file.1.part"
        begun.write_bytes(b"half")
        write_whole(tmp_path / "file", b"content")
        assert begun.read_bytes() == b"half"


def test_an_erased_file_is_overwritten_before_it_is_unlinked(tmp_path: Path) -> None:
    path, other_name = tmp_path / "secret", tmp_path / "other name"
    path.write_bytes(b"x" * (2**20 + 5))
    other_name.hardlink_to(path)  # what a snapshot of the directory would still show
    assert erase(path) == 2**20 + 5
    assert not path.exists()
    assert other_name.read_bytes() == bytes(2**20 + 5)


def test_erasing_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    assert erase(tmp_path / "nothing") == 0
