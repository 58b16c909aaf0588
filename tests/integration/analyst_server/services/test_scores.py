"""The scores that members send back: from whom, when, under which terms; and who reads them."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services import end, report, rounds, scores
from protocol.errors import (
    ConsentMissingError,
    NotFoundError,
    NotPermittedError,
    OutOfOrderError,
    TermsMismatchError,
)
from tests.harness.computing import OWNER, claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms

MAY = make_terms(returns_scores=True)


def send(world: World, party: str = HOSPITAL, **changed: Any) -> None:
    scores.send(world.analyst, identity(party), world.id, world.score(party, **changed))


def released(world: World) -> World:
    world.until_sealed(MAY)
    claim(world)
    finish(world)
    return world


def test_every_member_and_the_operator_read_a_score(world: World) -> None:
    send(released(world))
    shown = {
        "party": HOSPITAL,
        "rows": 12,
        "metric": "roc_auc",
        "together": 0.875,
        "alone": 0.75,
        "gain_low": 0.0625,
        "gain_high": 0.1875,
        "received_at": world.clock(),
    }
    assert report.for_member(world.analyst, identity(LEAD), world.id)["member_scores"] == [shown]
    assert report.for_operator(world.analyst, world.id)["member_scores"] == [shown]


def test_a_second_score_replaces_the_first_and_others_stay(world: World) -> None:
    released(world)
    send(world, LEAD)
    send(world)
    send(world, together=0.5, alone=None, gain_low=None, gain_high=None)
    found = report.for_operator(world.analyst, world.id)["member_scores"]
    assert [(one["party"], one["together"], one["alone"]) for one in found] == [
        (HOSPITAL, 0.5, None),
        (LEAD, 0.875, 0.75),
    ]


def test_a_score_is_no_step_of_the_ledger(world: World) -> None:
    before = report.for_operator(released(world).analyst, world.id)["history"]
    send(world)
    assert report.for_operator(world.analyst, world.id)["history"] == before


def test_a_closed_round_takes_scores_too(world: World) -> None:
    end.close(released(world).analyst, world.id)
    send(world)
    assert len(report.for_operator(world.analyst, world.id)["member_scores"]) == 1


def test_nobody_sends_a_score_for_another(world: World) -> None:
    released(world)
    for_us = world.score(HOSPITAL)
    with pytest.raises(NotPermittedError, match="signed by"):
        scores.send(world.analyst, identity(LEAD), world.id, for_us)
    with pytest.raises(NotPermittedError, match="of another party"):
        scores.send(world.analyst, identity(LEAD), world.id, world.score(HOSPITAL, by=LEAD))
    with pytest.raises(NotFoundError):
        scores.send(world.analyst, identity("hospital-z"), world.id, world.score("hospital-z"))


def test_a_score_of_another_round_or_of_other_terms_is_refused(world: World) -> None:
    released(world)
    with pytest.raises(NotPermittedError, match="or collaboration"):
        send(world, collaboration_id="d1" * 16)
    with pytest.raises(TermsMismatchError):
        send(world, terms_digest=bytes(32))


def test_terms_that_do_not_say_so_take_no_score(world: World) -> None:
    world.until_sealed()
    with pytest.raises(ConsentMissingError, match="do not let institutions") as caught:
        send(world)
    assert "returns_scores" in caught.value.hint


@pytest.mark.parametrize("state", ["sealed", "failed", "cancelled"])
def test_a_round_that_is_not_released_takes_no_score(world: World, state: str) -> None:
    world.until_sealed(MAY)
    if state == "failed":
        claim(world)
        rounds.fail(world.analyst, world.id, OWNER, "the disk is full")
    elif state == "cancelled":
        end.cancel(world.analyst, world.id)
    with pytest.raises(OutOfOrderError, match=f"{state}: 'send score'"):
        send(world)
