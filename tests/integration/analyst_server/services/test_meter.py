from __future__ import annotations

from typing import Any

import pytest

from analyst_server.services import views
from analyst_server.services.meter import Meter, counts_of
from analyst_server.services.report import for_member, for_operator
from analyst_server.store import Records
from metering.counts import Counts, Flow
from metering.server import Purpose
from tests.harness.certificates import NOW
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_uplink

SOME = Counts(Flow(100, 0, 80, 50, 3), Flow(200, 7, 150, 120, 4))


@pytest.fixture
def meter(world: World) -> Meter:
    return Meter(world.records, "kernel", world.analyst.clock)


def stored(world: World, party: str, collaboration_id: str, kind: str) -> Counts | None:
    with world.records.begin() as unit:
        row = unit.traffic_of(party, collaboration_id, kind)
    return counts_of(row) if row is not None else None


def test_counts_are_added_up_by_party_collaboration_and_kind(world: World, meter: Meter) -> None:
    world.publish()
    for _ in range(2):
        meter.add(Purpose("uplink", LEAD, world.id), SOME)
        meter.add(Purpose("uplink", HOSPITAL, world.id), SOME)
        meter.add(Purpose("control", LEAD), SOME)
        meter.flush()
    twice = SOME + SOME
    assert stored(world, LEAD, world.id, "uplink") == twice
    assert stored(world, HOSPITAL, world.id, "uplink") == twice
    assert stored(world, LEAD, "", "control") == twice


def last_seen(world: World) -> dict[str, int | None]:
    members = views.status(world.analyst, None, world.id)["members"]
    return {member["party"]: member["last_seen_at"] for member in members}


def test_a_member_was_last_seen_when_its_bytes_were_written_down(world: World, meter: Meter) -> None:
    world.publish()
    assert set(last_seen(world).values()) == {None}
    world.clock.forward(60)
    meter.add(Purpose("control", HOSPITAL, world.id), SOME)
    meter.add(Purpose("control", LEAD), SOME)
    meter.flush()
    seen = {
        one["party"]: one["last_seen_at"] for one in views.status(world.analyst, None, world.id)["members"]
    }
    assert (seen[HOSPITAL], seen[LEAD]) == (NOW + 60, None), (
        "a request that names no round tells nothing of one"
    )


def test_nothing_is_written_before_the_flush_and_nothing_twice(world: World, meter: Meter) -> None:
    meter.add(Purpose("control", LEAD), SOME)
    assert stored(world, LEAD, "", "control") is None
    meter.flush()
    meter.flush()
    assert stored(world, LEAD, "", "control") == SOME


def test_stopping_writes_what_is_left(world: World, meter: Meter) -> None:
    meter.start()
    meter.add(Purpose("control", LEAD), SOME)
    meter.stop()
    assert stored(world, LEAD, "", "control") == SOME


def test_counts_are_kept_while_the_database_is_away(
    world: World, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OSError

    meter.add(Purpose("control", LEAD), SOME)
    with monkeypatch.context() as patch:
        patch.setattr(Records, "begin", away)
        with pytest.raises(OSError):  # noqa: PT011  # any error of a database
            meter.flush()
    meter.add(Purpose("control", LEAD), SOME)
    meter.flush()
    assert stored(world, LEAD, "", "control") == SOME + SOME


def test_an_upload_leads_to_its_collaboration(world: World, meter: Meter) -> None:
    world.until_anchored()
    upload_id = world.begin(make_uplink(world.terms, HOSPITAL)).upload_id
    meter.add(Purpose("uplink", HOSPITAL, upload_id=upload_id), SOME)
    meter.flush()
    assert stored(world, HOSPITAL, world.id, "uplink") == SOME


@pytest.mark.parametrize(
    "purpose",
    [
        Purpose("uplink", HOSPITAL, "ff" * 16),
        Purpose("uplink", HOSPITAL, upload_id="made-up"),
    ],
)
def test_a_name_a_peer_has_made_up_is_not_kept(world: World, meter: Meter, purpose: Purpose) -> None:
    meter.add(purpose, SOME)
    meter.flush()
    assert stored(world, HOSPITAL, "", "uplink") == SOME


def test_who_is_no_member_leaves_nothing_with_a_collaboration(world: World, meter: Meter) -> None:
    world.publish()
    meter.add(Purpose("control", "stranger", world.id), SOME)
    meter.add(Purpose("control", "", world.id, invitation_id="0" * 32), SOME)
    meter.flush()
    assert stored(world, "stranger", world.id, "control") is None
    assert stored(world, "", "", "control") == SOME


def test_joining_belongs_to_the_party_that_joined(
    world: World, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Enrolled:
        party = HOSPITAL

    monkeypatch.setattr("analyst_server.store.records.Unit.enrolment", lambda *_: Enrolled())
    meter.add(Purpose(invitation_id="ab" * 16), SOME)
    meter.flush()
    assert stored(world, HOSPITAL, "", "control") == SOME


def test_a_sum_says_transport_once_our_own_transport_counted_a_part(world: World, meter: Meter) -> None:
    for counter in ("kernel", "transport", "kernel"):
        one = Meter(world.records, counter, world.analyst.clock)
        one.add(Purpose("control", LEAD), SOME)
        one.flush()
    with world.records.begin() as unit:
        row = unit.traffic_of(LEAD, "", "control")
    assert row is not None
    assert row.counter == "transport"


def test_a_member_sees_its_own_bytes_and_the_operator_everybodys(world: World, meter: Meter) -> None:
    world.publish()
    for party in (LEAD, HOSPITAL):
        meter.add(Purpose("control", party, world.id), SOME)
    meter.flush()
    ours: Any = for_member(world.analyst, identity(HOSPITAL), world.id)["wire"]
    assert [party["party"] for party in ours["parties"]] == [HOSPITAL]
    assert ours["total"]["measured_bytes"] == 100 + 200 + 7
    everybodys: Any = for_operator(world.analyst, world.id)["wire"]
    assert [party["party"] for party in everybodys["parties"]] == list(world.terms.parties)
    assert everybodys["total"]["measured_bytes"] == 2 * (100 + 200 + 7)


def test_nothing_measured_is_not_said_to_be_nothing(world: World) -> None:
    world.publish()
    assert for_operator(world.analyst, world.id)["wire"] is None
