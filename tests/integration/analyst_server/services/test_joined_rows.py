"""A round in which the rows of two institutions are joined, beside a third that has all columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_server.pages.report import report_text
from analyst_server.services import exclusion, judging, latecomers, report, rounds, views
from metering.explanation import uplink_transfer
from protocol.absent_columns import AbsentColumns
from protocol.errors import DtypeMismatchError, OutOfOrderError, TermsMismatchError
from protocol.joined_rows import JoinedRows
from protocol.states import Event
from protocol.terms import Terms
from tests.harness.computing import OWNER, Watched, claim, fetch, finish
from tests.harness.world import HOSPITAL, LEAD, Uplink, World, identity, in_type, make_terms, make_uplink

ALONE = "hospital-b"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def joining(**changed: Any) -> Terms:
    """The lead holds half of the columns, with the labels, and a hospital the other half."""
    values = {
        "parties": (LEAD, HOSPITAL, ALONE),
        "absent_columns": (
            AbsentColumns(party=LEAD, columns=("x2", "x3")),
            AbsentColumns(party=HOSPITAL, columns=("x0", "x1")),
        ),
        "joined_rows": (
            JoinedRows(row_key="pid", parties=(LEAD, HOSPITAL), latent_dims=(1, 1), labels=LEAD),
        ),
    }
    return make_terms(**{**values, **changed})


def keys(first: int, last: int) -> NDArray[np.uint8]:
    return np.array([list(number.to_bytes(16, "big")) for number in range(first, last)], np.uint8).reshape(
        -1, 16
    )


def sent(terms: Terms, party: str, hashes: NDArray[np.uint8], **arrays: NDArray[Any]) -> Uplink:
    """An uplink of the group, whose anchor representations are columns of one orthonormal matrix."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0]
    values, scale = in_type(basis[:, :1] if party == LEAD else basis[:, 1:], terms)
    own: dict[str, NDArray[Any]] = {"anchor_rep": values}
    if terms.rep_dtype == "i1":
        own["anchor_rep_scale"] = scale
    if party != LEAD:
        own["labels"] = np.zeros(0, "u1")
    own |= {"row_keys": hashes, **arrays}
    return make_uplink(terms, party, rows=len(hashes), own_dim=1, seed=len(party), arrays=own)


def until_sealed(
    world: World, terms: Terms | None = None, *, of_hospital: NDArray[np.uint8] | None = None
) -> World:
    world.until_anchored(terms or joining())
    world.send(sent(world.terms, LEAD, keys(0, 40)))
    world.send(sent(world.terms, HOSPITAL, keys(10, 60) if of_hospital is None else of_hospital))
    world.send(make_uplink(world.terms, ALONE, rows=30, seed=2))
    return world


def results(world: World) -> dict[str, Any]:
    found = world.row().results
    assert found is not None
    return found


def failure(world: World) -> str:
    """Compute as the worker does, and return why the round has failed."""
    Watched(world).run_one()
    assert world.state == "failed"
    return str(world.row().failure)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
def test_each_gets_its_own_block_of_an_orthogonal_matrix(world: World, dtype: str) -> None:
    until_sealed(world, joining(rep_dtype=dtype))
    claim(world)
    finish(world)
    assert world.state == "released"
    blocks = {}
    for party in (LEAD, HOSPITAL, ALONE):
        manifest, arrays = fetch(world, party)
        blocks[party] = np.frombuffer(arrays[0], "<f4").reshape(manifest.change_of_basis.shape)
    assert [block.shape for block in blocks.values()] == [(1, 2), (1, 2), (2, 2)]
    together = np.concatenate([blocks[LEAD], blocks[HOSPITAL]])
    np.testing.assert_allclose(together @ together.T, np.eye(2), rtol=0, atol=1e-5)
    found = report.for_member(world.analyst, identity(ALONE), world.id)
    assert found["results"] is not None
    assert found["results"]["rows"] == 60
    assert found["results"]["joined_rows"] == [{"labels": LEAD, "rows": 30, "sent": {LEAD: 40, HOSPITAL: 50}}]
    with_others = {party["party"]: party["joined_with"] for party in found["parties"]}
    assert with_others == {LEAD: [HOSPITAL], HOSPITAL: [LEAD], ALONE: []}
    text = report_text(report.for_operator(world.analyst, world.id))
    assert f"{LEAD} and {HOSPITAL} have 30 rows in common" in text
    assert "takes part without" not in text
    assert "sends 1 numbers of a row" not in text


def test_a_model_of_joined_rows_is_judged_later_by_another_process(world: World) -> None:
    until_sealed(world)
    claim(world)
    rounds.compute(world.analyst, world.id, OWNER)
    assert results(world)["judgement"]["is_pending"]
    assert judging.claim(world.analyst, OWNER, 10) == world.id
    judging.compute(world.analyst, world.id, OWNER)
    judgement = results(world)["judgement"]
    assert judgement["within"] is not None, judgement["why_none"]
    assert set(judgement["within"]["by_party"]) == {LEAD, ALONE}


def test_uplinks_that_the_group_does_not_promise_are_refused(world: World) -> None:
    terms = joining()
    world.until_anchored(terms)
    with pytest.raises(
        TermsMismatchError, match="without row keys, though the rows of lead-hospital are joined"
    ):
        world.begin(make_uplink(terms, LEAD, own_dim=1))
    with pytest.raises(
        TermsMismatchError, match="with row keys, though the rows of hospital-b are not joined"
    ):
        world.begin(make_uplink(terms, ALONE, rows=4, arrays={"row_keys": keys(0, 4)}))
    with pytest.raises(TermsMismatchError, match="lead-hospital has them"):
        world.begin(sent(terms, HOSPITAL, keys(0, 4), labels=np.zeros(4, "u1")))
    with pytest.raises(TermsMismatchError, match="without rows, though hospital-a has rows to join"):
        world.begin(sent(terms, HOSPITAL, keys(0, 0)))
    with pytest.raises(DtypeMismatchError):
        world.begin(sent(terms, LEAD, keys(0, 4), labels=np.zeros(4, "u2")))


def test_no_row_in_common_fails_the_round_with_the_column(world: World) -> None:
    until_sealed(world, of_hospital=keys(100, 150))
    assert "have no row in common: none of their row keys (pid) is the same" in failure(world)


def test_a_class_that_is_in_no_joined_row_fails_the_round_with_how_many_there_are(world: World) -> None:
    world.until_anchored(joining(parties=(LEAD, HOSPITAL)))
    world.send(sent(world.terms, LEAD, keys(0, 40)))
    world.send(sent(world.terms, HOSPITAL, keys(39, 60)))
    said = failure(world)
    assert said.startswith(f"{LEAD} and {HOSPITAL} have 1 row in common; training needs rows of every class")
    # a copy of the joined rows for each try would fill the disk
    assert {key.split("/")[1] for key in world.analyst.blobs.whole_keys()} == {"uplinks"}


def test_a_key_that_is_sent_twice_fails_the_round_with_the_party(world: World) -> None:
    twice = keys(10, 60)
    twice[4] = twice[3]
    until_sealed(world, of_hospital=twice)
    assert "the row keys of hospital-a are not ascending, each once: see row 5" in failure(world)


def test_nobody_seals_or_goes_on_with_a_part_of_a_group(world: World) -> None:
    world.until_anchored(joining())
    world.send(sent(world.terms, LEAD, keys(0, 40)))
    world.send(make_uplink(world.terms, ALONE, rows=30, seed=2))
    with pytest.raises(OutOfOrderError, match="are joined, and those of hospital-a are missing"):
        rounds.seal(world.analyst, world.id)
    with pytest.raises(
        OutOfOrderError, match="the rows of hospital-a are joined with those of lead-hospital"
    ):
        exclusion.exclude(world.analyst, world.id, HOSPITAL)
    exclusion.exclude(world.analyst, world.id, ALONE)
    world.send(sent(world.terms, HOSPITAL, keys(0, 40)))
    assert world.state == "sealed"


def test_a_round_goes_on_without_a_group_of_which_nobody_has_sent(world: World) -> None:
    world.until_anchored(joining())
    world.send(make_uplink(world.terms, ALONE, rows=30, seed=2))
    rounds.seal(world.analyst, world.id)
    claim(world)
    finish(world)
    assert world.state == "released"
    assert "joined_rows" not in results(world)


def test_a_late_consumer_is_aligned_beside_a_group(world: World) -> None:
    late = "hospital-z"
    until_sealed(world, joining(parties=(LEAD, HOSPITAL, ALONE, late), late_consumers=(late,)))
    claim(world)
    finish(world)
    world.send(make_uplink(world.terms, late, rows=0, seed=7))
    found = latecomers.claim(world.analyst, OWNER, 10)
    assert found is not None
    latecomers.compute(world.analyst, found, OWNER)
    manifest, _ = fetch(world, late)
    assert manifest.change_of_basis.shape == (2, 2)


def test_the_hashes_are_told_apart_from_what_the_formula_counts(world: World) -> None:
    terms = joining()
    uplink = sent(terms, LEAD, keys(0, 40))
    assert uplink_transfer(terms, uplink.manifest, uplink.body).labels_bytes == 40 + 16 * 40


def test_a_suspicion_of_a_group_is_entered_for_all_of_it(world: World) -> None:
    terms = joining(parties=(LEAD, HOSPITAL, ALONE, "hospital-c"))
    world.until_anchored(terms)
    world.send(sent(terms, LEAD, keys(0, 40)))
    world.send(sent(terms, HOSPITAL, keys(0, 40), anchor_rep=np.full((4, 1), 0.1, "<f4")))  # not orthonormal
    for number, party in enumerate((ALONE, "hospital-c")):
        world.send(make_uplink(terms, party, rows=30, seed=number))
    claim(world)
    rounds.compute(world.analyst, world.id, OWNER)
    with world.records.begin() as unit:
        steps = [(entry.event, entry.party) for entry in unit.ledger(world.id)]
    for event in (Event.SUSPECT, Event.LEAVE_OUT):
        assert [party for one, party in steps if one == event] == [LEAD, HOSPITAL]
    members = views.status(world.analyst, identity(ALONE), world.id)["members"]
    told = {member["party"]: member["left_out"] for member in members if "suspected" in member}
    assert told == {LEAD: True, HOSPITAL: True}
    text = report_text(report.for_operator(world.analyst, world.id))
    assert f"suspected: {LEAD}, or {HOSPITAL} whose rows are joined with its: its anchor" in text
