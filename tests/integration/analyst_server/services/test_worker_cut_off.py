"""A worker whose scheduler is not there, or whose round is taken away: nothing fails, and nothing stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from analyst_server.compute.dask_pool import ComputeUnreachableError
from analyst_server.services import end, judging, rounds
from analyst_server.services import worker as worker_module
from tests.harness.computing import LIMIT_S, Pool, Watched
from tests.harness.world import World


def cut_off(*_: Any) -> Any:
    raise ComputeUnreachableError("nobody answers")


def test_a_round_waits_as_long_as_nobody_is_there_to_compute_it(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_module, "COMPUTE_PAUSE_S", 0.001)
    back, released = Pool(), threading.Event()
    away = [ComputeUnreachableError("nobody answers") for _ in range(3)]
    runner = Watched(world.until_sealed(), Pool(cut_off), *away, back)
    monkeypatch.setattr(rounds, "finish", _then(rounds.finish, released.set))
    runner.start()
    try:
        assert released.wait(LIMIT_S)
    finally:
        runner.stop()
    assert back.begun.is_set()
    assert world.state == "released"
    assert world.row().failure is None
    assert caplog.text.count("rounds wait until they can be computed: nobody answers") == 1


def test_a_round_that_lost_who_computed_it_is_free_for_others_at_once(world: World) -> None:
    runner = Watched(world.until_sealed(), Pool(cut_off))
    with pytest.raises(ComputeUnreachableError):
        runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    assert (world.state, world.row().lease_owner) == ("sealed", None)
    assert rounds.claim(world.analyst, "another", 10) == world.id


@pytest.mark.parametrize("error", [ValueError("no rows of class 1"), RuntimeError("unexpected")])
def test_a_step_that_fails_after_its_round_was_cancelled_leaves_nothing(
    world: World, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def step(*_: Any) -> Any:
        end.cancel(world.analyst, world.id)
        world.analyst.blobs.write(f"{world.id}/work-1/model", b"written after the erasure")
        raise error

    runner = Watched(world.until_sealed(), Pool(step))
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    runner.pool.shutdown()
    assert world.state == "cancelled"
    assert world.analyst.blobs.whole_keys() == []
    assert "or it has ended" in caplog.text


def _then(act: Callable[..., Any], after: Callable[[], None]) -> Callable[..., Any]:
    def both(*arguments: Any, **options: Any) -> Any:
        found = act(*arguments, **options)
        after()
        return found

    return both


def test_a_model_whose_judge_went_away_is_judged_later(world: World) -> None:
    runner = Watched(world.until_sealed(), Pool(), Pool())
    runner.run_round(rounds.claim(world.analyst, runner.owner, 10) or "")
    runner.pool.step = cut_off
    with pytest.raises(ComputeUnreachableError):
        runner.run_judging(judging.claim(world.analyst, runner.owner, 10) or "")
    assert world.row().unjudged is not None
    runner.pool.step = None
    runner.run_judging(judging.claim(world.analyst, runner.owner, 10) or "")
    assert (world.row().results or {})["judgement"]["within"] is not None
