"""Terms that a party rejects, and terms that replace others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analyst_server.services import end, prepare, views
from analyst_server.services.anchor_matrix import matrix_key
from protocol.answers import MemberStatus
from protocol.errors import MalformedMessageError, NotFoundError, OutOfOrderError, TermsMismatchError
from protocol.invitation import Rejection
from protocol.terms import Terms
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

OTHER_ID = "0f" * 16


def member(world: World, party: str) -> MemberStatus:
    status = views.status(world.analyst, identity(HOSPITAL), world.id)
    return {row["party"]: row for row in status["members"]}[party]


def reject(world: World, party: str, reason: str) -> None:
    prepare.reject(world.analyst, identity(party), world.id, Rejection.body_of(reason))


def test_a_party_that_rejects_the_terms_is_named_to_all_with_its_reason_until_it_signs(world: World) -> None:
    world.publish()
    reject(world, HOSPITAL, "the range of age is too narrow")
    assert member(world, HOSPITAL)["rejected"] == "the range of age is too narrow"
    awaited = views.status(world.analyst, None, world.id)["waiting_for"]
    assert f"the analyst: other terms, or none: {HOSPITAL} rejects these: the range of age is too narrow" in (
        awaited
    )
    assert f"{LEAD}: odc terms accept" in awaited
    world.accept(HOSPITAL)
    assert (member(world, HOSPITAL)["rejected"], member(world, HOSPITAL)["accepted"]) == (None, True)


def test_signed_terms_cannot_be_rejected(world: World) -> None:
    world.publish()
    world.accept(HOSPITAL)
    with pytest.raises(OutOfOrderError, match="has signed these terms"):
        reject(world, HOSPITAL, "too late")
    assert member(world, HOSPITAL)["rejected"] is None


def test_only_terms_that_can_be_signed_are_rejected_by_their_members(world: World) -> None:
    world.publish()
    with pytest.raises(NotFoundError):
        reject(world, "stranger", "not ours")
    with pytest.raises(MalformedMessageError, match="reason"):
        prepare.reject(world.analyst, identity(HOSPITAL), world.id, b'{"reason": "two\\nlines"}')
    end.cancel(world.analyst, world.id)
    with pytest.raises(OutOfOrderError):
        reject(world, HOSPITAL, "cancelled")


def corrected(world: World, **changed: Any) -> Terms:
    return make_terms(collaboration_id=OTHER_ID, replaces=world.id, **{"title": "Corrected", **changed})


def test_corrected_terms_end_the_round_that_they_replace(world: World) -> None:
    world.publish()
    world.accept(HOSPITAL)
    prepare.create(world.analyst, corrected(world))
    states = {row["collaboration_id"]: row["state"] for row in views.listing(world.analyst, None)}
    assert states == {world.id: "cancelled", OTHER_ID: "enrolling"}
    earlier = world.acceptance(HOSPITAL, collaboration_id=OTHER_ID)
    with pytest.raises(TermsMismatchError):
        prepare.accept(world.analyst, identity(HOSPITAL), OTHER_ID, earlier)


def test_terms_cannot_be_replaced_once_somebody_sends(world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, HOSPITAL))
    with pytest.raises(OutOfOrderError, match="until the first institution sends") as caught:
        prepare.create(world.analyst, corrected(world))
    assert "without --replaces" in (caught.value.hint or "")
    assert [row["collaboration_id"] for row in views.listing(world.analyst, None)] == [world.id]
    assert views.status(world.analyst, None, world.id)["state"] == "collecting"


def test_terms_in_which_nothing_is_corrected_replace_none(world: World) -> None:
    world.publish()
    same = corrected(world, title=world.terms.title)
    with pytest.raises(MalformedMessageError, match="nothing is corrected in them"):
        prepare.create(world.analyst, same)
    assert views.status(world.analyst, None, world.id)["state"] == "enrolling"


def test_terms_that_were_replaced_are_not_replaced_again(world: World) -> None:
    world.publish()
    prepare.create(world.analyst, corrected(world))
    again = make_terms(collaboration_id="d" * 32, replaces=world.id, title="Corrected again")
    with pytest.raises(OutOfOrderError, match="if other terms have replaced it, replace those"):
        prepare.create(world.analyst, again)


def test_terms_that_replace_an_unknown_round_are_not_published(world: World) -> None:
    with pytest.raises(NotFoundError):
        prepare.create(world.analyst, corrected(world))
    assert views.listing(world.analyst, None) == []


def test_a_sealed_matrix_of_replaced_terms_is_erased(world: World) -> None:
    world.publish()
    key = matrix_key(world.id)
    world.analyst.blobs.write(key, b"sealed")
    world.enrol(HOSPITAL)
    draft = corrected(world).model_dump(mode="json", exclude={"consortium_id", "collaboration_id"})
    assert prepare.create_once(world.analyst, OTHER_ID, json.dumps(draft).encode())
    assert not world.analyst.blobs.exists(key)
    assert not prepare.create_once(world.analyst, OTHER_ID, json.dumps(draft).encode())
