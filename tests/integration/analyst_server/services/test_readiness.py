"""What a balancer is told of database, disk and compute."""

from __future__ import annotations

import errno

import pytest

from analyst_server.services.readiness import FRESH_S, Readiness
from analyst_server.store import DirectoryBlobs
from tests.harness.world import World

ALL = {"database": True, "disk": True, "compute": True}


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
        assert readiness.look(computes=True) == {**ALL, "disk": False}
    assert "the disk does not work" in caplog.text
    assert readiness.look(computes=True) == {**ALL, "disk": False}, "anybody asks, so it looks now and then"
    watch.seconds += FRESH_S
    assert readiness.look(computes=True) == ALL


def test_a_database_that_cannot_be_opened_is_found(in_a_file: World) -> None:
    in_a_file.records.dispose()
    database = in_a_file.directory / "odc.sqlite"
    database.rename(database.with_suffix(".away"))
    database.mkdir()
    assert Readiness(in_a_file.analyst).look(computes=True) == {**ALL, "database": False}
