from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyst_server.blobs import MemoryBlobs, StoredArray
from analyst_server.compute.sequence import align_parties, compute_round, train_model
from analyst_server.services import downlinks, end, report, rounds, views
from protocol.alignment_terms import AlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.codec import digest
from protocol.errors import NotFoundError, OutOfOrderError, RoundFailedError
from protocol.messages import PrivacyRecord
from protocol.model_terms import MlpTerms
from tests.harness.certificates import NOW
from tests.harness.computing import LEASE_S, OTHER, OWNER, claim, fetch, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink


@pytest.fixture
def sealed(world: World) -> World:
    return world.until_sealed()


@pytest.fixture
def released(sealed: World) -> World:
    claim(sealed)
    finish(sealed)
    return sealed


# seal


def test_a_round_is_sealed_by_hand_without_the_missing(world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    rounds.seal(world.analyst, world.id)
    assert world.state == "sealed"


def test_a_round_without_a_complete_uplink_is_not_sealed(world: World) -> None:
    world.until_anchored()
    world.begin(make_uplink(world.terms, LEAD))
    with pytest.raises(OutOfOrderError, match="because no uplink is complete"):
        rounds.seal(world.analyst, world.id)


def test_a_party_without_uplink_gets_no_downlink(world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    rounds.seal(world.analyst, world.id)
    claim(world)
    finish(world)
    with pytest.raises(NotFoundError):
        downlinks.fetch(world.analyst, identity(HOSPITAL), world.id)


# claim and lease


def test_there_is_nothing_to_claim_before_the_seal(world: World) -> None:
    world.until_anchored()
    assert claim(world) is None


def test_a_sealed_round_is_claimed_once(sealed: World) -> None:
    assert claim(sealed) == sealed.id
    assert claim(sealed, OTHER) is None


def test_a_claimed_round_is_aligning_under_a_lease(sealed: World) -> None:
    claim(sealed)
    row = sealed.row()
    assert (row.state, row.lease_owner, row.lease_until) == ("aligning", OWNER, NOW + LEASE_S)


@pytest.mark.parametrize("waits_s", [0, LEASE_S])
def test_a_round_under_a_lease_is_left_alone(sealed: World, waits_s: int) -> None:
    claim(sealed)
    sealed.clock.forward(waits_s)
    assert claim(sealed, OTHER) is None


def test_a_round_whose_lease_has_ended_is_taken_up(sealed: World) -> None:
    claim(sealed)
    sealed.clock.forward(LEASE_S + 1)
    assert claim(sealed, OTHER) == sealed.id
    assert sealed.row().lease_owner == OTHER


def test_a_training_whose_lease_has_ended_is_taken_up(sealed: World) -> None:
    claim(sealed)
    rounds.begin_training(sealed.analyst, sealed.id, OWNER)
    sealed.clock.forward(LEASE_S + 1)
    assert claim(sealed, OTHER) == sealed.id


def test_a_renewed_lease_holds_longer(sealed: World) -> None:
    claim(sealed)
    sealed.clock.forward(LEASE_S)
    rounds.renew(sealed.analyst, sealed.id, OWNER, LEASE_S)
    sealed.clock.forward(LEASE_S)
    assert claim(sealed, OTHER) is None


@pytest.mark.parametrize("step", ["renew", "hand_back", "begin_training", "fail", "finish"])
def test_a_worker_that_lost_its_round_can_do_nothing_to_it(sealed: World, step: str) -> None:
    claim(sealed)
    spec = rounds.spec_of(sealed.analyst, sealed.id)
    result = compute_round(spec, sealed.analyst.blobs)
    sealed.clock.forward(LEASE_S + 1)
    claim(sealed, OTHER)
    actions: dict[str, Any] = {
        "renew": lambda: rounds.renew(sealed.analyst, sealed.id, OWNER, LEASE_S),
        "hand_back": lambda: rounds.hand_back(sealed.analyst, sealed.id, OWNER),
        "begin_training": lambda: rounds.begin_training(sealed.analyst, sealed.id, OWNER),
        "fail": lambda: rounds.fail(sealed.analyst, sealed.id, OWNER, "reason"),
        "finish": lambda: rounds.finish(sealed.analyst, sealed.id, OWNER, spec, result, hold=False),
    }
    with pytest.raises(RoundFailedError, match="another worker"):
        actions[step]()
    assert (sealed.state, sealed.row().lease_owner) == ("aligning", OTHER)


def test_a_round_handed_back_is_claimed_at_once(sealed: World) -> None:
    claim(sealed)
    rounds.hand_back(sealed.analyst, sealed.id, OWNER)
    assert (sealed.state, sealed.row().lease_owner) == ("sealed", None)
    assert claim(sealed, OTHER) == sealed.id


def test_the_round_that_waits_longest_is_claimed_first(world: World) -> None:
    older = world.until_sealed(make_terms(collaboration_id="d0" * 16)).id
    world.clock.forward(5)
    world.until_sealed(make_terms(collaboration_id="c0" * 16))
    assert claim(world) == older


# failure


def test_a_failed_round_keeps_its_reason(sealed: World) -> None:
    claim(sealed)
    rounds.fail(sealed.analyst, sealed.id, OWNER, "no rows of class 1")
    row = sealed.row()
    assert (row.state, row.failure, row.lease_owner) == ("failed", "no rows of class 1", None)


def test_a_failed_round_says_who_has_to_act(sealed: World) -> None:
    claim(sealed)
    rounds.fail(sealed.analyst, sealed.id, OWNER, "reason")
    row = views.status(sealed.analyst, None, sealed.id)
    assert row["waiting_for"] == ["the analyst: odc-analyst collaboration resume"]


def test_a_failed_round_is_not_claimed(sealed: World) -> None:
    claim(sealed)
    rounds.fail(sealed.analyst, sealed.id, OWNER, "reason")
    assert claim(sealed) is None


def test_who_fetches_a_failed_round_is_told_the_reason(sealed: World) -> None:
    claim(sealed)
    rounds.fail(sealed.analyst, sealed.id, OWNER, "no rows of class 1")
    with pytest.raises(RoundFailedError, match="no rows of class 1"):
        downlinks.fetch(sealed.analyst, identity(HOSPITAL), sealed.id)


def test_a_failed_round_can_be_resumed_to_its_end(sealed: World) -> None:
    claim(sealed)
    rounds.fail(sealed.analyst, sealed.id, OWNER, "reason")
    rounds.resume(sealed.analyst, sealed.id)
    assert (sealed.state, sealed.row().failure) == ("sealed", None)
    claim(sealed)
    finish(sealed)
    assert sealed.state == "released"


def test_a_round_that_waits_cannot_be_resumed(sealed: World) -> None:
    with pytest.raises(OutOfOrderError):
        rounds.resume(sealed.analyst, sealed.id)


# hold and release


@pytest.fixture
def held(sealed: World) -> World:
    claim(sealed)
    finish(sealed, hold=True)
    return sealed


def test_a_held_round_is_not_fetched(held: World) -> None:
    with pytest.raises(OutOfOrderError):
        downlinks.fetch(held.analyst, identity(HOSPITAL), held.id)


def test_a_held_round_is_not_taken_up_again(held: World) -> None:
    held.clock.forward(1000)
    assert claim(held, OTHER) is None
    assert held.state == "training"


def test_a_held_round_is_released_by_a_word(held: World) -> None:
    rounds.release(held.analyst, held.id)
    assert held.state == "released"
    assert fetch(held, HOSPITAL)


def test_a_round_that_still_trains_is_not_released(sealed: World) -> None:
    claim(sealed)
    rounds.begin_training(sealed.analyst, sealed.id, OWNER)
    with pytest.raises(OutOfOrderError):
        rounds.release(sealed.analyst, sealed.id)


def test_a_held_round_that_is_resumed_is_computed_again(held: World) -> None:
    rounds.resume(held.analyst, held.id)
    claim(held)
    finish(held)
    assert held.state == "released"
    assert fetch(held, HOSPITAL)


# downlinks


def test_each_party_fetches_its_own_change_of_basis_and_the_same_model(released: World) -> None:
    found = {party: fetch(released, party) for party in (LEAD, HOSPITAL)}
    changes = [np.frombuffer(arrays[0], "<f4").reshape(2, 2) for _, arrays in found.values()]
    assert np.abs(changes[0] - changes[1]).max() > 1e-3
    assert found[LEAD][1][1] == found[HOSPITAL][1][1]


def test_the_change_of_basis_is_the_computed_one(released: World) -> None:
    spec = rounds.spec_of(released.analyst, released.id)
    blobs = released.analyst.blobs
    computed = align_parties(spec, blobs).changes_of_basis.open(blobs)
    for index, party in enumerate(sorted((LEAD, HOSPITAL))):
        _, arrays = fetch(released, party)
        np.testing.assert_array_equal(
            np.frombuffer(arrays[0], "<f4").reshape(2, 2), computed[index].astype("<f4")
        )


def test_the_downlink_answers_the_uplink_of_its_party(released: World) -> None:
    for number, party in enumerate((LEAD, HOSPITAL)):
        manifest, _ = fetch(released, party)
        uplink = make_uplink(released.terms, party, seed=number)
        assert manifest.uplink_digest == digest(uplink.manifest)


def test_a_downlink_can_be_fetched_again(released: World) -> None:
    assert fetch(released, HOSPITAL) == fetch(released, HOSPITAL)


def test_the_first_fetch_is_the_one_that_is_noted(released: World) -> None:
    fetch(released, HOSPITAL)
    released.clock.forward(50)
    fetch(released, HOSPITAL)
    with released.records.begin() as unit:
        row = unit.downlink(released.id, HOSPITAL)
    assert row is not None
    assert row.fetched_at == NOW


def test_the_status_says_who_has_fetched(released: World) -> None:
    fetch(released, HOSPITAL)
    members = views.status(released.analyst, None, released.id)["members"]
    assert {one["party"]: one["downlink"] for one in members} == {HOSPITAL: "fetched", LEAD: "ready"}
    end.close(released.analyst, released.id)
    members = views.status(released.analyst, None, released.id)["members"]
    assert {one["party"]: one["downlink"] for one in members} == {HOSPITAL: "fetched", LEAD: "none"}


def test_a_round_that_is_held_shows_no_downlink_yet(sealed: World) -> None:
    claim(sealed)
    finish(sealed, hold=True)
    members = views.status(sealed.analyst, None, sealed.id)["members"]
    assert {one["downlink"] for one in members} == {"none"}


def test_there_is_no_downlink_before_the_release(sealed: World) -> None:
    with pytest.raises(OutOfOrderError):
        downlinks.fetch(sealed.analyst, identity(HOSPITAL), sealed.id)


def test_a_closed_round_is_fetched_no_more(released: World) -> None:
    fetch(released, HOSPITAL)
    end.close(released.analyst, released.id)
    for party in (HOSPITAL, LEAD):
        with pytest.raises(OutOfOrderError, match="is closed"):
            fetch(released, party)


def test_a_closed_round_keeps_no_array(released: World) -> None:
    assert downlinks.yet_to_fetch(released.analyst, released.id) == [HOSPITAL, LEAD]
    fetch(released, HOSPITAL)
    assert downlinks.yet_to_fetch(released.analyst, released.id) == [LEAD]
    end.close(released.analyst, released.id)
    assert not (released.directory / "blobs" / released.id).exists()
    assert report.for_operator(released.analyst, released.id)["state"] == "closed"


def test_a_downlink_under_way_is_read_to_its_end(released: World) -> None:
    downlink = downlinks.fetch(released.analyst, identity(HOSPITAL), released.id)
    pieces = downlink.whole()
    sent = next(pieces)
    end.close(released.analyst, released.id)
    assert len(sent) + sum(len(piece) for piece in pieces) == downlink.length


def test_a_round_is_closed_after_its_release_alone(sealed: World) -> None:
    with pytest.raises(OutOfOrderError):
        end.close(sealed.analyst, sealed.id)


def test_a_stranger_fetches_nothing(released: World) -> None:
    with pytest.raises(NotFoundError):
        downlinks.fetch(released.analyst, identity("hospital-z"), released.id)


@pytest.mark.parametrize(("rep", "change"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i1", "f4")])
def test_the_change_of_basis_has_the_precision_of_the_uplink_but_never_half(
    world: World, rep: str, change: str
) -> None:
    terms = make_terms(rep_dtype=rep)
    world.until_anchored(terms)
    for number, party in enumerate(terms.parties):
        world.send(make_uplink(terms, party, seed=number))
    claim(world)
    finish(world)
    manifest, _ = fetch(world, HOSPITAL)
    assert manifest.change_of_basis.dtype == change


# what the compute process is told


def test_the_compute_process_is_told_the_terms(world: World) -> None:
    world.until_sealed(
        make_terms(
            anchor=AnchorTerms(kind="uniform", rows=9),
            alignment=AlignmentTerms(method="odc", target="haar", seed=5),
            model=MlpTerms(hidden_units=7, learning_rate=0.01, epochs=3, seed=2),
        )
    )
    spec = rounds.spec_of(world.analyst, world.id)
    assert spec.alignment == AlignmentTerms(method="odc", target="haar", seed=5)
    assert (spec.anchor_is_isotropic, spec.label.outputs) == (False, 2)
    assert spec.model == MlpTerms(hidden_units=7, learning_rate=0.01, epochs=3, seed=2)


def test_a_haar_anchor_is_isotropic(sealed: World) -> None:
    assert rounds.spec_of(sealed.analyst, sealed.id).anchor_is_isotropic


def test_the_compute_process_maps_what_was_sent(sealed: World) -> None:
    spec = rounds.spec_of(sealed.analyst, sealed.id)
    for party, arrays in zip(sorted((LEAD, HOSPITAL)), spec.parties, strict=True):
        sent = make_uplink(sealed.terms, party, seed=(LEAD, HOSPITAL).index(party)).arrays
        for stored, array in zip((arrays.rep, arrays.anchor_rep, arrays.labels), sent, strict=True):
            np.testing.assert_array_equal(stored.open(sealed.analyst.blobs), array)


def test_an_empty_array_needs_no_blob() -> None:
    assert StoredArray("nowhere", 0, "f4", (0, 2)).open(MemoryBlobs()).shape == (0, 2)


def test_a_round_with_a_consumer_is_computed(world: World) -> None:
    world.until_anchored()
    world.send(make_uplink(world.terms, LEAD))
    world.send(make_uplink(world.terms, HOSPITAL, rows=0))
    claim(world)
    finish(world)
    assert fetch(world, HOSPITAL)[0].party == HOSPITAL


def test_a_round_without_a_row_of_some_class_cannot_train(world: World) -> None:
    world.until_sealed(arrays={"labels": np.zeros(30, "<u1")})
    spec = rounds.spec_of(world.analyst, world.id)
    alignment = align_parties(spec, world.analyst.blobs)
    with pytest.raises(ValueError, match="none of the class yes came: cancel the collaboration"):
        train_model(spec, world.analyst.blobs, alignment)


def test_a_model_that_onnx_changes_is_not_released(sealed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = rounds.spec_of(sealed.analyst, sealed.id)
    alignment = align_parties(spec, sealed.analyst.blobs)
    monkeypatch.setattr("analyst_server.training.onnx_file.parity_gap", lambda *_: float("nan"))
    with pytest.raises(ValueError, match="ONNX file differs"):
        train_model(spec, sealed.analyst.blobs, alignment)


# report


def test_the_report_sets_the_formulas_beside_the_bytes(released: World) -> None:
    found: Any = report.for_member(released.analyst, identity(HOSPITAL), released.id)
    for party in found["parties"]:
        assert party["uplink_formula_bytes"] == (30 + 4) * 2 * 4
        assert party["uplink_payload_bytes"] == (30 + 4) * 2 * 4 + 30  # and a byte for each label
        assert party["downlink_formula_bytes"] == (2 * 2 + found["results"]["model_parameters"]) * 4


def test_what_a_party_did_to_its_rows_is_kept_and_told_to_nobody_else(world: World) -> None:
    world.until_anchored()
    done = PrivacyRecord(epsilon=1.0, delta=1e-6, clip=2.0)
    world.send(make_uplink(world.terms, HOSPITAL, privacy=done))
    found: Any = report.for_operator(world.analyst, world.id)["parties"]
    assert PrivacyRecord(**found[0]["privacy"]) == done
    assert report.for_member(world.analyst, identity(HOSPITAL), world.id)["parties"] == found
    (other,) = report.for_member(world.analyst, identity(LEAD), world.id)["parties"]
    assert other["privacy"] is None


def test_the_report_names_the_parties_of_the_diagnostics(released: World) -> None:
    found: Any = report.for_operator(released.analyst, released.id)
    alignment = found["results"]["alignment"]
    assert set(alignment["party_gaps"]) == {LEAD, HOSPITAL}
    assert alignment["concordance_gap"] == max(alignment["party_gaps"].values())


def test_the_report_tells_what_happened_in_order(released: World) -> None:
    history = report.for_operator(released.analyst, released.id)["history"]
    assert [entry["state"] for entry in history if entry["party"] is None] == [
        "enrolling",
        "sealed",
        "aligning",
        "training",
        "released",
    ]


def test_the_report_before_the_end_has_no_results(sealed: World) -> None:
    found = report.for_operator(sealed.analyst, sealed.id)
    assert found["results"] is None
    assert [party["downlink_formula_bytes"] for party in found["parties"]] == [None, None]


def test_a_stranger_gets_no_report(released: World) -> None:
    with pytest.raises(NotFoundError):
        report.for_member(released.analyst, identity("hospital-z"), released.id)
