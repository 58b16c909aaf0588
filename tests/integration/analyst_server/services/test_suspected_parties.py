"""A round with one party that breaks an assumption, from the uplinks to the report."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from analyst_server.compute.aligned import AlignedRound
from analyst_server.compute.sequence import align_parties, train_model
from analyst_server.pages.report import findings
from analyst_server.services import downlinks, report, rounds, views
from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode
from protocol.labels import Label
from protocol.ledger import LedgerPage, trained_on
from protocol.states import Event
from protocol.table_schema import NumericColumn, Schema
from tests.harness.computing import Watched, claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink

FEATURES, LATENT_DIM, ROWS = 30, 4, 30
PARTIES = (LEAD, HOSPITAL, "hospital-b", "hospital-c", "hospital-d")
Matrix = np.ndarray[Any, Any]


def turned(basis: Matrix, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    return np.asarray(basis @ np.linalg.qr(rng.standard_normal((LATENT_DIM, LATENT_DIM)))[0])


def sealed(world: World, *, rows: dict[str, int] | None = None, **sent: Matrix) -> World:
    """Seal a round of parties of one span; ``sent`` replaces what a party sends of the anchor."""
    columns = tuple(NumericColumn(name=f"x{index}", low=-1, high=1) for index in range(FEATURES))
    world.until_anchored(
        make_terms(
            parties=PARTIES,
            table_schema=Schema(columns=columns, label_column=Label(name="y", classes=("no", "yes"))),
            latent_dim=LATENT_DIM,
            anchor=AnchorTerms(kind="haar", rows=FEATURES),
        )
    )
    for number, party in enumerate(PARTIES):
        anchor_rep = sent.get(party.replace("-", "_"), turned(common(), number)).astype("<f4")
        count = (rows or {}).get(party, ROWS)
        world.send(
            make_uplink(world.terms, party, rows=count, seed=number, arrays={"anchor_rep": anchor_rep})
        )
    return world


def common() -> Matrix:
    rng = np.random.default_rng(99)
    return np.linalg.qr(rng.standard_normal((FEATURES, LATENT_DIM)))[0]


BAD = {
    "scaled": 0.5 * turned(common(), 2),
    "shuffled": np.random.default_rng(5).permutation(turned(common(), 2)),
}


def aligned(world: World) -> tuple[AlignedRound, dict[str, Matrix]]:
    """Run the alignment; return what it found and each party's G_i."""
    spec, blobs = rounds.spec_of(world.analyst, world.id), world.analyst.blobs
    found = align_parties(spec, blobs)
    changes = found.changes_of_basis.open(blobs)
    return found, {party.party: change for party, change in zip(spec.parties, changes, strict=True)}


def named(world: World) -> list[str]:
    return [suspicion["party"] for suspicion in alignment_of(world)["suspicions"]]


def alignment_of(world: World) -> Any:
    found: Any = report.for_operator(world.analyst, world.id)
    return found["results"]["alignment"]


@pytest.mark.parametrize("fault", BAD)
def test_the_report_names_the_party_for_the_operator_and_for_every_member(world: World, fault: str) -> None:
    claim(sealed(world, hospital_b=BAD[fault]))
    finish(world)
    assert named(world) == ["hospital-b"]
    for_member: Any = report.for_member(world.analyst, identity(HOSPITAL), world.id)
    of_operator = {name: value for name, value in alignment_of(world).items() if name != "spectra"}
    assert json.loads(json.dumps(for_member["results"]["alignment"])) == of_operator
    assert findings(alignment_of(world))[1].startswith("suspected: hospital-b: its anchor representation ")


def test_a_party_whose_rows_do_not_train_is_not_judged(world: World) -> None:
    claim(sealed(world, rows={"hospital-c": 0}, hospital_b=BAD["scaled"]))
    finish(world)
    found: Any = report.for_operator(world.analyst, world.id)
    for way in ("within", "across"):
        assert set(found["results"]["judgement"][way]["by_party"]) == {LEAD, HOSPITAL, "hospital-d"}


@pytest.mark.parametrize("fault", BAD)
def test_a_suspected_party_moves_nobody_elses_change_of_basis(world: World, fault: str) -> None:
    _, changes = aligned(sealed(world, hospital_b=BAD[fault]))
    mapped = [
        turned(common(), number) @ changes[party]
        for number, party in enumerate(PARTIES)
        if party != "hospital-b"
    ]
    for one in mapped[1:]:
        np.testing.assert_allclose(one, mapped[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("fault", BAD)
def test_a_suspected_party_gets_an_orthogonal_change_of_basis(world: World, fault: str) -> None:
    _, changes = aligned(sealed(world, hospital_b=BAD[fault]))
    change = changes["hospital-b"]
    np.testing.assert_allclose(change.T @ change, np.eye(LATENT_DIM), rtol=0, atol=1e-5)


def test_the_rows_of_a_suspected_party_do_not_train(world: World) -> None:
    claim(sealed(world, hospital_b=BAD["scaled"]))
    finish(world)
    assert world.row().results["rows"] == 4 * ROWS  # type: ignore[index]
    assert alignment_of(world)["left_out"] == ["hospital-b"]


def test_a_round_with_a_suspicion_is_held_until_somebody_has_read_it(world: World) -> None:
    Watched(sealed(world, hospital_b=BAD["scaled"])).run_one()
    assert world.state == "training"
    status = views.status(world.analyst, None, world.id)
    assert status["waiting_for"] == ["the analyst: odc-analyst collaboration release"]
    rounds.release(world.analyst, world.id)
    assert downlinks.fetch(world.analyst, identity("hospital-b"), world.id)


@pytest.mark.parametrize(
    ("fault", "assumption", "evidence"),
    [
        ("scaled", "orthonormal", "has singular values from 0.5 to 0.5"),
        ("shuffled", "same-anchor-or-related-span", "shares "),  # orthonormal, and of no law
    ],
)
def test_every_member_sees_in_the_status_who_is_suspected_and_left_out(
    world: World, fault: str, assumption: str, evidence: str
) -> None:
    Watched(sealed(world, hospital_b=BAD[fault])).run_one()
    for viewer in (None, identity(HOSPITAL), identity("hospital-b")):
        status = views.status(world.analyst, viewer, world.id)
        assert status.get("held") is True
        members = {member["party"]: member for member in status["members"]}
        suspected = members["hospital-b"]["suspected"]
        assert suspected["assumption"] == assumption
        assert suspected["evidence"].startswith(evidence)
        assert [party for party, one in members.items() if "suspected" in one] == ["hospital-b"]
        assert [party for party, one in members.items() if one.get("left_out")] == ["hospital-b"]
    rounds.release(world.analyst, world.id)
    released = views.own_status(world.analyst, identity("hospital-b"), world.id)
    assert "held" not in released
    assert released["members"][0]["left_out"]


def test_the_signed_ledger_says_whose_rows_trained_the_model(world: World) -> None:
    Watched(sealed(world, hospital_b=BAD["scaled"])).run_one()
    rounds.release(world.analyst, world.id)
    page = decode(LedgerPage, views.ledger_page(world.analyst, identity(HOSPITAL), world.id, 0))
    accepted = {one.party: one.subject for one in page.entries if one.event is Event.ACCEPT_UPLINK}
    found = [(one.event, one.party, one.subject) for one in page.entries[-3:]]
    assert found[:2] == [
        (Event.SUSPECT, "hospital-b", accepted["hospital-b"]),
        (Event.LEAVE_OUT, "hospital-b", accepted["hospital-b"]),
    ]
    assert found[2][0] is Event.RELEASE
    assert trained_on(page.entries) == tuple(party for party in PARTIES if party != "hospital-b")


def test_rows_that_train_after_all_are_not_entered_as_left_out(world: World) -> None:
    Watched(sealed(world, hospital_b=BAD["scaled"])).run_one()
    rounds.resume(world.analyst, world.id)
    assert "suspected" not in views.status(world.analyst, None, world.id)["members"][2]
    Watched(world, train_on_suspected_rows=True).run_one()
    rounds.release(world.analyst, world.id)
    page = decode(LedgerPage, views.ledger_page(world.analyst, None, world.id, 0))
    assert [one.event for one in page.entries].count(Event.LEAVE_OUT) == 1
    assert trained_on(page.entries) == PARTIES
    status = views.status(world.analyst, None, world.id)
    members = {member["party"]: member for member in status["members"]}
    assert members["hospital-b"]["suspected"]
    assert not members["hospital-b"]["left_out"]


def test_a_round_without_suspicion_has_no_new_kind_of_entry(world: World) -> None:
    Watched(sealed(world)).run_one()
    page = decode(LedgerPage, views.ledger_page(world.analyst, None, world.id, 0))
    assert not {Event.SUSPECT, Event.LEAVE_OUT} & {one.event for one in page.entries}
    assert trained_on(page.entries) == PARTIES


def test_a_held_round_can_be_computed_again_with_the_rows(world: World) -> None:
    Watched(sealed(world, hospital_b=BAD["scaled"])).run_one()
    rounds.resume(world.analyst, world.id)
    Watched(world, train_on_suspected_rows=True).run_one()
    assert world.state == "training"
    assert world.row().results["rows"] == 5 * ROWS  # type: ignore[index]
    assert (named(world), alignment_of(world)["left_out"]) == (["hospital-b"], [])


def test_a_round_without_suspicion_is_released(world: World) -> None:
    Watched(sealed(world)).run_one()
    assert world.state == "released"
    assert named(world) == []


def test_a_round_nobody_else_has_rows_for_fails_with_the_party_named(world: World) -> None:
    rows = dict.fromkeys(PARTIES, 0) | {"hospital-b": ROWS}
    Watched(sealed(world, rows=rows, hospital_b=BAD["scaled"])).run_one()
    assert world.state == "failed"
    assert world.row().failure == "no rows are left to train on without those of hospital-b"


def test_a_party_without_rows_neither_is_suspected_nor_shapes_the_target(world: World) -> None:
    rng = np.random.default_rng(7)
    stranger = np.linalg.qr(rng.standard_normal((FEATURES, LATENT_DIM)))[0]
    found, _ = aligned(sealed(world, rows={"hospital-c": 0}, hospital_c=stranger))
    assert found.suspicions == ()
    assert found.agreement.concordance_gap < 1e-5  # of those that have rows; the consumer's own is large
    assert max(found.agreement.party_gaps.values()) > 0.5


def test_a_consumer_is_suspected_if_its_basis_is_not_orthonormal_and_costs_no_rows(world: World) -> None:
    found, _ = aligned(sealed(world, rows={"hospital-b": 0}, hospital_b=BAD["scaled"]))
    assert [(one.party, one.rows) for one in found.suspicions] == [("hospital-b", 0)]
    assert found.left_out == ()
    spec = rounds.spec_of(world.analyst, world.id)
    assert train_model(spec, world.analyst.blobs, found).rows == 4 * ROWS
