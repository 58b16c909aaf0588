"""An upload goes on at any of several processes; whatever one still does, no byte is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from analyst_server.blobs import Blobs, DirectoryBlobs, S3Blobs
from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from analyst_server.services.ingest import Ingest
from analyst_server.services.stored import blob_key
from analyst_server.services.upload_session import Append
from analyst_server.store import Records
from protocol.arrays import raw_bytes
from protocol.errors import OdcError, OffsetMismatchError, UploadSupersededError
from tests.harness.s3 import BUCKET, s3_server
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, stored
from tests.harness.world import HOSPITAL, Uplink, World, identity

ME = identity(HOSPITAL)


@pytest.fixture(params=["directory", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the arrays are that all processes share."""
    if request.param == "directory":
        yield ""
        return
    server = s3_server()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    with server.prefix() as prefix:
        yield f"s3://{BUCKET}/{prefix}"


def blobs_at(shared: str, directory: Path) -> Blobs:
    return S3Blobs(shared, directory) if shared else DirectoryBlobs(directory / "blobs")


@pytest.fixture(params=["sqlite", "postgresql"])
def ready(request: pytest.FixtureRequest, tmp_path: Path, shared: str) -> Iterator[World]:
    blobs = blobs_at(shared, tmp_path)
    if request.param == "sqlite":
        made = World(tmp_path, blobs=blobs)
        yield made.until_anchored()
        made.close()
        return
    with request.getfixturevalue("postgres").records() as url:
        made = World(tmp_path, blobs=blobs, database=url)
        yield made.until_anchored()
        made.close()


@pytest.fixture
def process(ready: World, shared: str) -> Iterator[Analyst]:
    """The same analyst in another process."""
    made = replace(ready.analyst, records=Records(ready.database), blobs=blobs_at(shared, ready.directory))
    yield made
    made.records.dispose()


@pytest.fixture
def other(process: Analyst) -> Ingest:
    return Ingest(process)


def open_append(ingest: Ingest, upload_id: str, offset: int) -> Append:
    found = ingest.append(ME, upload_id, offset)
    if found is None:
        raise OffsetMismatchError(-1, offset)  # complete meanwhile
    return found


def write_and_close(append: Append, data: bytes) -> int:
    append.write(data)
    return append.close()


def send(ingest: Ingest, upload_id: str, offset: int, data: bytes) -> int:
    return write_and_close(open_append(ingest, upload_id, offset), data)


def kept(world: World, uplink: Uplink, upload_id: str) -> None:
    """Check that the whole blob is what was signed, every byte once."""
    content = bytes(world.analyst.blobs.read(blob_key(stored(world, upload_id))))
    assert content == b"".join(map(raw_bytes, uplink.arrays))


@pytest.fixture
def uplink(ready: World) -> Uplink:
    return hospital(ready, rows=MANY_ROWS)


def test_what_one_process_has_acknowledged_another_finds_and_goes_on_with(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    processes, reached = (ready.ingest, other), 0
    for turn, chunks in enumerate((1, 2, 3, 4)):
        data = uplink.stream[reached : offset_after(uplink, chunks) + 5]
        send(processes[turn % 2], upload_id, reached, data)
        for one in processes:
            status = one.status(ME, upload_id)
            assert (status.offset, status.begun) == (offset_after(uplink, chunks), 5)
        reached += len(data)
    send(other, upload_id, reached, uplink.stream[reached:])
    receipt = ready.complete(uplink, upload_id)
    assert other.complete(ME, upload_id, uplink.whole_digest) == receipt
    kept(ready, uplink, upload_id)


def test_the_status_says_how_much_has_come_whoever_received_it(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id, arrived = ready.begin(uplink).upload_id, []
    one, two = offset_after(uplink, 1), offset_after(uplink, 2)
    for ingest, start, end in ((ready.ingest, 0, one), (other, one, two)):
        send(ingest, upload_id, start, uplink.stream[start:end])
        members = views.status(ready.analyst, None, ready.id)["members"]
        arrived += [member["arrived_bytes"] for member in members if member["party"] == HOSPITAL]
    assert 0 < arrived[0] < arrived[1]


def test_a_process_that_lost_an_upload_adds_nothing_and_acknowledges_nothing(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    one, two = offset_after(uplink, 1), offset_after(uplink, 2)
    slow = open_append(ready.ingest, upload_id, 0)
    slow.write(uplink.stream[:one])
    slow.close()
    slow = open_append(ready.ingest, upload_id, one)
    assert send(other, upload_id, one, uplink.stream[one:two]) == two
    with pytest.raises(OffsetMismatchError):
        write_and_close(slow, uplink.stream[one:two])
    assert other.status(ME, upload_id).offset == ready.ingest.status(ME, upload_id).offset == two
    send(other, upload_id, two, uplink.stream[two:])
    other.complete(ME, upload_id, uplink.whole_digest)
    kept(ready, uplink, upload_id)


def test_what_was_stored_and_not_yet_acknowledged_when_another_took_over_is_not_acknowledged(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    slow = open_append(ready.ingest, upload_id, 0)
    slow.write(uplink.stream[: offset_after(uplink, 2)])
    reached = other.begin(ME, ready.id, uplink.body).offset
    with pytest.raises(OffsetMismatchError):
        slow.close()
    with pytest.raises(UploadSupersededError):
        slow.write(uplink.stream[offset_after(uplink, 2) :])
    send(other, upload_id, reached, uplink.stream[reached:])
    other.complete(ME, upload_id, uplink.whole_digest)
    kept(ready, uplink, upload_id)


def test_the_second_of_two_that_get_the_same_piece_is_told_the_offset(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    one = offset_after(uplink, 1)
    send(ready.ingest, upload_id, 0, uplink.stream[:one])
    with pytest.raises(OffsetMismatchError) as caught:
        other.append(ME, upload_id, 0)
    assert caught.value.expected == one


def test_a_session_that_has_become_old_is_not_used_again(ready: World, other: Ingest, uplink: Uplink) -> None:
    upload_id = ready.begin(uplink).upload_id
    one, three = offset_after(uplink, 1), offset_after(uplink, 3)
    send(ready.ingest, upload_id, 0, uplink.stream[:one])
    send(other, upload_id, one, uplink.stream[one:three])
    with pytest.raises(OffsetMismatchError) as caught:
        ready.ingest.append(ME, upload_id, one)
    assert caught.value.expected == three
    send(ready.ingest, upload_id, three, uplink.stream[three:])
    ready.complete(uplink, upload_id)
    kept(ready, uplink, upload_id)


def test_an_upload_that_is_taken_over_while_it_is_completed_is_signed_for_once(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    send(ready.ingest, upload_id, 0, uplink.stream)
    together = threading.Barrier(2)

    def complete(one: Ingest) -> bytes | None:
        together.wait(30)
        with suppress(OffsetMismatchError):
            return one.complete(ME, upload_id, uplink.whole_digest)
        return None

    with ThreadPoolExecutor(2) as threads:
        receipts = {found for found in threads.map(complete, (ready.ingest, other)) if found}
    assert receipts == {stored(ready, upload_id).receipt}
    kept(ready, uplink, upload_id)


def test_a_replaced_upload_is_not_gone_on_with_elsewhere(ready: World, other: Ingest) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    replaced = ready.begin(first).upload_id
    slow = open_append(ready.ingest, replaced, 0)
    found = other.begin(ME, ready.id, second.body)
    with pytest.raises(OffsetMismatchError):
        write_and_close(slow, first.stream)
    assert ready.ingest.status(ME, replaced).offset in (0, offset_after(first, 3))
    send(other, found.upload_id, 0, second.stream)
    assert other.complete(ME, found.upload_id, second.whole_digest)
    kept(ready, second, found.upload_id)


def test_a_takeover_that_was_cut_off_loses_nothing(
    ready: World, other: Ingest, process: Analyst, uplink: Uplink, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = ready.begin(uplink).upload_id
    one = offset_after(uplink, 1)
    send(ready.ingest, upload_id, 0, uplink.stream[:one])
    moved = list[str]()
    hand_over = process.blobs.hand_over

    def die(key: str, new_key: str) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(key)
        hand_over(key, new_key)

    with monkeypatch.context() as patch:
        patch.setattr(process.blobs, "hand_over", die)
        with pytest.raises(KeyboardInterrupt):
            other.append(ME, upload_id, one)
    assert moved
    assert send(ready.ingest, upload_id, one, uplink.stream[one:]) == len(uplink.stream)
    other.complete(ME, upload_id, uplink.whole_digest)
    kept(ready, uplink, upload_id)


def test_many_who_send_the_same_upload_at_once_store_it_once(
    ready: World, other: Ingest, uplink: Uplink
) -> None:
    upload_id = ready.begin(uplink).upload_id
    processes = [ready.ingest, other]

    def play(number: int) -> None:
        ingest, steps = processes[number % 2], 0
        while steps < 20:
            steps += 1
            with suppress(OdcError):
                status = ingest.status(ME, upload_id)
                if status.complete:
                    return
                start = status.offset + status.begun
                if start == len(uplink.stream):
                    ingest.complete(ME, upload_id, uplink.whole_digest)
                    return
                send(ingest, upload_id, start, uplink.stream[start : start + 70_000])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(play, range(4)))
    reached = ready.begin(uplink)
    if not reached.complete:  # all of them may have lost their last turn to another
        start = reached.offset + reached.begun
        send(ready.ingest, upload_id, start, uplink.stream[start:])
        ready.complete(uplink, upload_id)
    kept(ready, uplink, upload_id)
