"""What a balancer is told of database, disk and compute."""

from __future__ import annotations

import errno
import shutil

import pytest

from analyst_server.blobs import STORE_ID_KEY, DirectoryBlobs
from analyst_server.services import own_arrays
from analyst_server.services.readiness import FRESH_S, Readiness
from tests.harness.world import World

ALL = {"database": "ok", "arrays": "ok", "disk": "ok", "compute": "ok"}


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def break_disk(patched: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    patched.setattr(DirectoryBlobs, "append", fail)


def test_all_parts_work_and_nothing_is_left_of_the_look(world: World) -> None:
    assert Readiness(world.analyst).look(computes=True) == ALL
    assert [path.name for path in (world.directory / "blobs").rglob("*")] == []


def test_a_disk_that_cannot_be_written_is_found_and_so_is_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch()
    readiness = Readiness(world.analyst, watch)
    with monkeypatch.context() as patched:
        break_disk(patched)
        assert readiness.look(computes=True) == {**ALL, "disk": "failing"}
    assert "the disk does not work" in caplog.text
    assert readiness.look(computes=True) == {**ALL, "disk": "failing"}, (
        "anybody asks, so it looks now and then"
    )
    watch.seconds += FRESH_S
    assert readiness.look(computes=True) == ALL


def test_a_store_that_is_not_mounted_is_found_and_so_is_its_mount(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    own_arrays.settle(world.analyst)
    watch = Watch()
    readiness = Readiness(world.analyst, watch)
    assert readiness.look(computes=True) == ALL
    mounted, away = world.directory / "blobs", world.directory / "away"
    mounted.rename(away)
    watch.seconds += FRESH_S
    assert readiness.look(computes=True) == {**ALL, "arrays": "failing"}
    assert str(mounted) in caplog.text, "for the operator"
    (mounted / STORE_ID_KEY).write_text("0" * 32)
    watch.seconds += FRESH_S
    assert readiness.look(computes=True) == {**ALL, "arrays": "failing"}, "another one is mounted"
    shutil.rmtree(mounted)
    away.rename(mounted)
    watch.seconds += FRESH_S
    assert readiness.look(computes=True) == ALL


def test_rounds_that_wait_for_workers_elsewhere_are_said_to_wait(world: World) -> None:
    there: list[str] = []
    readiness = Readiness(world.analyst, has_workers=lambda: bool(there))
    assert readiness.look(computes=True) == {**ALL, "compute": "waiting"}
    there.append("a worker")
    assert readiness.look(computes=True) == ALL, "it is not looked up"
    assert readiness.look(computes=False) == {**ALL, "compute": "failing"}


def test_a_database_that_cannot_be_opened_is_found(in_a_file: World) -> None:
    in_a_file.records.dispose()
    database = in_a_file.directory / "odc.sqlite"
    database.rename(database.with_suffix(".away"))
    database.mkdir()
    assert Readiness(in_a_file.analyst).look(computes=True) == {**ALL, "database": "failing"}
