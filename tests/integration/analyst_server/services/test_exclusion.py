"""The operator leaves a party out of a round, at every point from the first uplink to the release."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from analyst_server.pages.report import report_page, report_text
from analyst_server.services import exclusion, report, rounds, views
from analyst_server.services.analyst import find
from analyst_server.services.stored import blob_key
from analyst_server.store import Downlink
from protocol.errors import NotFoundError, OutOfOrderError
from tests.harness.computing import OWNER, claim, fetch, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

THIRD, LATE = "hospital-b", "late-hospital"
PARTIES = (LEAD, HOSPITAL, THIRD)


def anchored(world: World, **terms: Any) -> World:
    return world.until_anchored(make_terms(**{"parties": PARTIES, **terms}))


def send(world: World, *parties: str, **sent: Any) -> None:
    for party in parties:
        world.send(make_uplink(world.terms, party, seed=PARTIES.index(party), **sent))


def exclude(world: World, party: str = HOSPITAL) -> None:
    exclusion.exclude(world.analyst, world.id, party)


def compute(world: World) -> None:
    claim(world)
    finish(world)


def trained_on(world: World) -> int:
    found: Any = report.for_operator(world.analyst, world.id)
    return int(found["results"]["rows"])


def of_party(world: World, party: str) -> Any:
    status = views.status(world.analyst, identity(LEAD), world.id)
    return next(member for member in status["members"] if member["party"] == party)


def last_entry(world: World) -> tuple[str, str | None, str, bytes | None]:
    with world.records.begin() as unit:
        entry = unit.last_of_ledger(world.id)
    assert entry is not None
    return entry.event, entry.party, entry.state, entry.subject


def test_a_round_is_computed_without_the_rows_of_an_excluded_party(world: World) -> None:
    send(anchored(world), LEAD, HOSPITAL)
    exclude(world)
    send(world, THIRD)
    assert world.state == "sealed"
    compute(world)
    assert world.state == "released"
    assert trained_on(world) == 60
    for party in (LEAD, THIRD):
        assert fetch(world, party)
    with pytest.raises(NotFoundError, match="excluded hospital-a"):
        fetch(world, HOSPITAL)


def test_a_round_that_waits_for_the_excluded_party_alone_is_sealed(world: World) -> None:
    send(anchored(world), LEAD, THIRD)
    exclude(world)
    assert world.state == "sealed"


def complete(world: World) -> bool:
    with world.records.begin() as unit:
        return exclusion.is_complete(unit, find(unit, world.id))


def test_a_round_is_complete_once_all_have_sent_who_take_part(world: World) -> None:
    assert not complete(anchored(world, parties=(*PARTIES, LATE), late_consumers=(LATE,)))
    send(world, HOSPITAL)
    assert not complete(world)
    exclude(world)
    assert not complete(world)  # what is excluded counts for nobody
    send(world, LEAD)
    assert (complete(world), world.state) == (False, "collecting")
    send(world, THIRD)
    assert (complete(world), world.state) == (True, "sealed")


@pytest.mark.parametrize("steps", sorted({*permutations(("send", "send", "exclude"))}), ids="-".join)
def test_an_uplink_and_an_exclusion_seal_a_round_in_every_order(world: World, steps: tuple[str, ...]) -> None:
    anchored(world)
    sending = iter((LEAD, THIRD))
    for number, step in enumerate(steps, start=1):
        exclude(world) if step == "exclude" else send(world, next(sending))
        assert (world.state == "sealed") == complete(world) == (number == len(steps))


def test_a_round_that_waits_for_others_too_is_not_sealed(world: World) -> None:
    send(anchored(world), LEAD)
    exclude(world)
    assert world.state == "collecting"
    status = views.status(world.analyst, identity(LEAD), world.id)
    assert status["waiting_for"] == [f"{THIRD}: odc contribute"]


def test_an_excluded_party_can_send_nothing_and_is_told_why(world: World) -> None:
    uplink = make_uplink(anchored(world).terms, HOSPITAL)
    begun = world.begin(uplink)
    exclude(world)
    with pytest.raises(OutOfOrderError, match="operator has excluded hospital-a"):
        world.append(uplink, begun.upload_id)
    with pytest.raises(OutOfOrderError, match="operator has excluded hospital-a"):
        world.begin(make_uplink(world.terms, HOSPITAL, seed=9))


def test_an_upload_that_was_whole_before_the_exclusion_is_not_accepted(world: World) -> None:
    uplink = make_uplink(anchored(world).terms, HOSPITAL)
    begun = world.begin(uplink)
    world.append(uplink, begun.upload_id)
    exclude(world)
    with pytest.raises(OutOfOrderError, match="operator has excluded hospital-a"):
        world.complete(uplink, begun.upload_id)


def test_a_round_that_fails_by_a_partys_fault_goes_on_without_it(world: World) -> None:
    anchored(world)
    send(world, LEAD, THIRD)
    send(world, HOSPITAL, arrays={"anchor_rep": np.zeros((4, 2), "<f4")})
    claim(world)
    with pytest.raises(ValueError, match=HOSPITAL) as caught:
        rounds.compute(world.analyst, world.id, OWNER)
    rounds.fail(world.analyst, world.id, OWNER, str(caught.value))
    exclude(world)
    assert world.state == "failed"
    rounds.resume(world.analyst, world.id)
    compute(world)
    assert world.state == "released"
    assert trained_on(world) == 60


def test_a_held_model_that_was_trained_with_the_party_is_discarded(world: World) -> None:
    send(anchored(world), *PARTIES)
    claim(world)
    finish(world, hold=True)
    exclude(world)
    row = world.row()
    assert (row.state, row.results, row.failure) == (
        "failed",
        None,
        "hospital-a was excluded, and the model was trained before",
    )
    with pytest.raises(OutOfOrderError):
        rounds.release(world.analyst, world.id)
    rounds.resume(world.analyst, world.id)
    compute(world)
    assert trained_on(world) == 60
    with pytest.raises(NotFoundError, match="excluded"):
        fetch(world, HOSPITAL)


def test_nothing_of_a_discarded_model_is_left_for_a_party_that_is_excluded_next(world: World) -> None:
    """The first of the downlinks told the ledger which model is released: that of the excluded party."""
    send(anchored(world), *PARTIES)
    claim(world)
    finish(world, hold=True)
    exclude(world, THIRD)
    exclude(world)
    rounds.resume(world.analyst, world.id)
    compute(world)
    with world.records.begin() as unit:
        assert [row.party for row in unit.downlinks(world.id)] == [LEAD]
    event, _, _, subject = last_entry(world)
    assert (event, subject) == ("release", fetch(world, LEAD)[0].model.digest)
    for party in (HOSPITAL, THIRD):
        with pytest.raises(NotFoundError, match="excluded"):
            fetch(world, party)


def test_what_an_earlier_version_left_of_a_discarded_model_does_not_go_out(world: World) -> None:
    send(anchored(world), *PARTIES)
    claim(world)
    finish(world, hold=True)
    with world.records.begin() as unit:
        left = [(row.party, row.manifest) for row in unit.downlinks(world.id)]
    exclude(world)
    rounds.resume(world.analyst, world.id)
    claim(world)
    finish(world, hold=True)
    with world.records.begin(write=True) as unit:
        for party, manifest in left:
            if party == HOSPITAL:
                unit.put_downlink(Downlink(collaboration_id=world.id, party=party, manifest=manifest))
    rounds.release(world.analyst, world.id)
    assert last_entry(world)[3] == fetch(world, LEAD)[0].model.digest
    with pytest.raises(NotFoundError, match="excluded"):
        fetch(world, HOSPITAL)


def test_the_ledger_has_the_exclusion_with_the_uplink_that_is_left_out(world: World) -> None:
    send(anchored(world), LEAD, HOSPITAL)
    exclude(world)
    with world.records.begin() as unit:
        (sent,) = unit.uplinks_of(world.id, HOSPITAL)
    assert last_entry(world) == ("exclude party", HOSPITAL, "collecting", sent.manifest_digest)
    exclude(world, THIRD)
    with world.records.begin() as unit:
        entries = unit.ledger(world.id)
    assert [(row.event, row.party, row.subject) for row in entries][-2:] == [
        ("exclude party", THIRD, None),
        ("seal", None, None),
    ]


def test_excluding_twice_makes_one_entry(world: World) -> None:
    send(anchored(world), LEAD)
    exclude(world)
    with world.records.begin() as unit:
        before = unit.last_of_ledger(world.id)
        exclude(world)
    with world.records.begin() as unit:
        after = unit.last_of_ledger(world.id)
    assert before is not None
    assert after is not None
    assert before.index == after.index


def test_status_and_report_name_the_excluded_to_every_member(world: World) -> None:
    send(anchored(world), LEAD, HOSPITAL)
    exclude(world)
    send(world, THIRD)
    compute(world)
    assert of_party(world, HOSPITAL)["excluded"] is True
    assert of_party(world, LEAD)["excluded"] is False
    for found in (
        report.for_member(world.analyst, identity(LEAD), world.id),
        report.for_operator(world.analyst, world.id),
    ):
        assert found["excluded"] == [HOSPITAL]
        assert "hospital-a: excluded by the operator" in report_text(found)
        assert "hospital-a was excluded by the operator" in report_page(found)


def test_nobody_is_excluded_before_the_anchor_or_after_the_release(world: World) -> None:
    world.publish(make_terms(parties=PARTIES))
    with pytest.raises(OutOfOrderError):
        exclude(world)


def test_after_the_release_nobody_can_be_excluded(world: World) -> None:
    send(anchored(world), *PARTIES)
    compute(world)
    with pytest.raises(OutOfOrderError):
        exclude(world)


def test_nobody_is_excluded_while_a_worker_computes(world: World) -> None:
    send(anchored(world), *PARTIES)
    claim(world)
    with pytest.raises(OutOfOrderError):
        exclude(world)
    rounds.begin_training(world.analyst, world.id, OWNER)
    with pytest.raises(OutOfOrderError, match="a worker is computing it"):
        exclude(world)


def test_a_party_that_the_terms_do_not_name_is_not_found(world: World) -> None:
    send(anchored(world), LEAD)
    with pytest.raises(NotFoundError, match="name no party"):
        exclude(world, "hospital-z")


def test_a_late_consumer_cannot_be_excluded(world: World) -> None:
    send(anchored(world, late_consumers=(THIRD,)), LEAD)
    with pytest.raises(OutOfOrderError, match="late consumer"):
        exclude(world, THIRD)


def test_somebody_stays(world: World) -> None:
    anchored(world)
    exclude(world, HOSPITAL)
    exclude(world, THIRD)
    with pytest.raises(OutOfOrderError, match="nobody else is left"):
        exclude(world, LEAD)


def test_damage_of_an_excluded_uplink_holds_nobody_up(world: World) -> None:
    send(anchored(world), LEAD, HOSPITAL)
    exclude(world)
    send(world, THIRD)
    with world.records.begin() as unit:
        (sent,) = unit.uplinks_of(world.id, HOSPITAL)
    world.analyst.blobs.write(blob_key(sent), b"damaged")
    compute(world)
    assert world.state == "released"
