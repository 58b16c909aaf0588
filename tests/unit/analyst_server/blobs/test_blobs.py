from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import pytest

from analyst_server.blobs import DirectoryBlobs, MemoryBlobs, only_server
from protocol.errors import InputError

KEY = "collaboration/uplinks/one"


class TestDirectory:
    """What a directory promises beside that: its files survive a power cut, and nobody else reads them."""

    @pytest.fixture
    def blobs(self, tmp_path: Path) -> DirectoryBlobs:
        return DirectoryBlobs(tmp_path / "blobs")

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "blobs" / KEY

    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        found: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: found.append(os.fstat(descriptor).st_ino))
        return found

    def test_a_partial_blob_lies_beside_the_whole_one(self, blobs: DirectoryBlobs, file: Path) -> None:
        blobs.append(KEY, 0, b"content")
        assert file.with_name("one.part").read_bytes() == b"content"
        blobs.commit(KEY)
        assert [path.name for path in file.parent.iterdir()] == ["one"]

    def test_syncing_reaches_the_disk(self, blobs: DirectoryBlobs, file: Path, synced: list[int]) -> None:
        blobs.append(KEY, 0, b"con")
        synced.clear()
        blobs.append(KEY, 3, b"tent")
        assert synced == []
        blobs.sync(KEY)
        assert synced == [file.with_name("one.part").stat().st_ino]

    def test_a_blob_written_at_once_is_durable_with_every_folder_on_the_way_to_it(
        self, blobs: DirectoryBlobs, tmp_path: Path, file: Path, synced: list[int]
    ) -> None:
        blobs.write(KEY, b"content")
        folders = [tmp_path, tmp_path / "blobs", tmp_path / "blobs" / "collaboration"]
        assert synced == [path.stat().st_ino for path in (*folders, file, file.parent)]

    def test_a_commit_syncs_the_directory_behind_the_name(
        self, blobs: DirectoryBlobs, file: Path, synced: list[int]
    ) -> None:
        blobs.append(KEY, 0, b"content")
        synced.clear()
        blobs.commit(KEY)
        assert synced == [file.parent.stat().st_ino]

    def test_only_the_owner_can_read_a_blob(self, blobs: DirectoryBlobs, file: Path) -> None:
        blobs.write(KEY, b"content")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_the_store_says_where_it_is(self, blobs: DirectoryBlobs, tmp_path: Path) -> None:
        assert repr(blobs) == f"<DirectoryBlobs in {tmp_path / 'blobs'}>"

    def test_another_process_opens_the_same_store(self, blobs: DirectoryBlobs) -> None:
        blobs.write(KEY, b"content")
        assert pickle.loads(pickle.dumps(blobs)).read(KEY) == b"content"  # noqa: S301  # our own

    def test_a_range_is_not_copied(self, blobs: DirectoryBlobs, file: Path) -> None:
        blobs.write(KEY, bytes(10_000))
        found = blobs.read(KEY, 5000)
        with file.open("r+b") as written:  # the pages are the file's
            written.seek(5000)
            written.write(b"seen")
        assert bytes(found[:4]) == b"seen"

    def test_an_erased_folder_is_gone(self, blobs: DirectoryBlobs, tmp_path: Path) -> None:
        blobs.write(KEY, b"content")
        blobs.erase("collaboration")
        assert not (tmp_path / "blobs" / "collaboration").exists()

    def test_what_is_put_there_meanwhile_is_erased_too(
        self, blobs: DirectoryBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blobs.write(KEY, b"content")
        plain = shutil.rmtree
        calls: list[Path] = []

        def and_a_late_one(path: Path, *, ignore_errors: bool = False) -> None:
            plain(path, ignore_errors=ignore_errors)
            calls.append(path)
            if len(calls) == 1:
                blobs.append(KEY, 0, b"late")

        monkeypatch.setattr("shutil.rmtree", and_a_late_one)
        blobs.erase("collaboration")
        assert not (tmp_path / "blobs" / "collaboration").exists()
        assert len(calls) == 2

    def test_what_cannot_be_erased_is_no_success(
        self, blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blobs.write(KEY, b"content")

        def refuse(path: Path, *, ignore_errors: bool = False) -> None:
            if not ignore_errors:
                raise PermissionError(path)

        monkeypatch.setattr("shutil.rmtree", refuse)
        with pytest.raises(PermissionError):
            blobs.erase("collaboration")


def test_blobs_in_memory_do_not_travel_to_another_process() -> None:
    with pytest.raises(TypeError, match="of one process"):
        pickle.dumps(MemoryBlobs())


def test_blobs_in_memory_say_how_many_there_are() -> None:
    blobs = MemoryBlobs()
    blobs.write(KEY, b"content")
    blobs.append(KEY, 0, b"newer")
    assert repr(blobs) == "<MemoryBlobs: 1 whole, 1 partial>"


def test_a_second_server_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    with (
        only_server(tmp_path),
        pytest.raises(InputError, match="another server works in"),
        only_server(tmp_path),
    ):
        pass
    with only_server(tmp_path):
        pass
