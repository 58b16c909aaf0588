from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from analyst_server.services import end, views
from analyst_server.store import Records, Unit
from protocol.answers import MemberStatus, Status
from protocol.errors import NotFoundError, OutOfOrderError
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink


def status(world: World, party: str = HOSPITAL) -> Status:
    return views.status(world.analyst, identity(party), world.id)


def member(world: World, party: str) -> MemberStatus:
    return {row["party"]: row for row in status(world)["members"]}[party]


def test_the_status_waits_for_every_signature_first(world: World) -> None:
    world.publish()
    world.accept(LEAD)
    assert status(world)["waiting_for"] == [f"{HOSPITAL}: odc terms accept"]


def test_the_status_waits_for_the_anchor_next(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    assert status(world)["waiting_for"] == [f"{LEAD}: odc anchor create"]


def test_the_status_waits_for_uplinks_then(world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    assert status(world)["waiting_for"] == [f"{HOSPITAL}: odc contribute"]


def test_the_status_waits_for_the_analyst_after_the_seal(world: World) -> None:
    world.until_sealed()
    assert status(world)["waiting_for"] == ["the analyst: the round is computed"]


def test_the_status_waits_for_nobody_once_cancelled(world: World) -> None:
    world.publish()
    end.cancel(world.analyst, world.id)
    assert status(world)["waiting_for"] == []


def test_the_status_shows_how_far_each_uplink_is(world: World) -> None:
    world.until_anchored()
    assert member(world, HOSPITAL)["uplink"] == "none"
    uplink = make_uplink(world.terms, HOSPITAL)
    upload_id = world.begin(uplink).upload_id
    assert member(world, HOSPITAL)["uplink"] == "receiving"
    world.append(uplink, upload_id)
    world.complete(uplink, upload_id)
    assert (member(world, HOSPITAL)["uplink"], member(world, HOSPITAL)["rows"]) == ("received", 30)


def test_the_status_says_who_asks(world: World) -> None:
    world.publish()
    assert status(world, LEAD)["you"] == {"party": LEAD, "role": "lead"}


def test_the_listing_has_only_what_the_sender_is_a_member_of(world: World) -> None:
    world.publish()
    world.publish(make_terms(collaboration_id="d0" * 16, parties=(LEAD,)))
    rows = views.listing(world.analyst, identity(HOSPITAL))
    assert [row["collaboration_id"] for row in rows] == ["c0" * 16]


def test_the_operator_sees_all_collaborations(world: World) -> None:
    world.publish()
    world.publish(make_terms(collaboration_id="d0" * 16, parties=(LEAD,)))
    rows = views.listing(world.analyst, None)
    assert {row["collaboration_id"] for row in rows} == {"c0" * 16, "d0" * 16}
    assert all(row["you"] is None for row in rows)


def test_the_operator_sees_one_collaboration_by_its_id(world: World) -> None:
    world.publish()
    row = views.status(world.analyst, None, world.id)
    assert row["collaboration_id"] == world.id


def test_a_receipt_is_shown_again(world: World) -> None:
    world.until_anchored()
    sent = world.send(make_uplink(world.terms, HOSPITAL))
    assert views.receipt(world.analyst, identity(HOSPITAL), world.id) == sent


def test_there_is_no_receipt_before_the_uplink_is_complete(world: World) -> None:
    world.until_anchored()
    world.begin(make_uplink(world.terms, HOSPITAL))
    with pytest.raises(NotFoundError):
        views.receipt(world.analyst, identity(HOSPITAL), world.id)


def test_nothing_is_taken_once_cancelled(world: World) -> None:
    world.until_anchored()
    end.cancel(world.analyst, world.id)
    with pytest.raises(OutOfOrderError):
        world.begin(make_uplink(world.terms, HOSPITAL))


def test_a_collaboration_shows_its_state(world: World) -> None:
    world.publish()
    assert repr(world.row()) == "<Collaboration c0c0c0c0 enrolling>"


def test_the_store_is_asked_what_has_arrived_after_the_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.until_anchored()
    uplink = make_uplink(world.terms, HOSPITAL)
    world.begin(uplink)
    is_open, asked = [False], list[bool]()
    begin, partial_size = Records.begin, type(world.analyst.blobs).partial_size

    @contextmanager
    def watched(records: Records, **options: Any) -> Iterator[Unit]:
        with begin(records, **options) as unit:
            is_open[0] = True
            yield unit
        is_open[0] = False

    def noted(blobs: Any, key: str) -> int | None:
        asked.append(is_open[0])
        return partial_size(blobs, key)

    monkeypatch.setattr(Records, "begin", watched)
    monkeypatch.setattr(type(world.analyst.blobs), "partial_size", noted)
    assert member(world, HOSPITAL)["payload_bytes"] > 0
    assert views.own_status(world.analyst, identity(HOSPITAL), world.id)["members"][0]["arrived_bytes"] == 0
    assert views.listing(world.analyst, identity(LEAD))[0]["members"][1]["party"] == LEAD
    assert asked == [False] * 3
