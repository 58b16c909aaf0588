"""An array with a digest is what was signed, or it is not opened."""

from __future__ import annotations

import errno
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from analyst_server.blobs import DamagedBlobError, DirectoryBlobs, MemoryBlobs, StoredArray, store_arrays
from protocol.arrays import raw_bytes, specify

KEY = "collaboration/uplinks/one"
BEFORE = b"what lies before it"
ARRAY = np.arange(5000, dtype="<f4").reshape(1000, 5)
CHUNK_BYTES = 4096
STORED = StoredArray.of(specify("rep", ARRAY, "f4", CHUNK_BYTES), KEY, len(BEFORE), CHUNK_BYTES)


def written(blobs: DirectoryBlobs | MemoryBlobs, data: bytes) -> None:
    blobs.write(KEY, BEFORE + data + b"what lies behind it")


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    found = DirectoryBlobs(tmp_path)
    written(found, bytes(raw_bytes(ARRAY)))
    return found


def test_what_was_signed_is_opened(blobs: DirectoryBlobs) -> None:
    np.testing.assert_array_equal(STORED.open(blobs), ARRAY)
    assert STORED.size_bytes == ARRAY.nbytes


@pytest.mark.parametrize("place", [0, 4095, 4096, 19_999])
def test_a_bit_that_was_changed_anywhere_is_found(blobs: DirectoryBlobs, place: int) -> None:
    data = bytearray(raw_bytes(ARRAY))
    data[place] ^= 1
    written(blobs, bytes(data))
    with pytest.raises(DamagedBlobError) as caught:
        STORED.open(blobs)
    assert caught.value.key == KEY


@pytest.mark.parametrize("size", [0, 10, len(BEFORE), 5000, len(BEFORE) + ARRAY.nbytes - 1])
def test_a_file_that_was_cut_is_damaged(blobs: DirectoryBlobs, tmp_path: Path, size: int) -> None:
    with (tmp_path / KEY).open("r+b") as file:
        file.truncate(size)
    with pytest.raises(DamagedBlobError):
        STORED.open(blobs)


def test_a_file_that_is_gone_is_damaged(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    (tmp_path / KEY).unlink()
    assert not STORED.is_intact(blobs)


@pytest.mark.parametrize(("reason", "is_damage"), [(errno.EIO, True), (errno.EMFILE, False)])
def test_a_disk_that_cannot_be_read_is_damage_and_a_busy_machine_is_not(
    blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch, reason: int, is_damage: bool
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(reason, "refused")

    monkeypatch.setattr(blobs, "read_copy", refuse)
    with pytest.raises(DamagedBlobError if is_damage else OSError):
        STORED.open(blobs)


def test_an_array_without_rows_needs_no_blob() -> None:
    nothing = np.empty((0, 5), "<f4")
    stored = StoredArray.of(specify("rep", nothing, "f4", CHUNK_BYTES), KEY, 0, CHUNK_BYTES)
    assert stored.open(MemoryBlobs()).shape == (0, 5)
    assert stored.is_intact(MemoryBlobs())


def test_an_array_that_no_manifest_lists_is_opened_as_it_is() -> None:
    blobs = MemoryBlobs()
    blobs.write(KEY, bytes(8))
    assert StoredArray(KEY, 0, "f4", (2,)).open(blobs).tolist() == [0, 0]


def test_one_that_was_stored_before_there_were_digests_is_read() -> None:
    earlier = {"key": KEY, "offset_bytes": 0, "dtype": "f4", "shape": [2]}
    assert StoredArray.from_json(earlier) == StoredArray(KEY, 0, "f4", (2,))
    assert StoredArray.from_json(asdict(STORED)) == STORED


def test_the_error_comes_back_whole_from_a_compute_process() -> None:
    assert pickle.loads(pickle.dumps(DamagedBlobError(KEY))).key == KEY  # noqa: S301  # our own bytes


def test_arrays_of_one_blob_are_opened_each_by_itself(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    given = [ARRAY, np.arange(3, dtype="u1"), np.empty((0, 4)), np.ones((2, 2), "f8")]
    stored = store_arrays(blobs, "folder/several", given)
    assert {one.key for one in stored} == {"folder/several"}
    for one, array in zip(stored, given, strict=True):
        np.testing.assert_array_equal(one.open(blobs), array)
    data = bytearray(blobs.read("folder/several"))
    data[-1] ^= 1
    blobs.write("folder/several", bytes(data))
    stored[0].open(blobs)
    with pytest.raises(DamagedBlobError):
        stored[3].open(blobs)
