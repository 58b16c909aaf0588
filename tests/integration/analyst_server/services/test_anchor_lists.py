"""A sealed anchor that comes in several lists, as that of a large round does."""

from __future__ import annotations

import pytest

from analyst_server.services import prepare, views
from protocol.errors import OutOfOrderError
from tests.harness.world import HOSPITAL, LEAD, World, identity


def is_ready(world: World, party: str) -> bool:
    members = views.status(world.analyst, identity(LEAD), world.id)["members"]
    return {row["party"]: row["anchor_ready"] for row in members}[party]


def test_the_anchor_may_come_in_several_lists(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    bodies = {party: world.sealed_anchor(party) for party in (LEAD, HOSPITAL)}
    for _ in range(2):
        world.publish_anchor([bodies[LEAD]])
    assert world.state == "enrolling"
    assert not is_ready(world, LEAD)
    with pytest.raises(OutOfOrderError):
        prepare.sealed_anchor(world.analyst, identity(LEAD), world.id)
    world.publish_anchor([bodies[HOSPITAL]])
    assert world.state == "anchored"
    for party, body in bodies.items():
        assert prepare.sealed_anchor(world.analyst, identity(party), world.id) == body
        world.publish_anchor([body])  # the answer may have been lost


def test_a_list_of_another_anchor_replaces_what_was_kept(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    world.publish_anchor([world.sealed_anchor(LEAD)])
    other = {party: world.sealed_anchor(party, seed=b"\xff" * 32) for party in (LEAD, HOSPITAL)}
    world.publish_anchor([other[HOSPITAL]])
    assert world.state == "enrolling"
    world.publish_anchor([other[LEAD]])
    assert world.state == "anchored"
    assert prepare.sealed_anchor(world.analyst, identity(LEAD), world.id) == other[LEAD]


def test_another_signature_between_two_lists_takes_away_what_was_sealed_to_the_first(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    world.publish_anchor([world.sealed_anchor(HOSPITAL)])
    body = world.acceptance(HOSPITAL, sealing_key=b"another key")
    prepare.accept(world.analyst, identity(HOSPITAL), world.id, body)
    world.publish_anchor([world.sealed_anchor(LEAD)])
    assert world.state == "enrolling"
    world.publish_anchor([world.sealed_anchor(HOSPITAL)])
    assert world.state == "anchored"
