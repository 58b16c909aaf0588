"""An upload goes on after a break, a restart or a crash from what the disk holds."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from analyst_server.services.stored import blob_key
from analyst_server.services.upload_session import LISTED_TOGETHER, UploadSession
from protocol.arrays import raw_bytes
from protocol.envelope import verify
from protocol.errors import OffsetMismatchError
from protocol.limits import MIN_CHUNK_BYTES
from protocol.messages import Receipt
from tests.harness.certificates import NOW
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, part_file, stored, whole_file
from tests.harness.world import HOSPITAL, Uplink, World, identity, make_terms, make_uplink


def test_an_upload_goes_on_after_a_restart(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 3) + 5])
    ready.restart()
    assert ready.begin(uplink).offset == reached == offset_after(uplink, 3)
    ready.append(uplink, upload_id, reached)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_after_a_restart_it_goes_on_inside_a_chunk(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 3) + 5])
    ready.restart()
    assert ready.begin(uplink).begun == 5
    ready.append(uplink, upload_id, reached + 5)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_killed_server_loses_a_few_chunks_of_what_it_had_stored(ready: World) -> None:
    uplink = hospital(ready, rows=2 * MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    append = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert append is not None
    append.write(uplink.stream[: offset_after(uplink, LISTED_TOGETHER + 3)])  # and is never closed
    ready.restart()
    reached = ready.begin(uplink).offset
    assert reached == offset_after(uplink, LISTED_TOGETHER + 1)
    ready.append(uplink, upload_id, reached)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_chunk_damaged_on_the_disk_is_asked_for_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    with part_file(ready, upload_id).open("r+b") as file:
        file.seek(MIN_CHUNK_BYTES + 17)
        file.write(b"\xff\xff")
    ready.restart()
    assert ready.begin(uplink).offset == len(uplink.stream), "nothing is read before there is a need"
    with pytest.raises(OffsetMismatchError) as caught:
        ready.complete(uplink, upload_id)
    assert caught.value.expected == offset_after(uplink, 1) == ready.begin(uplink).offset
    ready.append(uplink, upload_id, offset_after(uplink, 1))
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_where_an_upload_goes_on_after_a_restart_costs_its_digests_alone(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id, data=uplink.stream[:-1])
    ready.restart()
    read = ready.analyst.blobs.read_partial

    def read_lists_alone(key: str, *place: int) -> bytes:
        assert key.endswith(".digests"), f"{key} was read"
        return read(key, *place)

    monkeypatch.setattr(ready.analyst.blobs, "read_partial", read_lists_alone)
    status = ready.begin(uplink)
    assert status.offset + status.begun == len(uplink.stream) - 1


def test_of_four_that_ask_at_once_after_a_restart_one_reads(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id, data=uplink.stream[:-1])
    ready.restart()
    askers, rebuilds = 4, list[UploadSession]()
    come_together, rebuild = threading.Barrier(askers), UploadSession.rebuild

    def slowly(*of: Any) -> UploadSession:
        rebuilds.append(rebuild(*of))
        with suppress(threading.BrokenBarrierError):
            come_together.wait(0.5)  # as long as it takes for the others to begin one as well
        return rebuilds[-1]

    monkeypatch.setattr(UploadSession, "rebuild", slowly)
    with ThreadPoolExecutor(askers) as threads:
        found = list(threads.map(lambda _: ready.begin(uplink), range(askers)))
    assert {status.offset + status.begun for status in found} == {len(uplink.stream) - 1}
    assert len(rebuilds) == 1


def test_a_rebuild_that_fails_is_tried_again_by_the_next_to_ask(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[:-1])
    ready.restart()
    with monkeypatch.context() as broken:
        broken.setattr(ready.analyst.blobs, "partial_size", _refuse)
        with pytest.raises(OSError, match="the disk"):
            ready.ingest.status(identity(HOSPITAL), upload_id)
    assert ready.begin(uplink).offset == reached


def _refuse(_key: str) -> int:
    raise OSError("the disk")


def test_an_upload_of_which_most_is_gone_goes_on_where_it_ends(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    part_file(ready, upload_id).write_bytes(b"nothing of it")
    ready.restart()
    assert ready.begin(uplink).offset == 0
    ready.append(uplink, upload_id, 0)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


@pytest.mark.parametrize("lost", ["", ".digests"])
def test_an_upload_of_which_a_file_is_gone_starts_again(ready: World, lost: str) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    ready.analyst.blobs.discard(blob_key(stored(ready, upload_id)) + lost)
    ready.restart()
    assert ready.begin(uplink).offset == 0


def crash_before_the_receipt(world: World, uplink: Uplink) -> str:
    """Leave the disk as a crash between the blob's final name and its record does."""
    upload_id = world.begin(uplink).upload_id
    world.append(uplink, upload_id)
    world.analyst.blobs.commit(blob_key(stored(world, upload_id)))
    world.restart()
    return upload_id


def test_a_crash_between_the_name_and_the_receipt_is_completed_without_sending_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = crash_before_the_receipt(ready, uplink)
    status = ready.begin(uplink)
    assert (status.offset, status.complete) == (len(uplink.stream), False)
    assert ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_whole_blob_that_was_damaged_before_its_receipt_comes_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = crash_before_the_receipt(ready, uplink)
    with whole_file(ready, upload_id).open("r+b") as file:
        file.write(b"\xff\xff\xff")
    with pytest.raises(OffsetMismatchError) as caught:
        ready.complete(uplink, upload_id)
    assert caught.value.expected == ready.begin(uplink).offset == 0
    ready.append(uplink, upload_id)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_an_uplink_of_scaled_integers_goes_on_after_a_restart_and_is_received(world: World) -> None:
    terms = make_terms(rep_dtype="i1")
    world.until_anchored(terms)
    uplink = make_uplink(terms, HOSPITAL)
    status = world.begin(uplink)
    reached = world.append(uplink, status.upload_id, data=uplink.stream[:-1])
    assert 0 < reached < len(uplink.stream)
    world.restart()
    assert world.append(uplink, status.upload_id, reached) == len(uplink.stream)
    receipt = world.complete(uplink, status.upload_id)
    payload_bytes = verify(Receipt, receipt, world.analyst.root, at=NOW).message.payload_bytes
    assert payload_bytes == (30 + 4) * 2 + 30 + 2 * 2 * 4
