"""How far a round is, as its worker has written it down."""

from __future__ import annotations

import pytest

from analyst_server.services import rounds, views
from protocol.answers import Computing
from protocol.errors import RoundFailedError
from tests.harness.world import World


def computing(world: World) -> object:
    return views.status(world.analyst, None, world.id).get("computing")


def test_how_far_a_round_is_is_said_for_as_long_as_its_worker_has_it(world: World) -> None:
    world.until_sealed()
    told: Computing = {"stage": "training", "at": world.clock(), "done": 3, "of": 9, "unit": "epochs"}
    assert rounds.claim(world.analyst, "one", 60) == world.id
    assert computing(world) is None
    rounds.note_progress(world.analyst, world.id, "one", told)
    assert computing(world) == told
    rounds.renew(world.analyst, world.id, "one", 60)
    assert computing(world) == told
    rounds.fail(world.analyst, world.id, "one", "a reason")
    assert computing(world) is None
    rounds.resume(world.analyst, world.id)
    assert rounds.claim(world.analyst, "two", 60) == world.id
    assert computing(world) is None, "that was another worker's"
    with pytest.raises(RoundFailedError):
        rounds.note_progress(world.analyst, world.id, "one", told)
    rounds.note_progress(world.analyst, world.id, "two", told)
    rounds.compute(world.analyst, world.id, "two", hold_release=True)
    assert computing(world) is None, "it is held"
