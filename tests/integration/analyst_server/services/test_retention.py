"""What the analyst may keep only for a time is erased after it, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyst_server.blobs import DirectoryBlobs
from analyst_server.services import retention, rounds, views
from protocol.errors import OutOfOrderError, StorageBusyError
from protocol.states import State
from runtime.waiting import look_until
from tests.harness.computing import LIMIT_S, Watched, claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, make_terms, make_uplink

DAY_S = 86_400
DAYS = 30


def folder(world: World) -> Path:
    return world.directory / "blobs" / world.id


@pytest.fixture
def limited(world: World) -> World:
    """The analyst, under terms that let it keep a round for a month."""
    world.terms = make_terms(retention_days=DAYS)
    return world


def states(world: World) -> list[tuple[State, bool]]:
    return [(one.state, one.ended) for one in retention.purge(world.analyst)]


def test_a_released_round_is_closed_so_many_days_after_its_release(limited: World) -> None:
    limited.until_sealed()
    limited.clock.forward(10 * DAY_S)  # of training
    Watched(limited).run_one()
    limited.clock.forward(DAYS * DAY_S - 1)
    assert states(limited) == [(State.RELEASED, False)]
    assert folder(limited).exists()
    limited.clock.forward(1)
    assert states(limited) == [(State.CLOSED, True)]
    assert not folder(limited).exists()
    with limited.records.begin() as unit:
        last = unit.last_of_ledger(limited.id)
    assert last is not None
    assert last.event == "close"
    assert states(limited) == []


def test_a_round_that_is_never_sealed_is_cancelled_so_many_days_after_the_last_uplink(limited: World) -> None:
    limited.until_anchored()
    limited.send(make_uplink(limited.terms, LEAD))
    limited.clock.forward(DAYS * DAY_S)
    assert states(limited) == [(State.CANCELLED, True)]
    assert not folder(limited).exists()


def test_without_an_uplink_there_is_nothing_to_erase(limited: World) -> None:
    limited.until_anchored()
    limited.clock.forward(10 * DAYS * DAY_S)
    assert states(limited) == []
    assert limited.state == "anchored"


def test_terms_that_say_nothing_keep_a_round_until_the_operator_ends_it(world: World) -> None:
    Watched(world.until_sealed()).run_one()
    world.clock.forward(10 * DAYS * DAY_S)
    assert states(world) == []
    assert world.state == "released"


def test_a_round_that_is_computed_is_ended_once_that_is_over(limited: World) -> None:
    claim(limited.until_sealed())
    limited.clock.forward(DAYS * DAY_S)
    assert states(limited) == [(State.ALIGNING, False)]
    finish(limited)
    assert states(limited) == [(State.RELEASED, False)]  # its members have the days to fetch


def test_a_held_round_is_kept_no_longer_than_others_that_nobody_releases(limited: World) -> None:
    Watched(limited.until_sealed(), hold_release=True).run_one()
    limited.clock.forward(DAYS * DAY_S - 1)
    assert states(limited) == [(State.TRAINING, False)]
    limited.clock.forward(1)
    assert states(limited) == [(State.CANCELLED, True)]
    assert not folder(limited).exists()
    with limited.records.begin() as unit:
        assert [row.event for row in unit.ledger(limited.id)][-2:] == ["fail", "cancel"]
        assert not unit.downlinks(limited.id)
    with pytest.raises(OutOfOrderError):
        rounds.release(limited.analyst, limited.id)


def test_what_could_not_be_erased_is_erased_the_next_time(
    limited: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited.until_anchored()
    limited.send(make_uplink(limited.terms, LEAD))
    limited.clock.forward(DAYS * DAY_S)
    with monkeypatch.context() as away:
        away.setattr(DirectoryBlobs, "erase", raising(StorageBusyError("it does not answer")))
        states(limited)
    assert (limited.state, folder(limited).exists()) == ("cancelled", True)
    assert states(limited) == []
    assert not folder(limited).exists()


def raising(error: Exception) -> Any:
    def fail(*_args: object) -> None:
        raise error

    return fail


def test_members_see_until_when(limited: World) -> None:
    limited.until_anchored()
    assert "erase_at" not in views.status(limited.analyst, None, limited.id)
    limited.send(make_uplink(limited.terms, HOSPITAL))
    assert views.status(limited.analyst, None, limited.id)["erase_at"] == limited.clock() + DAYS * DAY_S


def test_the_worker_looks_by_itself(limited: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyst_server.services.worker.PURGE_EVERY_S", 0.0)
    limited.until_anchored()
    limited.send(make_uplink(limited.terms, LEAD))
    limited.clock.forward(DAYS * DAY_S)
    worker = Watched(limited, poll_s=0.01)
    worker.start()
    try:
        look_until(lambda kept: not kept, folder(limited).exists, wait_s=LIMIT_S)
    finally:
        worker.stop()
    assert limited.state == "cancelled"


def test_a_round_that_cannot_be_ended_keeps_no_other_from_being_computed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("analyst_server.services.worker.PURGE_EVERY_S", 0.0)
    monkeypatch.setattr("analyst_server.services.retention.purge", raising(RuntimeError("no such thing")))
    world.until_sealed()
    worker = Watched(world, poll_s=0.01)
    worker.start()
    try:
        look_until(lambda state: state == "released", lambda: world.state, wait_s=LIMIT_S)
    finally:
        worker.stop()
    assert "rounds that are due were not ended" in caplog.text
