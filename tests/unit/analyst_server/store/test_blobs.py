from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from analyst_server.store import Blobs, DirectoryBlobs, MemoryBlobs, only_server
from protocol.errors import InputError

KEY = "collaboration/uplinks/one"


class TestAnyStore:
    """What every store promises."""

    @pytest.fixture(params=["directory", "memory"])
    def blobs(self, request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
        return DirectoryBlobs(tmp_path / "blobs") if request.param == "directory" else MemoryBlobs()

    def test_a_blob_written_at_once_is_whole(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.exists(KEY)
        assert bytes(blobs.read(KEY)) == b"content"

    def test_a_blob_written_at_once_leaves_no_partial_one(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.partial_size(KEY) is None

    def test_the_memory_of_an_array_is_written_as_it_is(self, blobs: Blobs) -> None:
        array = np.arange(6, dtype="<f4").reshape(2, 3)
        blobs.write(KEY, array.reshape(-1).view(np.uint8).data)
        np.testing.assert_array_equal(np.frombuffer(blobs.read(KEY), "<f4").reshape(2, 3), array)

    def test_a_blob_is_replaced_as_a_whole(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"a long content")
        blobs.write(KEY, b"short")
        assert bytes(blobs.read(KEY)) == b"short"

    def test_what_an_interrupted_write_left_does_not_get_into_the_next(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"left over, and longer")
        blobs.write(KEY, b"content")
        assert bytes(blobs.read(KEY)) == b"content"

    @pytest.mark.parametrize("offset", [0, 1, 4095, 4096, 5000, 69_999, 70_000, 80_000])
    @pytest.mark.parametrize("length", [None, 0, 1, 5000, 100_000])
    def test_a_range_is_that_of_a_slice(self, blobs: Blobs, offset: int, length: int | None) -> None:
        content = np.random.default_rng(0).bytes(70_000)
        expected = content[offset:] if length is None else content[offset : offset + length]
        blobs.append(KEY, 0, content)
        assert blobs.read_partial(KEY, offset, length) == expected
        blobs.commit(KEY)
        assert blobs.read(KEY, offset, length) == expected
        if length is not None:
            assert blobs.read_copy(KEY, offset, length) == expected

    def test_what_is_read_cannot_be_written_to(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        assert blobs.read(KEY, 2, 3).readonly

    @pytest.mark.parametrize("act", ["replace", "erase"])
    def test_what_was_read_stays_readable(self, blobs: Blobs, act: str) -> None:
        blobs.write(KEY, b"old" * 10_000)
        found = blobs.read(KEY)
        if act == "replace":
            blobs.write(KEY, b"new content")
        else:
            blobs.erase("collaboration")
        assert found == b"old" * 10_000

    def test_an_empty_blob_exists(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"")
        assert blobs.exists(KEY)
        assert bytes(blobs.read(KEY)) == b""

    @pytest.mark.parametrize("has_partial", [False, True])
    def test_a_blob_that_is_not_there_is_an_error(self, blobs: Blobs, has_partial: bool) -> None:
        if has_partial:
            blobs.append(KEY, 0, b"content")
        assert not blobs.exists(KEY)
        with pytest.raises(FileNotFoundError):
            blobs.read(KEY)

    def test_a_partial_blob_that_is_not_there_is_an_error(self, blobs: Blobs) -> None:
        for act in (blobs.read_partial, blobs.commit):
            with pytest.raises(FileNotFoundError):
                act(KEY)

    def test_a_blob_does_not_exist_before_its_commit(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"content")
        assert not blobs.exists(KEY)
        assert blobs.partial_size(KEY) == 7

    def test_pieces_are_appended_one_after_another(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"one")
        blobs.append(KEY, 3, b"two")
        assert blobs.read_partial(KEY) == b"onetwo"

    @pytest.mark.parametrize("offset", [0, 2, 5])
    def test_what_lies_behind_the_offset_is_cut_off(self, blobs: Blobs, offset: int) -> None:
        blobs.append(KEY, 0, b"abcdefgh")
        blobs.append(KEY, offset, b"X")
        assert blobs.read_partial(KEY) == b"abcdefgh"[:offset] + b"X"

    def test_a_partial_blob_that_is_too_short_is_not_filled_with_zeros(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"abc")
        with pytest.raises(OSError, match="is shorter than the 5 bytes"):
            blobs.append(KEY, 5, b"de")
        assert blobs.read_partial(KEY) == b"abc"

    def test_nothing_is_appended_to_a_partial_blob_that_is_gone(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"abc")
        blobs.discard(KEY)
        with pytest.raises(FileNotFoundError):
            blobs.append(KEY, 3, b"de")
        assert blobs.partial_size(KEY) is None

    def test_a_committed_blob_has_every_byte_that_was_appended(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"con")
        blobs.append(KEY, 3, b"tent")
        blobs.sync(KEY)
        blobs.commit(KEY)
        assert bytes(blobs.read(KEY)) == b"content"
        assert blobs.partial_size(KEY) is None

    def test_syncing_nothing_is_fine(self, blobs: Blobs) -> None:
        blobs.sync(KEY)
        assert blobs.partial_size(KEY) is None

    def test_a_discarded_partial_blob_is_gone(self, blobs: Blobs) -> None:
        blobs.append(KEY, 0, b"content")
        blobs.discard(KEY)
        assert blobs.partial_size(KEY) is None

    def test_discarding_nothing_is_fine(self, blobs: Blobs) -> None:
        blobs.discard(KEY)
        assert blobs.partial_size(KEY) is None

    def test_a_discarded_partial_blob_does_not_take_the_whole_one_with_it(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        blobs.append(KEY, 0, b"newer")
        blobs.discard(KEY)
        assert bytes(blobs.read(KEY)) == b"content"

    def test_a_folder_is_erased_with_what_is_half_there_and_no_other(self, blobs: Blobs) -> None:
        blobs.write(KEY, b"content")
        blobs.append(KEY, 0, b"half")
        blobs.append("collaboration/results/two", 0, b"half")
        blobs.write("collaboration-2/uplinks/one", b"content")
        blobs.erase("collaboration")
        assert not blobs.exists(KEY)
        assert blobs.partial_size(KEY) is blobs.partial_size("collaboration/results/two") is None
        assert blobs.exists("collaboration-2/uplinks/one")
        blobs.erase("collaboration")  # again is fine


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
