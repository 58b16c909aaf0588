from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

import numpy as np
import pytest

from analyst_server.services import downlinks, end, judging, rounds
from analyst_server.services import worker as worker_module
from analyst_server.services.worker import Workers
from protocol.errors import StorageBusyError
from tests.harness.computing import LIMIT_S, Pool, Watched
from tests.harness.world import HOSPITAL, World, identity, make_terms


def test_a_sealed_round_is_released(world: World) -> None:
    Watched(world.until_sealed()).run_one()
    assert world.state == "released"
    assert downlinks.fetch(world.analyst, identity(HOSPITAL), world.id)


def test_the_last_uplink_wakes_the_worker(world: World) -> None:
    worker = Watched(world, poll_s=10 * LIMIT_S)
    worker.start()
    try:
        world.until_sealed()
        assert worker.done.wait(LIMIT_S)
    finally:
        worker.stop()
    assert world.state == "released"


def test_a_worker_looks_as_soon_as_it_starts(world: World) -> None:
    Watched(world.until_sealed(), poll_s=10 * LIMIT_S).run_one()
    assert world.state == "released"


def test_what_a_round_needs_is_loaded_before_its_uplinks_are_in(world: World) -> None:
    worker = Watched(world.until_anchored())
    worker.start()
    try:
        assert worker.pool.begun.wait(LIMIT_S)
    finally:
        worker.stop()
    assert world.state == "anchored"


def test_without_a_round_nothing_is_loaded(world: World) -> None:
    assert not rounds.are_expected(world.analyst)
    world.publish()
    assert rounds.are_expected(world.analyst)


def test_a_round_can_be_held_for_a_word(world: World) -> None:
    Watched(world.until_sealed(), hold_release=True).run_one()
    assert world.state == "training"
    rounds.release(world.analyst, world.id)
    assert world.state == "released"


def test_a_round_that_cannot_be_trained_fails_with_the_reason(world: World) -> None:
    Watched(world.until_sealed(arrays={"labels": np.zeros(30, "<u1")})).run_one()
    assert world.state == "failed"
    assert "none of the class yes came: cancel" in (world.row().failure or "")


def test_a_round_whose_anchors_are_zero_fails_with_the_reason(world: World) -> None:
    Watched(world.until_sealed(arrays={"anchor_rep": np.zeros((4, 2), "<f4")})).run_one()
    assert world.state == "failed"
    assert "is zero" in (world.row().failure or "")


def test_the_unexpected_fails_the_round_with_an_incident_and_no_story(world: World) -> None:
    def step(*_: Any) -> Any:
        raise KeyError("secret value")

    Watched(world.until_sealed(), Pool(step)).run_one()
    failure = world.row().failure or ""
    assert failure.startswith("KeyError, see incident ")
    assert "secret" not in failure


def die(*_: Any) -> Any:
    raise BrokenProcessPool


def test_a_compute_process_that_died_is_replaced_once(world: World) -> None:
    dead, alive = Pool(die), Pool()
    Watched(world.until_sealed(), dead, alive).run_one()
    dead.shutdown()
    assert world.state == "released"
    assert alive.begun.is_set()


def test_a_compute_process_that_died_twice_fails_the_round(world: World) -> None:
    first, second = Pool(die), Pool(die)
    runner = Watched(world.until_sealed(), first, second)
    runner.run_one()
    for pool in (first, second):
        pool.shutdown()
    assert world.state == "failed"
    assert "ended unexpectedly, twice; it may have run out of memory" in (world.row().failure or "")


def test_a_round_that_needs_more_memory_than_it_may_take_names_the_setting(world: World) -> None:
    def step(*_: Any) -> Any:
        raise MemoryError

    Watched(world.until_sealed(), Pool(step)).run_one()
    assert world.state == "failed"
    failure = world.row().failure or ""
    assert "ODC_ANALYST_COMPUTE_MEMORY_MB" in failure
    assert "resume the round" in failure


def test_after_dead_compute_processes_the_next_round_gets_a_new_one(world: World) -> None:
    pools = Pool(die), Pool(die), Pool()
    runner = Watched(world.until_sealed(), *pools)
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    assert world.state == "failed"
    rounds.resume(world.analyst, world.id)
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    for pool in pools:
        pool.shutdown()
    assert world.state == "released"


def test_several_workers_compute_several_rounds_at_once(world: World) -> None:
    both = threading.Barrier(2)

    def step(*_: Any) -> Any:
        both.wait(LIMIT_S)
        raise ValueError("enough")

    for number in (1, 2):
        world.until_sealed(make_terms(collaboration_id=f"{number:032x}"))
    crew = [Watched(world, Pool(step)) for _ in range(2)]
    workers = Workers(crew)
    workers.start()
    try:
        assert all(one.done.wait(LIMIT_S) for one in crew)
    finally:
        workers.stop()
    for number in (1, 2):
        with world.records.begin() as unit:
            row = unit.collaboration(f"{number:032x}")
        assert row is not None
        assert row.failure == "enough"


def test_several_workers_stop_although_they_wait_for_long(world: World) -> None:
    workers = Workers([Watched(world, poll_s=10 * LIMIT_S) for _ in range(3)])
    stopping = threading.Thread(target=workers.stop)
    workers.start()
    stopping.start()
    stopping.join(LIMIT_S)
    assert not stopping.is_alive()


# judging


def test_a_worker_judges_a_model_once_its_round_is_released(world: World) -> None:
    runner = Watched(world.until_sealed())
    runner.start()
    try:
        assert runner.judged.wait(LIMIT_S)
    finally:
        runner.stop()
    assert world.state == "released"
    assert world.row().unjudged is None
    assert judgement(world)["within"] is not None


def test_a_model_whose_judging_ends_compute_processes_is_not_judged(world: World) -> None:
    runner = computed(world, Pool(), Pool(die))
    runner.pool.step = die
    runner.run_judging(judging.claim(world.analyst, runner.owner, 10) or "")
    runner.run_judging(world.id)  # which is not claimed any more: nothing but a line in the log
    assert "ended unexpectedly, twice" in judgement(world)["why_none"]
    assert (world.state, world.row().lease_owner) == ("released", None)


def test_an_error_that_nobody_expected_leaves_a_model_unjudged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def step(*_: Any) -> Any:
        raise RuntimeError("secret-ish")

    runner = computed(world)
    runner.pool.step = step
    runner.run_judging(judging.claim(world.analyst, runner.owner, 10) or "")
    assert "RuntimeError, see incident" in judgement(world)["why_none"]
    assert "secret-ish" not in judgement(world)["why_none"]
    assert "incident" in caplog.text


def test_a_worker_that_is_stopped_leaves_the_judging_to_the_next(world: World) -> None:
    begun, release = threading.Event(), threading.Event()

    def step(*_: Any) -> Any:
        begun.set()
        release.wait(LIMIT_S)

    runner = computed(world)
    runner.pool.step = step
    runner.start()
    stopping = threading.Thread(target=runner.stop)
    has_begun = begun.wait(LIMIT_S)
    stopping.start()
    is_done = runner.judged.wait(LIMIT_S)  # although the step still computes
    release.set()
    stopping.join(LIMIT_S)
    assert has_begun
    assert is_done
    assert world.row().lease_owner is None
    second = Watched(world)
    second.start()
    try:
        assert second.judged.wait(LIMIT_S)
    finally:
        second.stop()
    assert judgement(world)["within"] is not None


class Endless(Pool):
    """Its step ends with the pool, and meanwhile something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__(self._step)
        self._happens, self.is_ended = happens, threading.Event()

    def _step(self, *_: Any) -> None:
        self._happens()
        assert self.is_ended.wait(LIMIT_S)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_ended.set()
        super().shutdown(wait, cancel_futures=cancel_futures)


def test_what_is_computed_of_a_round_that_is_cancelled_is_ended_and_erased(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MOST_UNSEEN_S", 0.01)

    def cancel() -> None:
        end.cancel(world.analyst, world.id)
        world.analyst.blobs.append(f"{world.id}/work-0/left", 0, b"behind")

    pool = Endless(cancel)
    runner = Watched(world.until_sealed(), pool)
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    assert pool.is_ended.is_set()
    assert (world.state, world.row().lease_owner) == ("cancelled", None)
    assert world.analyst.blobs.stored_bytes() == 0


@pytest.mark.parametrize("lease_s", [2, 3600])
def test_the_judging_of_a_round_that_is_closed_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch, lease_s: int
) -> None:
    monkeypatch.setattr(worker_module, "MOST_UNSEEN_S", 0.01)
    pool = Endless(lambda: end.close(world.analyst, world.id))
    computed(world)
    runner = Watched(world, pool, lease_s=lease_s)
    runner.run_judging(judging.claim(world.analyst, runner.owner, lease_s) or "")
    assert pool.is_ended.is_set()
    assert (world.state, world.row().lease_owner) == ("closed", None)


def test_rounds_that_somebody_waits_for_go_before_judging(world: World) -> None:
    called: list[str] = []

    class Listening(Pool):
        def submit(self, step: Any, /, *arguments: Any, **options: Any) -> Any:
            called.append(step.__name__)
            return super().submit(step, *arguments, **options)

    computed(world)
    world.until_sealed(make_terms(collaboration_id=f"{2:032x}"))
    runner = Watched(world, Listening())
    runner.start()
    try:
        assert runner.judged.wait(LIMIT_S)
    finally:
        runner.stop()
    assert called[:3] == ["align_parties", "train_model", "judge_model"]


# a disk or a database that fails


def test_a_disk_that_is_full_fails_the_round_with_that_reason(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def step(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/data/blobs/x.part")

    Watched(world.until_sealed(), Pool(step)).run_one()
    assert world.row().failure == "the analyst's disk is full"
    assert "/data/blobs/x.part" in caplog.text
    assert "Traceback" not in caplog.text


def test_records_that_are_locked_for_a_while_cost_no_computed_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, plain = threading.Event(), rounds.renew

    def renew(*arguments: Any) -> None:
        if refused.is_set():
            return plain(*arguments)
        refused.set()
        raise StorageBusyError("the analyst's database is locked")

    def step(real: Any, *arguments: Any) -> Any:
        refused.wait(LIMIT_S)
        return real(*arguments)

    class Slow(Pool):
        def submit(self, real: Any, /, *arguments: Any, **options: Any) -> Any:
            return super().submit(partial(step, real), *arguments, **options)

    monkeypatch.setattr(rounds, "renew", renew)
    Watched(world.until_sealed(), Slow(), lease_s=2).run_one()
    assert refused.is_set()
    assert world.state == "released"


def test_a_worker_says_in_one_line_that_the_records_fail(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "STORAGE_PAUSE_S", 0.0)
    plain = rounds.claim
    calls: list[None] = []

    def claim(*arguments: Any) -> str | None:
        calls.append(None)
        if len(calls) == 1:
            raise StorageBusyError("the analyst's database is locked")
        return plain(*arguments)

    monkeypatch.setattr(rounds, "claim", claim)
    Watched(world.until_sealed()).run_one()
    assert world.state == "released"
    assert "the round worker waits: the analyst's database is locked" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_worker_that_is_stopped_hands_its_round_back(world: World) -> None:
    release = threading.Event()

    def step(*_: Any) -> Any:
        release.wait(LIMIT_S)

    runner = Watched(world.until_sealed(), Pool(step))
    stopping = threading.Thread(target=runner.stop)
    runner.start()
    has_begun = runner.pool.begun.wait(LIMIT_S)
    stopping.start()
    is_done = runner.done.wait(LIMIT_S)  # although the step still computes
    release.set()
    stopping.join(LIMIT_S)
    assert has_begun
    assert is_done
    assert (world.state, world.row().lease_owner) == ("sealed", None)


def test_a_worker_keeps_its_lease_while_it_computes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, release = threading.Event(), threading.Event()
    plain = rounds.renew

    def renew(*arguments: Any) -> None:
        plain(*arguments)
        renewed.set()

    def step(*_: Any) -> Any:
        release.wait(LIMIT_S)
        raise ValueError("enough")

    monkeypatch.setattr(rounds, "renew", renew)
    runner = Watched(world.until_sealed(), Pool(step), lease_s=2)
    runner.start()
    try:
        world.clock.forward(9)
        assert renewed.wait(LIMIT_S)
        assert (world.row().lease_until or 0) >= world.clock.now
    finally:
        release.set()
        runner.stop()


def test_a_worker_whose_round_was_taken_leaves_it_to_the_other(world: World) -> None:
    taken = threading.Event()

    def step(*_: Any) -> Any:
        taken.wait(LIMIT_S)
        return {}

    runner = Watched(world.until_sealed(), Pool(step), lease_s=10, poll_s=LIMIT_S)
    first = rounds.claim(world.analyst, runner.owner, 10)
    world.clock.forward(11)
    rounds.claim(world.analyst, "another", 10)
    taken.set()
    runner.run_round(first or "")
    runner.pool.shutdown()
    assert (world.state, world.row().lease_owner) == ("aligning", "another")


def test_a_worker_goes_on_after_an_error_of_its_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = rounds.claim
    calls: list[Any] = []

    def claim(*arguments: Any) -> str | None:
        calls.append(None)
        if len(calls) == 1:
            raise OSError("disk")
        return plain(*arguments)

    monkeypatch.setattr(rounds, "claim", claim)
    Watched(world.until_sealed()).run_one()
    assert world.state == "released"


def computed(world: World, *pools: Pool) -> Watched:
    """Return a worker that has computed a round, whose model waits to be judged."""
    runner = Watched(world.until_sealed(), *pools)
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    assert world.state == "released"
    return runner


def judgement(world: World) -> Any:
    return (world.row().results or {})["judgement"]


def test_a_worker_without_work_starts_no_pool(world: World) -> None:
    runner = Watched(world)
    runner.start()
    runner.stop()
    assert not runner.pool.begun.is_set()
    runner.pool.shutdown()
