"""Records and arrays have one id: a directory that is not mounted is found before anything is lost in it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from analyst_server.blobs import STORE_ID_KEY, DirectoryBlobs, id_of
from analyst_server.services import own_arrays, scrub
from protocol.errors import OffsetMismatchError, StorageError
from tests.harness.computing import claim
from tests.harness.uploads import whole_file
from tests.harness.world import HOSPITAL, World, make_uplink


def unmount(world: World) -> Path:
    """Let there be nothing where the arrays were; return where they are now."""
    away = world.directory / "away"
    (world.directory / "blobs").rename(away)
    return away


def mount(world: World) -> None:
    shutil.rmtree(world.directory / "blobs", ignore_errors=True)
    (world.directory / "away").rename(world.directory / "blobs")


def test_the_first_start_gives_both_sides_one_id_and_later_ones_leave_it(world: World) -> None:
    own_arrays.settle(world.analyst)
    known = own_arrays.noted(world.analyst)
    assert known is not None
    assert len(known) == 32
    own_arrays.settle(world.analyst)
    assert own_arrays.noted(world.analyst) == id_of(world.analyst.blobs) == known


def test_an_installation_of_before_with_its_arrays_gets_one_without_complaint(world: World) -> None:
    world.until_sealed()
    own_arrays.settle(world.analyst)
    assert own_arrays.noted(world.analyst) == id_of(world.analyst.blobs) is not None


def test_an_installation_of_before_without_its_arrays_gets_none(world: World) -> None:
    world.until_sealed()
    unmount(world)
    with pytest.raises(StorageError, match="none of the 2 uplinks that were received") as caught:
        own_arrays.settle(world.analyst)
    assert "is it mounted?" in caught.value.hint
    mount(world)
    own_arrays.settle(world.analyst)


def test_a_start_that_was_cut_off_between_store_and_records_goes_on(world: World) -> None:
    world.analyst.blobs.write(STORE_ID_KEY, b"a" * 32)
    own_arrays.settle(world.analyst)
    assert own_arrays.noted(world.analyst) == "a" * 32


def test_records_are_undone_with_a_store_that_cannot_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryBlobs, "write", fail)
        with pytest.raises(OSError, match="no space left"):
            own_arrays.settle(world.analyst)
    assert own_arrays.noted(world.analyst) is None
    own_arrays.settle(world.analyst)


@pytest.mark.parametrize("there", ["nothing", "an empty directory", "another store"])
def test_a_start_without_the_arrays_is_refused_with_the_place(world: World, there: str) -> None:
    own_arrays.settle(world.analyst)
    unmount(world)
    if there != "nothing":
        (world.directory / "blobs").mkdir()
    if there == "another store":
        (world.directory / "blobs" / STORE_ID_KEY).write_text("b" * 32)
    with pytest.raises(StorageError, match=f"are not in {world.directory / 'blobs'}") as caught:
        own_arrays.settle(world.analyst)
    assert "is it mounted?" in caught.value.hint
    assert ("b" * 32 in str(caught.value)) == (there == "another store")
    if there == "nothing":
        assert not (world.directory / "blobs").exists(), "nothing is made there"
    mount(world)
    own_arrays.settle(world.analyst)


def test_servers_that_start_at_once_agree_on_one_id(world: World) -> None:
    ready, found = threading.Barrier(4), list[Any]()

    def start() -> None:
        ready.wait()
        try:
            own_arrays.settle(world.analyst)
        except Exception as error:  # noqa: BLE001  # shown below
            found.append(error)
        else:
            found.append(own_arrays.noted(world.analyst))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [id_of(world.analyst.blobs)] * 4


def test_nothing_is_taken_and_nothing_signed_for_without_the_arrays(world: World) -> None:
    own_arrays.settle(world.analyst)
    world.until_anchored()
    uplink = make_uplink(world.terms, HOSPITAL)
    unmount(world)
    with pytest.raises(StorageError, match="are not where its records have them") as caught:
        world.begin(uplink)
    assert str(world.directory) not in str(caught.value), "institutions read no path"
    mount(world)
    assert world.send(uplink)


def test_bytes_that_came_before_the_mount_are_signed_for_by_nobody(world: World) -> None:
    own_arrays.settle(world.analyst)
    world.until_anchored()
    uplink = make_uplink(world.terms, HOSPITAL)
    status = world.begin(uplink)
    world.append(uplink, status.upload_id)
    unmount(world)
    with pytest.raises((StorageError, OffsetMismatchError)):
        world.complete(uplink, status.upload_id)
    mount(world)
    world.send(uplink)
    assert whole_file(world, status.upload_id).exists()


def test_a_round_is_left_to_a_server_that_sees_its_arrays(world: World) -> None:
    own_arrays.settle(world.analyst)
    world.until_sealed()
    unmount(world)
    with pytest.raises(StorageError, match="are not where its records have them"):
        claim(world)
    assert world.state == "sealed"
    mount(world)
    assert claim(world) == world.id


def test_a_look_at_all_arrays_names_none_as_damaged_that_is_elsewhere(world: World) -> None:
    own_arrays.settle(world.analyst)
    world.until_sealed()
    unmount(world)
    with pytest.raises(StorageError, match=f"are not in {world.directory / 'blobs'}"):
        scrub.scrub(world.analyst)
    mount(world)
    assert scrub.scrub(world.analyst).damaged == ()


@pytest.mark.parametrize("there", ["nothing", "another store"])
def test_what_a_person_accepts_is_the_store_from_then_on(world: World, there: str) -> None:
    own_arrays.settle(world.analyst)
    known = own_arrays.noted(world.analyst)
    unmount(world)
    if there == "another store":
        world.analyst.blobs.write(STORE_ID_KEY, b"b" * 32)
    accepted = own_arrays.accept(world.analyst)
    assert accepted == (known if there == "nothing" else "b" * 32)
    own_arrays.settle(world.analyst)
    assert own_arrays.noted(world.analyst) == id_of(world.analyst.blobs) == accepted
