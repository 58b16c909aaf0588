"""A computation that ends its server each time does not keep the server from everything else for ever."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services import end, judging, report, rounds
from tests.harness.computing import LEASE_S, OTHER, OWNER, claim, finish
from tests.harness.world import World


@pytest.fixture
def sealed(world: World) -> World:
    return world.until_sealed()


def results_of(world: World) -> Any:
    return report.for_operator(world.analyst, world.id)["results"]


def cut_off(world: World, times: int) -> None:
    """Let one worker after another claim the round, and end without a word."""
    for number in range(times):
        assert claim(world, f"ended-{number}") == world.id
        world.clock.forward(LEASE_S + 1)


def test_a_round_fails_once_so_many_workers_have_ended_with_it(sealed: World) -> None:
    cut_off(sealed, rounds.MOST_CUT_OFF)
    assert claim(sealed) is None
    assert sealed.state == "failed"
    told = report.for_operator(sealed.analyst, sealed.id)
    assert told["failure"] == rounds.CUT_OFF_TOO_OFTEN


def test_one_time_fewer_is_computed(sealed: World) -> None:
    cut_off(sealed, rounds.MOST_CUT_OFF - 1)
    assert claim(sealed) == sealed.id
    finish(sealed)
    assert sealed.state == "released"


def test_what_a_worker_hands_back_does_not_count(sealed: World) -> None:
    for _ in range(rounds.MOST_CUT_OFF + 1):  # an operator restarts the server
        assert claim(sealed) == sealed.id
        rounds.hand_back(sealed.analyst, sealed.id, OWNER)
    assert sealed.state == "sealed"


def test_a_worker_that_lives_and_let_go_does_not_count(sealed: World) -> None:
    """Its disk or its database was away when it wrote, for example."""
    for _ in range(rounds.MOST_CUT_OFF + 1):
        assert claim(sealed) == sealed.id
        sealed.clock.forward(LEASE_S + 1)
    assert sealed.state == "aligning"


def test_the_operator_who_resumes_it_gives_it_as_many_times_again(sealed: World) -> None:
    cut_off(sealed, rounds.MOST_CUT_OFF)
    assert claim(sealed) is None
    rounds.resume(sealed.analyst, sealed.id)
    cut_off(sealed, rounds.MOST_CUT_OFF - 1)
    assert claim(sealed) == sealed.id


def test_it_can_be_cancelled_instead(sealed: World) -> None:
    cut_off(sealed, rounds.MOST_CUT_OFF)
    assert claim(sealed) is None
    end.cancel(sealed.analyst, sealed.id)
    assert sealed.state == "cancelled"


def test_a_model_whose_judgement_ends_its_servers_stays_without_one(sealed: World) -> None:
    cut_off(sealed, rounds.MOST_CUT_OFF - 1)
    assert claim(sealed) == sealed.id
    rounds.compute(sealed.analyst, sealed.id, OWNER)  # from here on it is counted anew
    for number in range(rounds.MOST_CUT_OFF):
        assert judging.claim(sealed.analyst, f"ended-{number}", LEASE_S) == sealed.id
        sealed.clock.forward(LEASE_S + 1)
    assert judging.claim(sealed.analyst, OTHER, LEASE_S) == sealed.id
    steps: list[object] = []

    def run(step: Any, /, *given: Any, **options: Any) -> Any:
        steps.append(step)
        return step(*given, **options)

    judging.compute(sealed.analyst, sealed.id, OTHER, run=run)
    assert not steps
    judgement = results_of(sealed)["judgement"]
    assert judgement["why_none"] == f"judging failed: {rounds.CUT_OFF_TOO_OFTEN}"
    assert sealed.state == "released"
