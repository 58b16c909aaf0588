from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from analyst_server.store import DirectoryBlobs, only_server
from protocol.errors import InputError

KEY = "collaboration/uplinks/one"


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "blobs")


def append(blobs: DirectoryBlobs, offset: int, data: bytes) -> None:
    with blobs.append_partial(KEY, offset) as file:
        file.write(data)


def part(blobs: DirectoryBlobs) -> bytes:
    return blobs.partial_path(KEY).read_bytes()


def test_a_blob_written_at_once_is_whole(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"content")
    assert blobs.path(KEY).read_bytes() == b"content"


def test_a_blob_written_at_once_leaves_no_partial_file(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"content")
    assert not blobs.has_partial(KEY)


def test_a_blob_is_replaced_as_a_whole(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"a long content")
    blobs.write(KEY, b"short")
    assert blobs.path(KEY).read_bytes() == b"short"


def test_what_an_interrupted_write_left_does_not_get_into_the_next(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"left over, and longer")
    blobs.write(KEY, b"content")
    assert blobs.path(KEY).read_bytes() == b"content"


def test_a_reader_of_a_replaced_blob_keeps_the_old_content(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"old")
    with blobs.path(KEY).open("rb") as reader:
        blobs.write(KEY, b"new content")
        assert reader.read() == b"old"


def test_an_empty_blob_exists(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"")
    assert blobs.exists(KEY)


def test_a_blob_does_not_exist_before_its_commit(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"content")
    assert not blobs.exists(KEY)
    assert blobs.has_partial(KEY)


def test_pieces_are_appended_one_after_another(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"one")
    append(blobs, 3, b"two")
    assert part(blobs) == b"onetwo"


@pytest.mark.parametrize("offset", [0, 2, 5])
def test_what_lies_behind_the_offset_is_cut_off(blobs: DirectoryBlobs, offset: int) -> None:
    append(blobs, 0, b"abcdefgh")
    append(blobs, offset, b"X")
    assert part(blobs) == b"abcdefgh"[:offset] + b"X"


def test_a_committed_blob_has_every_byte_that_was_appended(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"content")
    blobs.sync_partial(KEY)
    blobs.commit(KEY)
    assert blobs.path(KEY).read_bytes() == b"content"
    assert not blobs.has_partial(KEY)


def test_syncing_reaches_the_disk(blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    append(blobs, 0, b"content")
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    blobs.sync_partial(KEY)
    assert synced == [blobs.partial_path(KEY).stat().st_ino]


def test_a_commit_syncs_the_directory_behind_the_name(
    blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    append(blobs, 0, b"content")
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    blobs.commit(KEY)
    assert synced == [blobs.path(KEY).parent.stat().st_ino]


def test_syncing_nothing_is_fine(blobs: DirectoryBlobs) -> None:
    blobs.sync_partial(KEY)
    assert not blobs.has_partial(KEY)


def test_a_discarded_partial_blob_is_gone(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"content")
    blobs.discard_partial(KEY)
    assert not blobs.has_partial(KEY)


def test_discarding_nothing_is_fine(blobs: DirectoryBlobs) -> None:
    blobs.discard_partial(KEY)
    assert not blobs.has_partial(KEY)


def test_a_discarded_partial_blob_does_not_take_the_whole_one_with_it(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"content")
    append(blobs, 0, b"newer")
    blobs.discard_partial(KEY)
    assert blobs.path(KEY).read_bytes() == b"content"


def test_only_the_owner_can_read_a_blob(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"content")
    assert stat.S_IMODE(blobs.path(KEY).stat().st_mode) == 0o600


def test_the_store_says_where_it_is(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    assert repr(blobs) == f"<DirectoryBlobs in {tmp_path / 'blobs'}>"


def test_a_blob_that_is_shorter_than_it_should_be_is_not_filled_with_zeros(blobs: DirectoryBlobs) -> None:
    append(blobs, 0, b"abc")
    with pytest.raises(OSError, match="is shorter than the 5 bytes"):
        append(blobs, 5, b"de")
    assert part(blobs) == b"abc"


def test_a_second_server_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    with (
        only_server(tmp_path),
        pytest.raises(InputError, match="another server works in"),
        only_server(tmp_path),
    ):
        pass
    with only_server(tmp_path):
        pass


def test_a_folder_is_erased_with_what_is_half_there_and_no_other(blobs: DirectoryBlobs) -> None:
    blobs.write(KEY, b"content")
    append(blobs, 0, b"half")
    blobs.write("other/uplinks/one", b"content")
    blobs.erase("collaboration")
    assert not blobs.path("collaboration").exists()
    assert blobs.exists("other/uplinks/one")
    blobs.erase("collaboration")  # again is fine


def test_what_is_put_there_meanwhile_is_erased_too(
    blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs.write(KEY, b"content")
    plain = shutil.rmtree
    calls: list[Path] = []

    def and_a_late_one(path: Path, *, ignore_errors: bool = False) -> None:
        plain(path, ignore_errors=ignore_errors)
        calls.append(path)
        if len(calls) == 1:
            append(blobs, 0, b"late")

    monkeypatch.setattr("shutil.rmtree", and_a_late_one)
    blobs.erase("collaboration")
    assert not blobs.path("collaboration").exists()
    assert len(calls) == 2


def test_what_cannot_be_erased_is_no_success(blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.write(KEY, b"content")

    def refuse(path: Path, *, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(path)

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(PermissionError):
        blobs.erase("collaboration")
