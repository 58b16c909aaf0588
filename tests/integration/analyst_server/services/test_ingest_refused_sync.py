"""A disk that refuses to make bytes durable may have dropped them: the upload is received again from zero."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.blobs import DirectoryBlobs
from analyst_server.services.stored import blob_key
from protocol.arrays import raw_bytes
from protocol.errors import OffsetMismatchError, UploadSupersededError
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, stored, whole_file
from tests.harness.world import HOSPITAL, World, identity


class RefusingBlobs(DirectoryBlobs):
    """Refuses a step once, as a disk with a bad sector does, and loses what it had not written yet.

    After the error the system takes the lost pages for clean, so that the next fsync of the file succeeds.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root
        self.refused: dict[str, str] = {}
        """By step, the end of the key that it is refused for."""

    def sync(self, key: str) -> None:
        self._refuse("sync", key, self.root / f"{key}.part")
        super().sync(key)

    def commit(self, key: str, whole: str | None = None) -> None:
        super().commit(key, whole)
        self._refuse("commit", key, self.root / (whole or key))

    def _refuse(self, step: str, key: str, path: Path) -> None:
        if key.endswith(self.refused.get(step, "no key")):
            del self.refused[step]
            path.write_bytes(bytes(path.stat().st_size))
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def refusing(tmp_path: Path) -> RefusingBlobs:
    return RefusingBlobs(tmp_path / "blobs")


@pytest.fixture
def world(tmp_path: Path, refusing: RefusingBlobs) -> Iterator[World]:
    world = World(tmp_path, blobs=refusing).until_anchored()
    yield world
    world.records.dispose()


@pytest.mark.parametrize("file", ["", ".digests"])
def test_after_a_refused_sync_the_upload_stands_at_zero(
    world: World, refusing: RefusingBlobs, file: str
) -> None:
    uplink = hospital(world, rows=MANY_ROWS)
    upload_id = world.begin(uplink).upload_id
    half = world.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    refusing.refused["sync"] = blob_key(stored(world, upload_id)) + file
    with pytest.raises(OffsetMismatchError) as caught:
        world.append(uplink, upload_id, half)
    assert caught.value.expected == 0
    assert world.ingest.status(identity(HOSPITAL), upload_id).offset == 0
    assert not list(refusing.root.rglob("*.part"))


@pytest.mark.parametrize("step", ["sync", "commit"])
def test_what_a_receipt_is_signed_for_is_what_was_signed(
    world: World, refusing: RefusingBlobs, step: str
) -> None:
    uplink = hospital(world, rows=MANY_ROWS)
    upload_id = world.begin(uplink).upload_id
    refusing.refused[step] = blob_key(stored(world, upload_id))
    with pytest.raises(OffsetMismatchError):
        world.send(uplink)
    assert stored(world, upload_id).receipt is None
    world.append(uplink, upload_id, world.begin(uplink).offset)
    assert world.complete(uplink, upload_id)
    assert whole_file(world, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_connection_that_had_begun_before_is_cut_off(world: World, refusing: RefusingBlobs) -> None:
    uplink = hospital(world, rows=MANY_ROWS)
    upload_id = world.begin(uplink).upload_id
    append = world.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert append is not None
    append.write(uplink.stream[: offset_after(uplink, 1)])
    refusing.refused["sync"] = blob_key(stored(world, upload_id))
    with pytest.raises(OffsetMismatchError):
        append.close()
    with pytest.raises(UploadSupersededError):
        append.write(uplink.stream[offset_after(uplink, 1) :])
