"""A downlink is fetched when it has arrived, not when it was asked for; and one that is lost is no fetch."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst_server.services import downlinks, prepare, views
from analyst_server.store import sqlite
from protocol.errors import LostDataError
from tests.harness.certificates import NOW
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity


@pytest.fixture
def released(world: World) -> World:
    claim(world.until_sealed())
    finish(world)
    return world


def fetch(world: World) -> downlinks.DownlinkStream:
    return downlinks.fetch(world.analyst, identity(HOSPITAL), world.id)


def fetches_in_the_ledger(world: World) -> int:
    with world.records.begin() as unit:
        return sum(row.event == "fetch downlink" for row in unit.ledger(world.id))


def seen(world: World) -> str:
    members = views.status(world.analyst, None, world.id)["members"]
    return next(one["downlink"] for one in members if one["party"] == HOSPITAL)


def test_what_only_reads_waits_for_no_writer(released: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(released)
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0)  # a second writer fails at once
    with released.records.begin(write=True):
        seen(released)
        fetch(released)
        prepare.signed_terms(released.analyst, identity(HOSPITAL), released.id)
        prepare.sealed_anchor(released.analyst, identity(HOSPITAL), released.id)
    assert fetches_in_the_ledger(released) == 1


def test_a_downlink_that_breaks_off_is_not_fetched(released: World) -> None:
    next(fetch(released).whole())
    assert seen(released) == "ready"
    assert downlinks.yet_to_fetch(released.analyst, released.id) == [HOSPITAL, LEAD]


def test_a_downlink_that_is_asked_for_twice_is_one_step(released: World) -> None:
    for _ in range(2):
        next(fetch(released).whole())
    assert fetches_in_the_ledger(released) == 1


def test_all_parts_without_an_acknowledgement_are_not_fetched(released: World) -> None:
    assert len(b"".join(fetch(released).pieces())) == fetch(released).length
    assert seen(released) == "ready"


def test_the_first_acknowledgement_is_the_time_of_the_fetch(released: World) -> None:
    released.clock.forward(5)
    fetch(released).acknowledge()
    released.clock.forward(5)
    fetch(released).acknowledge()
    with released.records.begin() as unit:
        row = unit.downlink(released.id, HOSPITAL)
    assert row is not None
    assert row.fetched_at == NOW + 5
    assert seen(released) == "fetched"


def test_an_acknowledgement_of_another_version_is_of_no_use(released: World) -> None:
    earlier = fetch(released)
    with released.records.begin(write=True) as unit:
        row = unit.downlink(released.id, HOSPITAL)
        assert row is not None
        row.manifest += b"x"
    earlier.acknowledge()
    assert seen(released) == "ready"


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1000])
def test_parts_are_the_bytes_of_the_whole(released: World, size: int) -> None:
    downlink = fetch(released)
    whole = b"".join(downlink.pieces())
    for start in range(0, len(whole), max(size, len(whole) // 50)):
        end = min(start + size, len(whole))
        assert b"".join(downlink.pieces(start, end)) == whole[start:end]
        assert b"".join(downlink.pieces(start)) == whole[start:]


def results_of(world: World) -> list[Path]:
    return sorted((world.directory / "blobs" / world.id / "results").iterdir())


@pytest.mark.parametrize("is_shorter", [True, False])
def test_results_that_are_lost_are_an_error_and_no_fetch(released: World, is_shorter: bool) -> None:
    for path in results_of(released):
        path.write_bytes(path.read_bytes()[:-1]) if is_shorter else path.unlink()
    with pytest.raises(LostDataError, match="no longer has"):
        fetch(released)
    assert fetches_in_the_ledger(released) == 0
    assert downlinks.yet_to_fetch(released.analyst, released.id) == [HOSPITAL, LEAD]
