"""A compute worker on another machine does not see the arrays: its machine is named, and no institution."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.blobs import DamagedBlobError
from analyst_server.compute.sight import ArraysNotSeenError, at
from analyst_server.services import judging, latecomers, rounds, views
from analyst_server.services import worker as worker_module
from analyst_server.services.stored import blob_key
from analyst_server.store import Uplink
from tests.harness.computing import LEASE_S, Pool, Watched, release_and_follow
from tests.harness.uploads import whole_file
from tests.harness.world import HOSPITAL, LEAD, World, identity

WORKER = "10.0.0.7:41234"
LATE = "late-hospital"


def uplink_of(world: World, party: str) -> Uplink:
    with world.records.begin() as unit:
        return unit.uplinks_of(world.id, party)[0]


def says_damaged(world: World, party: str) -> Pool:
    """Return a pool whose worker sees nothing of the uplink of a party."""

    def step(*_: Any, **__: Any) -> Any:
        with at(WORKER):
            raise DamagedBlobError(blob_key(uplink_of(world, party)))

    return Pool(step)


def sees_nothing(*_: Any, **__: Any) -> Any:
    raise ArraysNotSeenError(WORKER, "/srv/odc/arrays", "it has the id None, not another")


def spoil(world: World, party: str) -> None:
    path = whole_file(world, uplink_of(world, party).id)
    path.write_bytes(path.read_bytes()[:-100])


def run_round(world: World, pool: Pool) -> str:
    """Compute a round with a pool of other machines, and return why it failed."""
    runner = Watched(world, pool, Pool(), make_own=Pool)
    runner.run_round(rounds.claim(world.analyst, runner.owner, LEASE_S) or "")
    runner.pool.shutdown()
    assert world.state == "failed"
    return world.row().failure or ""


def awaited(world: World) -> list[str]:
    return views.status(world.analyst, identity(LEAD), world.id)["waiting_for"]


def test_what_is_whole_beside_the_records_is_asked_of_nobody(world: World) -> None:
    why = run_round(world.until_sealed(), says_damaged(world, HOSPITAL))
    assert f"the compute worker {WORKER} does not see the arrays" in why
    assert HOSPITAL not in why
    assert "contribute" not in why
    assert awaited(world) == ["the analyst: odc-analyst collaboration resume"]
    rounds.resume(world.analyst, world.id)
    Watched(world).run_one()
    assert world.state == "released"


def test_what_is_damaged_beside_the_records_too_is_asked_for_as_before(world: World) -> None:
    spoil(world.until_sealed(), HOSPITAL)
    why = run_round(world, says_damaged(world, LEAD))
    assert f"{HOSPITAL} must run `odc contribute` again" in why
    assert LEAD not in why
    assert awaited(world) == [f"{HOSPITAL}: odc contribute"]


def test_a_worker_that_sees_another_store_is_named_and_the_path_is_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    why = run_round(world.until_sealed(), Pool(sees_nothing))
    assert f"the compute worker {WORKER} does not see the arrays" in why
    assert "/srv" not in why
    assert (
        f"the compute worker {WORKER} does not see the arrays in /srv/odc/arrays: it has the id"
        in caplog.text
    )
    assert "Traceback" not in caplog.text
    assert awaited(world) == ["the analyst: odc-analyst collaboration resume"]


def test_a_disk_of_a_worker_that_fails_is_not_the_analysts(world: World) -> None:
    def step(*_: Any, **__: Any) -> Any:
        with at(WORKER):
            raise PermissionError(13, "Permission denied", "/srv/odc/arrays/uplink")

    why = run_round(world.until_sealed(), Pool(step))
    assert why == f"the disk of the compute worker {WORKER} cannot be used: permission denied"


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_started_before_the_mount_is_replaced_once(world: World, times: int) -> None:
    """It may open the directory that was there then, and no other."""

    def step(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/srv/odc/arrays/uplink")

    world.until_sealed()
    runner = Watched(world, *(Pool(step) for _ in range(times)), Pool())
    runner.run_round(rounds.claim(world.analyst, runner.owner, LEASE_S) or "")
    assert world.state == ("released" if times == 1 else "failed")
    if times == 2:
        assert world.row().failure == "the analyst's disk cannot be used: permission denied"


@pytest.mark.parametrize("says", ["damaged", "another store"])
def test_a_late_consumer_is_neither_refused_nor_asked_again(
    world: World, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    release_and_follow(world, LATE)
    pool = says_damaged(world, LATE) if says == "damaged" else Pool(sees_nothing)
    runner = Watched(world, pool, make_own=Pool)
    claimed = latecomers.claim(world.analyst, runner.owner, LEASE_S)
    assert claimed is not None
    runner.run_latecomer(claimed)
    runner.pool.shutdown()
    assert f"the compute worker {WORKER} does not see the arrays" in caplog.text
    assert uplink_of(world, LATE).refused is None
    assert f"{LATE}: odc contribute" not in awaited(world)
    world.clock.forward(LEASE_S + 1)
    assert latecomers.claim(world.analyst, "another", LEASE_S) is not None


def test_a_model_is_judged_later_by_a_worker_that_sees_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STORAGE_PAUSE_S", 0.001)
    runner = Watched(world.until_sealed())
    runner.run_round(rounds.claim(world.analyst, runner.owner, LEASE_S) or "")
    runner.pool.step = sees_nothing
    runner.run_judging(judging.claim(world.analyst, runner.owner, LEASE_S) or "")
    assert world.row().unjudged is not None
    runner.pool.step = None
    runner.run_judging(judging.claim(world.analyst, runner.owner, LEASE_S) or "")
    runner.pool.shutdown()
    assert (world.row().results or {})["judgement"]["within"] is not None
