"""What the operator does with a round: exclude, seal, resume, release, cancel, close."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from analyst_server.services import downlinks, rounds
from protocol.errors import InputError, OutOfOrderError
from tests.harness.computing import OWNER, claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

Run = Callable[..., Any]


def test_a_party_is_excluded_and_the_round_is_resumed(run: Run, world: World) -> None:
    world.until_sealed(make_terms(parties=(LEAD, HOSPITAL, "hospital-b")))
    claim(world)
    finish(world, hold=True)
    told = run("collaboration", "exclude", world.id[:6], HOSPITAL)
    assert told.exit_code == 0
    assert f"{HOSPITAL} is excluded; next: odc-analyst collaboration resume {world.id}" in told.output
    assert "excluded, terms signed" in run("collaboration", "show", world.id).output
    assert run("collaboration", "resume", world.id).exit_code == 0
    shown = json.loads(run("collaboration", "exclude", world.id, HOSPITAL, "--json").output)
    assert [member["excluded"] for member in shown["members"]] == [True, False, False]


def test_a_failed_collaboration_is_shown_with_its_reason(run: Run, world: World) -> None:
    world.until_sealed()
    claim(world)
    rounds.fail(world.analyst, world.id, OWNER, "no rows of class 1")
    assert "failed: no rows of class 1" in run("collaboration", "show", world.id).output
    assert run("collaboration", "resume", world.id).exit_code == 0
    assert world.state == "sealed"


def test_a_round_is_sealed_by_a_word(run: Run, world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    assert run("collaboration", "seal", world.id).exit_code == 0
    assert world.state == "sealed"


def test_a_held_round_is_released_by_a_word(run: Run, world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world, hold=True)
    said = run("collaboration", "release", world.id).output
    assert said == f"Readmission ({world.id[:8]}): released\n"
    assert world.state == "released"


def test_a_collaboration_is_given_up_by_a_word(run: Run, world: World) -> None:
    world.publish()
    run("collaboration", "cancel", world.id)
    assert world.state == "cancelled"


def test_what_was_sent_is_given_up_by_a_second_word(run: Run, world: World) -> None:
    world.until_sealed()
    refused = run("collaboration", "cancel", world.id).exception
    assert isinstance(refused, InputError)
    assert f"{HOSPITAL}, {LEAD} sent to this round" in refused.detail
    assert "--yes" in refused.hint
    assert world.state == "sealed"
    assert run("collaboration", "cancel", world.id, "--yes").exit_code == 0
    assert world.state == "cancelled"


def test_what_comes_next_is_said_of_a_released_round(run: Run, world: World) -> None:
    world.until_sealed()
    claim(world)
    assert "next:" not in run("collaboration", "show", world.id).output
    finish(world)
    shown = run("collaboration", "show", world.id).output
    assert f"next: odc-analyst collaboration report {world.id[:8]}" in shown


def test_a_collaboration_is_closed_when_all_have_fetched_or_by_a_word(run: Run, world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world)
    downlinks.fetch(world.analyst, identity(LEAD), world.id).acknowledge()
    refused = run("collaboration", "close", world.id).exception
    assert isinstance(refused, InputError)
    assert f"by {HOSPITAL}," in refused.detail
    assert world.state == "released"
    assert "erased" in run("collaboration", "close", world.id, "--yes").output
    assert world.state == "closed"


def test_a_command_that_changes_a_collaboration_shows_machines_what_it_is_now(run: Run, world: World) -> None:
    world.publish()
    shown = json.loads(run("collaboration", "cancel", world.id, "--json").output)
    assert (shown["collaboration_id"], shown["state"]) == (world.id, "cancelled")


def test_a_command_at_the_wrong_time_is_refused(run: Run, world: World) -> None:
    world.publish()
    assert isinstance(run("collaboration", "release", world.id).exception, OutOfOrderError)
