"""A model is judged after its round is computed, and nobody waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from analyst_server.blobs import StoredArray
from analyst_server.compute.judging import judge_model
from analyst_server.pages.report import report_page, report_text
from analyst_server.services import end, judging, latecomers, report, rounds
from analyst_server.services.end import erase_arrays
from protocol.errors import RoundFailedError
from protocol.messages import PrivacyRecord
from protocol.model_terms import ModelPrivacyTerms
from tests.harness.computing import LEASE_S, OTHER, OWNER, claim, fetch, judge
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

ROWS = 300
LATE = "hospital-c"


def computed(
    world: World, *, hold: bool = False, privacy: PrivacyRecord | None = None, **terms: Any
) -> World:
    world.until_anchored(make_terms(**terms))
    for seed, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(world.terms, party, rows=ROWS, seed=seed, privacy=privacy or PrivacyRecord()))
    claim(world)
    rounds.compute(world.analyst, world.id, OWNER, hold_release=hold)
    return world


def results(world: World) -> Any:
    return report.for_operator(world.analyst, world.id)["results"]


def test_the_institutions_have_the_model_before_it_is_judged(world: World) -> None:
    computed(world)
    assert world.state == "released"
    assert len(fetch(world, HOSPITAL)[1]) == 2
    found = report.for_operator(world.analyst, world.id)
    assert results(world)["judgement"]["is_pending"]
    assert results(world)["hold_out_scores"] is None
    assert not report.is_settled(world.analyst, world.id)
    for said in (
        report_text(found),
        report_page(found),
        report_text(report.for_member(world.analyst, identity(LEAD), world.id)),
    ):
        assert "the model is not judged yet" in said
        assert "can be trusted" not in said
        assert "not scored" not in said


def test_the_judgement_comes_into_the_report(world: World) -> None:
    judge(computed(world))
    assert report.is_settled(world.analyst, world.id)
    assert not results(world)["judgement"]["is_pending"]
    assert set(results(world)["judgement"]["within"]["by_party"]) == {LEAD, HOSPITAL}
    assert judging.claim(world.analyst, OWNER, LEASE_S) is None


def test_rows_that_were_sent_with_noise_give_no_headline(world: World) -> None:
    judge(computed(world, privacy=PrivacyRecord(dither=0.1)))
    assert results(world)["judgement"]["headline"] is None
    assert "sent with noise" in results(world)["judgement"]["why_none"]


def test_a_private_model_is_never_judged(world: World) -> None:
    computed(world, model_privacy=ModelPrivacyTerms(epsilon=3.0, delta=1e-5))
    assert report.is_settled(world.analyst, world.id)
    assert judging.claim(world.analyst, OWNER, LEASE_S) is None
    assert "differentially private" in results(world)["judgement"]["why_none"]


def test_a_judge_that_was_killed_is_followed_by_another_with_the_same_judgement(world: World) -> None:
    computed(world)
    assert judging.claim(world.analyst, OWNER, LEASE_S) == world.id
    assert judging.claim(world.analyst, OTHER, LEASE_S) is None
    world.restart()
    world.clock.forward(LEASE_S + 1)
    assert judging.claim(world.analyst, OTHER, LEASE_S) == world.id
    seen: list[Any] = []

    def twice(step: Any, /, *given: Any, **options: Any) -> Any:
        seen.extend(step(*given, **options) for _ in range(2))
        return seen[0]

    judging.compute(world.analyst, world.id, OTHER, run=twice)
    assert seen[0] == seen[1] == results(world)["judgement"]
    with pytest.raises(RoundFailedError, match="another worker"):
        judging.compute(world.analyst, world.id, OWNER)


def test_a_held_round_is_judged_for_its_operator(world: World) -> None:
    computed(world, hold=True)
    assert world.state == "training"
    judge(world)
    assert results(world)["judgement"]["within"] is not None
    rounds.release(world.analyst, world.id)
    assert world.state == "released"


def test_a_held_round_may_be_started_again_while_it_is_judged(world: World) -> None:
    computed(world, hold=True)
    assert judging.claim(world.analyst, OWNER, LEASE_S) == world.id

    def overtaken(step: Any, /, *given: Any, **options: Any) -> Any:
        rounds.resume(world.analyst, world.id)
        return step(*given, **options)

    with pytest.raises(RoundFailedError):
        judging.compute(world.analyst, world.id, OWNER, run=overtaken)
    assert (world.state, results(world)) == ("sealed", None)
    assert claim(world, OTHER) == world.id


def test_a_collaboration_may_end_while_its_model_is_judged(world: World) -> None:
    computed(world)
    judging.claim(world.analyst, OWNER, LEASE_S)

    def ended(step: Any, /, *given: Any, **options: Any) -> Any:
        end.close(world.analyst, world.id)
        return step(*given, **options)

    with pytest.raises(RoundFailedError, match="has ended"):
        judging.compute(world.analyst, world.id, OWNER, run=ended)
    found = report.for_operator(world.analyst, world.id)
    assert report.is_settled(world.analyst, world.id)
    assert "ended before the model was judged" in report_text(found)


def test_a_damaged_uplink_is_why_there_is_no_judgement(world: World) -> None:
    computed(world)
    with world.records.begin() as unit:
        spec = rounds.arrays_of(unit.received_uplinks(world.id)[0])
    size = spec.rep.offset_bytes + spec.rep.size_bytes
    data = bytearray(world.analyst.blobs.read(spec.rep.key))
    data[size - 1] ^= 0x40
    world.analyst.blobs.write(spec.rep.key, bytes(data))
    judge(world)
    assert "damaged or missing" in results(world)["judgement"]["why_none"]
    assert world.state == "released"


def test_what_is_kept_for_the_judgement_is_compared_with_its_digest(world: World) -> None:
    """It was computed long before, maybe by a server that has been off since."""
    computed(world)
    kept = StoredArray.from_json(world.row().unjudged["changes_of_basis"])  # type: ignore[index]  # not judged yet
    world.analyst.blobs.write(kept.key, bytes(kept.size_bytes))
    judge(world)
    assert "damaged or missing" in results(world)["judgement"]["why_none"]


def test_blobs_that_are_gone_are_why_there_is_no_judgement(world: World) -> None:
    erase_arrays(computed(world).analyst, world.id)
    judge(world)
    assert "damaged or missing" in results(world)["judgement"]["why_none"]
    assert world.id not in results(world)["judgement"]["why_none"]  # members read it: no path of a file


def test_a_late_consumer_changes_nothing_in_the_judgement(world: World) -> None:
    computed(world, parties=(LEAD, HOSPITAL, LATE), late_consumers=(LATE,))
    judging.claim(world.analyst, OWNER, LEASE_S)
    seen: list[Any] = []

    def late_in_between(step: Any, /, *given: Any, **options: Any) -> Any:
        seen.append([party.party for party in given[0].parties])
        return step(*given, **options)

    world.send(make_uplink(world.terms, LATE, rows=0))
    assert latecomers.claim(world.analyst, OTHER, LEASE_S) is None  # it waits for the judge
    judging.compute(world.analyst, world.id, OWNER, run=late_in_between)
    assert sorted(seen[0]) == sorted((LEAD, HOSPITAL))
    assert latecomers.claim(world.analyst, OTHER, LEASE_S) is not None


def test_the_step_needs_nothing_but_its_spec_and_the_blobs(world: World) -> None:
    computed(world)
    judging.claim(world.analyst, OWNER, LEASE_S)
    called: list[Any] = []

    def run(step: Any, /, *given: Any, **options: Any) -> Any:
        called.append(step)
        return step(*given, **options)

    judging.compute(world.analyst, world.id, OWNER, run=run)
    assert called == [judge_model]
