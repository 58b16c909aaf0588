"""A server that is older than the terms of one round does everything else, and leaves that round alone."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from analyst_server.services import judging, newer, overview, retention, rounds, views
from analyst_server.services.waits import Watcher
from protocol.codec import decode, encode
from protocol.envelope import Signed
from protocol.errors import MalformedMessageError
from protocol.version import OlderServerError
from tests.harness.app import Api, slug
from tests.harness.computing import OWNER, Pool, Watched, claim
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms

OF_NEWER, PLAIN = "1" * 32, "2" * 32


def with_a_new_field(signed: bytes) -> bytes:
    """Return a signed message as a version would store it that has given it a field."""
    known = decode(Signed, signed)
    content = {**msgpack.unpackb(known.payload), "zz_of_a_later_version": 1}
    return encode(known.model_copy(update={"payload": msgpack.packb(dict(sorted(content.items())))}))


def let_newer_have_stored(world: World, collaboration_id: str) -> None:
    with world.records.begin(write=True) as unit:
        row = unit.collaboration(collaboration_id)
        assert row is not None
        row.terms = with_a_new_field(row.terms)


def steps(world: World, collaboration_id: str) -> int:
    with world.records.begin() as unit:
        return len(unit.ledger(collaboration_id))


def state(world: World, collaboration_id: str) -> str:
    with world.records.begin() as unit:
        row = unit.collaboration(collaboration_id)
        assert row is not None
        return row.state


@pytest.fixture
def both(world: World) -> World:
    """The analyst with a sealed round that a newer server has stored, and later a plain one."""
    world.until_sealed(make_terms(collaboration_id=OF_NEWER, retention_days=30))
    let_newer_have_stored(world, OF_NEWER)
    world.clock.forward(10)
    return world.until_sealed(make_terms(collaboration_id=PLAIN, retention_days=30))


def test_a_list_has_the_round_with_what_is_known_without_its_terms(both: World) -> None:
    listed = {one["collaboration_id"]: one for one in views.listing(both.analyst, identity(HOSPITAL))}
    assert list(listed) == [OF_NEWER, PLAIN]
    of_newer = listed[OF_NEWER]
    assert (of_newer["state"], of_newer["unreadable"]) == ("sealed", True)
    assert of_newer["waiting_for"] == [views.UPGRADE]
    assert [(one["party"], one["uplink"], one["rows"]) for one in of_newer["members"]] == [
        (HOSPITAL, "received", None),
        (LEAD, "received", None),
    ]
    assert "erase_at" not in of_newer
    assert "unreadable" not in listed[PLAIN]
    assert "erase_at" in listed[PLAIN]


@pytest.mark.parametrize("use_case", [views.status, views.own_status])
def test_to_ask_for_it_alone_says_which_side_is_older(both: World, use_case: Any) -> None:
    with pytest.raises(OlderServerError, match="older than the terms of this collaboration") as caught:
        use_case(both.analyst, identity(HOSPITAL), OF_NEWER)
    assert isinstance(caught.value.__cause__, MalformedMessageError)
    assert "another server" in caught.value.hint


def test_a_member_reads_503_for_the_one_and_the_list_of_all(both: World, api: Api) -> None:
    """`api` is of the same analyst."""
    listed = api.as_party(HOSPITAL).get("/v1/collaborations")
    assert listed.status_code == 200
    assert len(listed.json()["collaborations"]) == 2
    for path in ("", "/report", "/terms/words"):
        answer = api.as_party(HOSPITAL).get(f"/v1/collaborations/{OF_NEWER}{path}")
        assert (answer.status_code, slug(answer)) == (503, "older-server")


@pytest.fixture
def api(world: World) -> Api:
    return Api(world)


def test_it_is_not_claimed_and_holds_up_no_other(both: World) -> None:
    before = steps(both, OF_NEWER)
    assert claim(both) == PLAIN
    assert claim(both) is None
    assert (state(both, OF_NEWER), steps(both, OF_NEWER)) == ("sealed", before)


def test_one_whose_newer_server_was_killed_is_not_taken_up(both: World) -> None:
    with both.records.begin(write=True) as unit:
        row = unit.collaboration(OF_NEWER)
        assert row is not None
        row.state, row.lease_owner = "aligning", None
    before = steps(both, OF_NEWER)
    assert claim(both) == PLAIN
    assert (state(both, OF_NEWER), steps(both, OF_NEWER)) == ("aligning", before)


def test_no_model_of_it_is_judged(both: World) -> None:
    with both.records.begin(write=True) as unit:
        row = unit.collaboration(OF_NEWER)
        assert row is not None
        row.state, row.unjudged = "released", {"folder": "x"}
    assert judging.claim(both.analyst, OWNER, 10) is None


def test_what_is_kept_for_a_time_only_is_ended_without_it(both: World) -> None:
    assert [one.collaboration_id for one in retention.kept(both.analyst)] == [PLAIN]
    both.clock.forward(31 * retention.DAY_S)
    assert [one.ended for one in retention.purge(both.analyst)] == [True]
    assert state(both, OF_NEWER) == "sealed"


def test_metrics_and_notices_are_of_the_others(both: World) -> None:
    found = overview.look(both.analyst)
    assert (found.collaborations["sealed"], found.awaited) == (2, {"compute": 1})
    Watcher(both.analyst, monotonic=both.clock.monotonic).look()


# a round whose terms are known, and whose uplinks are not


@pytest.fixture
def with_newer_uplinks(world: World) -> World:
    world.until_sealed()
    with world.records.begin(write=True) as unit:
        for uplink in unit.received_uplinks(world.id):
            uplink.manifest = with_a_new_field(uplink.manifest)
    return world


def test_what_turns_out_to_be_for_a_newer_server_is_handed_back_and_not_claimed_again(
    with_newer_uplinks: World,
) -> None:
    world = with_newer_uplinks
    Watched(world, Pool()).run_one()
    row, before = world.row(), steps(world, world.id)
    assert (row.state, row.failure, row.lease_owner) == ("aligning", None, None)
    for _ in range(3):
        assert claim(world) is None
    assert steps(world, world.id) == before


def test_a_newer_server_takes_it_up_at_once(with_newer_uplinks: World) -> None:
    world = with_newer_uplinks
    Watched(world, Pool()).run_one()
    world.analyst.left_alone.clear()  # as another process has it
    assert rounds.claim(world.analyst, "worker of a newer server", 10) == world.id


def test_after_a_long_time_it_is_tried_again(
    with_newer_uplinks: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watched(with_newer_uplinks, Pool()).run_one()
    assert claim(with_newer_uplinks) is None
    monkeypatch.setattr(newer, "LEFT_ALONE_S", 0.0)
    assert claim(with_newer_uplinks) == with_newer_uplinks.id


def test_any_other_error_of_ours_fails_the_round_with_its_words(world: World) -> None:
    """A lease that was left would be claimed again, and again: two steps of the ledger each time."""

    def step(*_: Any) -> Any:
        raise MalformedMessageError("Thing", "is none")

    Watched(world.until_sealed(), Pool(step)).run_one()
    assert (world.state, world.row().failure) == ("failed", "Thing: is none")
