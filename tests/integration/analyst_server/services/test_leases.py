"""A round whose worker is gone is taken up, whatever the time of day says; one whose worker lives is not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from analyst_server.services import end, latecomers, rounds
from analyst_server.services.analyst import Analyst
from protocol.errors import OutOfOrderError, RoundFailedError
from tests.harness.computing import LEASE_S, OTHER, OWNER, Watched, claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, make_terms, make_uplink

MINUTES_20 = 20 * 60


@pytest.fixture
def sealed(world: World) -> World:
    return world.until_sealed()


def claimed_by_a_process(world: World, owner: str = OWNER) -> Analyst:
    """Have the worker of a process claim the round; return that process's analyst."""
    process = replace(world.analyst, leases=world.leases())
    process.leases.hold(owner)
    assert rounds.claim(process, owner, LEASE_S) == world.id
    return process


def killed(world: World, process: Analyst, owner: str = OWNER) -> None:
    """Do what the system does when a process dies: its file stays, its lock does not."""
    process.leases.give_up(owner)
    (world.directory / "workers" / f"{owner}.lock").touch()


@pytest.mark.parametrize("set_back_s", [0, MINUTES_20])
def test_the_round_of_a_killed_server_is_taken_up_at_once(sealed: World, set_back_s: int) -> None:
    killed(sealed, claimed_by_a_process(sealed))
    sealed.clock.set_back(set_back_s)
    assert claim(sealed, OTHER) == sealed.id


@pytest.mark.parametrize("set_back_s", [0, MINUTES_20])
def test_a_round_that_trained_when_its_server_was_killed_can_be_resumed_and_cancelled(
    sealed: World, set_back_s: int
) -> None:
    process = claimed_by_a_process(sealed)
    rounds.begin_training(process, sealed.id, OWNER)
    killed(sealed, process)
    sealed.clock.set_back(set_back_s)
    rounds.resume(sealed.analyst, sealed.id)
    end.cancel(sealed.analyst, sealed.id)
    assert sealed.state == "cancelled"


def test_the_round_of_a_live_server_is_left_alone(sealed: World) -> None:
    process = claimed_by_a_process(sealed)
    assert claim(sealed, OTHER) is None
    with pytest.raises(OutOfOrderError, match="a worker is computing it"):
        rounds.resume(sealed.analyst, sealed.id)
    process.leases.give_up(OWNER)


def test_without_locks_only_silence_tells_whether_a_server_lives(
    sealed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", no_locks)
    process = claimed_by_a_process(sealed)
    assert claim(sealed, OTHER) is None
    sealed.clock.forward(LEASE_S + 1)
    assert claim(sealed, OTHER) == sealed.id
    process.leases.give_up(OWNER)


def no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_a_clock_set_forward_ends_no_lease(sealed: World) -> None:
    claim(sealed)
    sealed.clock.set_back(-MINUTES_20)
    assert claim(sealed, OTHER) is None


def test_a_silent_worker_on_another_machine_loses_its_round_though_the_clock_is_set_back(
    sealed: World,
) -> None:
    claim(sealed)
    here = replace(sealed.analyst, leases=sealed.leases())  # it has never seen the lease before
    sealed.clock.set_back(MINUTES_20)
    assert rounds.claim(here, OTHER, LEASE_S) is None
    sealed.clock.forward(LEASE_S + 1)
    assert rounds.claim(here, OTHER, LEASE_S) == sealed.id


def test_a_worker_on_another_machine_keeps_its_round_while_it_renews(sealed: World) -> None:
    claim(sealed)
    here = replace(sealed.analyst, leases=sealed.leases())
    for _ in range(5):
        assert rounds.claim(here, OTHER, LEASE_S) is None
        sealed.clock.forward(LEASE_S)
        sealed.clock.set_back(LEASE_S)  # what it writes down does not grow by the clock
        rounds.renew(sealed.analyst, sealed.id, OWNER, LEASE_S)
    assert rounds.claim(here, OTHER, LEASE_S) is None


def test_a_worker_that_holds_its_lock_but_is_silent_loses_its_round(sealed: World) -> None:
    process = claimed_by_a_process(sealed)
    assert claim(sealed, OTHER) is None
    sealed.clock.forward(LEASE_S + 1)
    assert claim(sealed, OTHER) == sealed.id
    process.leases.give_up(OWNER)


def test_a_late_consumer_that_a_killed_server_was_aligning_is_taken_up_at_once(world: World) -> None:
    world.until_anchored(make_terms(parties=(LEAD, HOSPITAL, "late"), late_consumers=("late",)))
    for seed, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(world.terms, party, seed=seed))
    claim(world)
    finish(world)
    world.send(make_uplink(world.terms, "late", rows=0))
    process = replace(world.analyst, leases=world.leases())
    process.leases.hold(OWNER)
    assert latecomers.claim(process, OWNER, LEASE_S) is not None
    assert latecomers.claim(world.analyst, OTHER, LEASE_S) is None
    killed(world, process)
    world.clock.set_back(MINUTES_20)
    assert latecomers.claim(world.analyst, OTHER, LEASE_S) is not None


def test_the_locks_of_ended_workers_are_removed_once_no_round_names_them(sealed: World) -> None:
    process = claimed_by_a_process(sealed)
    killed(sealed, process)
    files = sealed.directory / "workers"
    rounds.forget_ended_workers(sealed.analyst)
    assert [path.stem for path in files.iterdir()] == [OWNER]
    assert claim(sealed, OTHER) == sealed.id
    rounds.forget_ended_workers(sealed.analyst)
    assert list(files.iterdir()) == []


def test_the_worker_that_takes_a_round_up_removes_the_lock_of_the_ended_one(sealed: World) -> None:
    killed(sealed, claimed_by_a_process(sealed))
    Watched(sealed).run_one()
    assert list((sealed.directory / "workers").iterdir()) == []


def test_the_lock_of_a_live_worker_stays(sealed: World) -> None:
    process = replace(sealed.analyst, leases=sealed.leases())
    process.leases.hold(OWNER)
    rounds.forget_ended_workers(sealed.analyst)
    assert (sealed.directory / "workers" / f"{OWNER}.lock").exists()
    process.leases.give_up(OWNER)


def test_a_worker_that_slept_beyond_its_lease_publishes_nothing(sealed: World) -> None:
    process = claimed_by_a_process(sealed)
    assert claim(sealed, OTHER) is None
    sealed.clock.forward(LEASE_S + 1)
    assert claim(sealed, OTHER) == sealed.id
    steps: list[Callable[[], object]] = [
        partial(rounds.begin_training, process, sealed.id, OWNER),
        partial(rounds.renew, process, sealed.id, OWNER, LEASE_S),
        partial(rounds.fail, process, sealed.id, OWNER, "why"),
        partial(rounds.hand_back, process, sealed.id, OWNER),
        partial(rounds.end_lease, process, sealed.id, OWNER),
        partial(rounds.compute, process, sealed.id, OWNER),
    ]
    for step in steps:
        with pytest.raises(RoundFailedError, match="another worker"):
            step()
    assert (sealed.state, sealed.row().lease_owner) == ("aligning", OTHER)
    finish(sealed, OTHER)
    assert sealed.state == "released"
    process.leases.give_up(OWNER)


def test_a_claim_is_not_taken_for_a_later_one_of_the_same_name(sealed: World) -> None:
    process = claimed_by_a_process(sealed)
    first = sealed.row().lease_number
    again = replace(sealed.analyst, leases=sealed.leases())
    assert rounds.claim(again, OWNER, LEASE_S) is None
    sealed.clock.forward(LEASE_S + 1)
    assert rounds.claim(again, OWNER, LEASE_S) == sealed.id
    assert sealed.row().lease_number > first
    with pytest.raises(RoundFailedError):
        rounds.begin_training(process, sealed.id, OWNER)
    rounds.begin_training(again, sealed.id, OWNER)
    process.leases.give_up(OWNER)
