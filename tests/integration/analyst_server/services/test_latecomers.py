"""Late consumers: from the terms that name one to its downlink, without any other party."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from analyst_server.services import downlinks, end, latecomers, prepare, report, rounds, views
from analyst_server.services.stored import blob_key
from analyst_server.store import Uplink as UplinkRow
from protocol.alignment_terms import AlignmentTerms
from protocol.anchor_terms import AnchorTerms
from protocol.codec import decode, digest
from protocol.errors import (
    AlreadyExistsError,
    DifferentUplinkError,
    MalformedMessageError,
    NotFoundError,
    OutOfOrderError,
    RoundFailedError,
    TermsMismatchError,
    TermsNotAcceptedError,
)
from protocol.labels import Label
from protocol.ledger import LedgerPage, check_chain
from protocol.model_terms import RandomForestTerms
from protocol.table_schema import NumericColumn, Schema
from protocol.terms import Terms
from tests.harness.computing import LEASE_S, LIMIT_S, OTHER, OWNER, Pool, Watched, claim, fetch, finish
from tests.harness.problems import Matrix, haar
from tests.harness.world import HOSPITAL, LEAD, SEED, Uplink, World, identity, make_terms, make_uplink

FEATURES, LATENT_DIM, ANCHOR_ROWS = 8, 3, 160
LATE = "late-hospital"
SENDERS = (LEAD, HOSPITAL, "hospital-b")
METHODS = ("odc", "isotropic", "imakura", "kawakami", "procrustes", "gopp", "rdp")


def late_terms(**changed: Any) -> Terms:
    columns = tuple(NumericColumn(name=f"x{index}", low=-1, high=1) for index in range(FEATURES))
    return make_terms(
        **{
            "parties": (*SENDERS, LATE),
            "late_consumers": (LATE,),
            "table_schema": Schema(columns=columns, label_column=Label(name="y", classes=("no", "yes"))),
            "latent_dim": LATENT_DIM,
            "rep_dtype": "f8",
            "anchor": AnchorTerms(kind="gaussian", rows=ANCHOR_ROWS),
            **changed,
        }
    )


def anchor() -> Matrix:
    return np.asarray(np.random.default_rng(1).standard_normal((ANCHOR_ROWS, FEATURES)))


def basis(party: str) -> Matrix:
    """Return a basis of the party's own, of the span that all share."""
    span = np.linalg.qr(np.random.default_rng(2).standard_normal((FEATURES, LATENT_DIM)))[0]
    return np.asarray(span @ haar(LATENT_DIM, np.random.default_rng([3, *party.encode()])))


def uplink_of(world: World, party: str, *, rows: int = 40, scale: float = 1.0, **changed: Any) -> Uplink:
    values = np.random.default_rng([4, *party.encode()]).uniform(-1, 1, (rows, FEATURES))
    labels = (values[:, 0] > 0).astype("<u1")
    sent = {"rep": values @ basis(party), "anchor_rep": scale * anchor() @ basis(party), "labels": labels}
    return make_uplink(world.terms, party, rows=rows, arrays=sent, **changed)


def sealed(world: World, **changed: Any) -> World:
    world.until_anchored(late_terms(**changed))
    for party in SENDERS:
        world.send(uplink_of(world, party))
    return world


def released(world: World, **changed: Any) -> World:
    claim(sealed(world, **changed))
    finish(world)
    return world


def claimed(world: World, owner: str = OWNER) -> UplinkRow | None:
    return latecomers.claim(world.analyst, owner, LEASE_S)


def joined(world: World) -> World:
    """Have the late consumer send its uplink, and do what the worker does."""
    world.send(uplink_of(world, LATE, rows=0))
    found = claimed(world)
    assert found is not None
    latecomers.compute(world.analyst, found, OWNER)
    return world


def change_of(world: World, party: str) -> Matrix:
    manifest, (change, _) = fetch(world, party)
    return np.frombuffer(change, "<" + manifest.change_of_basis.dtype).reshape(manifest.change_of_basis.shape)


def events(world: World) -> list[tuple[str, str | None]]:
    with world.records.begin() as unit:
        return [(row.event, row.party) for row in unit.ledger(world.id)]


@pytest.mark.parametrize("target", ["identity", "haar"])
@pytest.mark.parametrize("method", METHODS)
def test_its_change_of_basis_makes_the_same_of_a_row_as_anybody_elses(
    world: World, method: Any, target: Any
) -> None:
    joined(released(world, alignment=AlignmentTerms(method=method, target=target, seed=5)))
    own = basis(LATE) @ change_of(world, LATE)
    for party in SENDERS:
        np.testing.assert_allclose(basis(party) @ change_of(world, party), own, rtol=0, atol=1e-5)


def test_a_model_that_splits_along_axes_gets_its_rows_along_the_same_axes(world: World) -> None:
    joined(released(world, model=RandomForestTerms(trees=5)))
    own = basis(LATE) @ change_of(world, LATE)
    np.testing.assert_allclose(basis(LEAD) @ change_of(world, LEAD), own, rtol=0, atol=1e-5)


def test_it_gets_the_model_of_the_others_and_their_downlinks_stay(world: World) -> None:
    before = {party: fetch(released(world), party) for party in SENDERS[:1]}
    joined(world)
    assert fetch(world, LEAD) == before[LEAD]
    assert fetch(world, LATE)[1][1] == before[LEAD][1][1]
    assert fetch(world, LATE)[0].model_parameters == before[LEAD][0].model_parameters


def test_without_a_model_it_gets_the_predictions_for_the_anchor_that_all_get(world: World) -> None:
    joined(released(world, downlink="anchor-predictions"))
    manifest, (own, *_) = fetch(world, LATE)
    assert manifest.anchor_predictions.shape == (ANCHOR_ROWS, 2)
    others = np.frombuffer(fetch(world, LEAD)[1][0], "<f4")
    np.testing.assert_allclose(np.frombuffer(own, "<f4"), others, rtol=0, atol=1e-5)


def test_the_round_waits_neither_for_its_acceptance_nor_for_its_uplink(world: World) -> None:
    world.publish(late_terms())
    world.accept(*SENDERS)
    assert views.status(world.analyst, None, world.id)["waiting_for"] == [
        f"{LEAD}: odc anchor create",
        f"{LATE}, a late consumer: odc terms accept, before the anchor is created",
    ]
    world.publish_anchor([world.sealed_anchor(party) for party in SENDERS])
    for party in SENDERS:
        world.send(uplink_of(world, party))
    assert world.state == "sealed"
    with pytest.raises(OutOfOrderError):
        world.accept(LATE)


def released_without(world: World) -> World:
    """Release a round whose late consumer has not accepted."""
    world.publish(late_terms())
    world.accept(*SENDERS)
    world.publish_anchor([world.sealed_anchor(party) for party in SENDERS])
    for party in SENDERS:
        world.send(uplink_of(world, party))
    claim(world)
    finish(world)
    return world


def test_one_that_accepts_after_the_release_gets_its_anchor_from_the_lead_and_joins(world: World) -> None:
    released_without(world).accept(LATE)
    with pytest.raises(OutOfOrderError, match="has first to run `odc anchor share`"):
        prepare.sealed_anchor(world.analyst, identity(LATE), world.id)
    assert views.status(world.analyst, None, world.id)["waiting_for"] == [f"{LEAD}: odc anchor share"]
    sent = [world.sealed_anchor(party) for party in (LEAD, LATE)]
    world.publish_anchor(sent[1:])
    world.publish_anchor(sent[1:])
    assert prepare.sealed_anchor(world.analyst, identity(LATE), world.id) == sent[1]
    joined(world)
    assert events(world).count(("share anchor", LEAD)) == 1
    np.testing.assert_allclose(
        basis(LATE) @ change_of(world, LATE), basis(LEAD) @ change_of(world, LEAD), rtol=0, atol=1e-5
    )


def test_after_the_release_the_anchor_is_sealed_for_nobody_else_and_no_other_anchor(world: World) -> None:
    released_without(world)
    for accepts, party, seed in ((False, LATE, SEED), (True, "stranger", SEED), (True, LATE, bytes(32))):
        if accepts:
            world.accept(LATE)
        with pytest.raises(MalformedMessageError):
            world.publish_anchor([world.sealed_anchor(party, seed=seed)])
    for wrong in ([world.sealed_anchor(HOSPITAL, ciphertext=b"another")], []):
        with pytest.raises(AlreadyExistsError):
            world.publish_anchor(wrong)


def test_after_the_release_nobody_accepts_but_a_late_consumer_without_an_anchor(world: World) -> None:
    released(world)
    for party in (HOSPITAL, LATE):
        with pytest.raises(OutOfOrderError):
            prepare.accept(
                world.analyst, identity(party), world.id, world.acceptance(party, sealing_key=b"another")
            )


def test_an_anchor_is_sealed_for_every_awaited_party_and_for_nobody_who_has_not_accepted(
    world: World,
) -> None:
    world.publish(late_terms())
    world.accept(LEAD, HOSPITAL)
    with pytest.raises(TermsNotAcceptedError):
        world.publish_anchor([world.sealed_anchor(party) for party in SENDERS])
    world.accept("hospital-b")
    with pytest.raises(MalformedMessageError):
        world.publish_anchor([world.sealed_anchor(party) for party in (*SENDERS, LATE)])
    world.publish_anchor([world.sealed_anchor(party) for party in (LEAD, HOSPITAL)])
    assert world.state == "enrolling"  # one is missing


def test_before_the_release_it_is_refused_in_words(world: World) -> None:
    world.until_anchored(late_terms())
    world.send(uplink_of(world, LEAD))
    with pytest.raises(OutOfOrderError, match=f"{LATE} is a late consumer: it sends after the release"):
        world.send(uplink_of(world, LATE, rows=0))


def test_rows_are_refused_in_words(world: World) -> None:
    with pytest.raises(TermsMismatchError, match=f"with rows, though {LATE} is a late consumer"):
        released(world).send(uplink_of(world, LATE, rows=5))


def test_after_the_end_it_is_refused(world: World) -> None:
    end.close(released(world).analyst, world.id)
    with pytest.raises(OutOfOrderError, match="collaboration is closed"):
        world.send(uplink_of(world, LATE, rows=0))


def test_a_party_of_the_round_cannot_come_late(world: World) -> None:
    world.until_anchored(late_terms())
    for party in SENDERS[:2]:
        world.send(uplink_of(world, party))
    begun = uplink_of(world, "hospital-b")
    upload = world.begin(begun).upload_id
    rounds.seal(world.analyst, world.id)
    claim(world)
    finish(world)
    for step in (
        lambda: world.append(begun, upload),
        lambda: world.send(uplink_of(world, "hospital-b", rows=1)),
    ):
        with pytest.raises(OutOfOrderError, match="collaboration is released"):
            step()
    with pytest.raises(NotFoundError, match="sealed without an uplink"):
        downlinks.fetch(world.analyst, identity("hospital-b"), world.id)


def test_one_that_breaks_an_assumption_is_refused_with_what_was_measured(world: World) -> None:
    worker = Watched(released(world))
    world.send(uplink_of(world, LATE, rows=0, scale=2.0))
    worker.run_one()
    with pytest.raises(RoundFailedError, match=f"representation of {LATE} is 2 times as large"):
        downlinks.fetch(world.analyst, identity(LATE), world.id)
    assert events(world)[-1] == ("refuse consumer", LATE)
    assert member(world)["refused"]
    assert claimed(world) is None
    assert world.state == "released"


def member(world: World) -> Any:
    status = views.status(world.analyst, identity(LATE), world.id)
    return next(row for row in status["members"] if row["party"] == LATE)


def test_its_uplink_wakes_the_worker(world: World) -> None:
    worker = Watched(released(world), poll_s=10 * LIMIT_S)
    worker.start()
    try:
        world.send(uplink_of(world, LATE, rows=0))
        assert worker.done.wait(LIMIT_S)
    finally:
        worker.stop()
    assert member(world)["downlink"] == "ready"


def test_a_worker_that_stops_leaves_it_to_the_next(world: World) -> None:
    released(world).send(uplink_of(world, LATE, rows=0))
    release = threading.Event()
    worker = Watched(world, Pool(lambda *_: release.wait(LIMIT_S)))
    stopping = threading.Thread(target=worker.stop)
    worker.start()
    has_begun = worker.pool.begun.wait(LIMIT_S)
    stopping.start()
    is_done = worker.done.wait(LIMIT_S)  # although the step still computes
    release.set()
    stopping.join(LIMIT_S)
    assert has_begun
    assert is_done
    assert (member(world)["downlink"], world.row().lease_owner) == ("none", None)
    Watched(world).run_one()
    assert member(world)["downlink"] == "ready"


def test_a_worker_that_dies_is_followed_by_another_once_its_lease_is_over(world: World) -> None:
    released(world).send(uplink_of(world, LATE, rows=0))
    lost = claimed(world)
    assert claimed(world, OTHER) is None
    world.clock.forward(LEASE_S + 1)
    taken = claimed(world, OTHER)
    assert lost is not None
    assert taken is not None
    with pytest.raises(RoundFailedError, match="another worker"):
        latecomers.compute(world.analyst, lost, OWNER)
    latecomers.compute(world.analyst, taken, OTHER)
    assert [event for event, _ in events(world)].count("align consumer") == 1


SECOND = "later-hospital"


def test_one_that_cannot_be_aligned_holds_up_no_other(world: World) -> None:
    """The uplink of the first is damaged on the disk, and may never come again."""
    released(world, parties=(*SENDERS, LATE, SECOND), late_consumers=(LATE, SECOND))
    for party in (LATE, SECOND):
        world.send(uplink_of(world, party, rows=0))
        world.clock.forward(1)
    with world.records.begin() as unit:
        key = blob_key(unit.uplinks_of(world.id, LATE)[0])
    data = bytearray(world.analyst.blobs.read(key))
    data[3] ^= 0x40
    world.analyst.blobs.write(key, data)
    first = claimed(world)
    assert first is not None
    assert first.party == LATE
    with pytest.raises(RoundFailedError, match=f"{LATE} must run `odc contribute` again"):
        latecomers.compute(world.analyst, first, OWNER)
    world.clock.forward(LEASE_S + 1)
    found = claimed(world)
    assert found is not None
    assert found.party == SECOND
    latecomers.compute(world.analyst, found, OWNER)
    assert claimed(world) is None
    world.send(uplink_of(world, LATE, rows=0))
    again = claimed(world)
    assert again is not None
    latecomers.compute(world.analyst, again, OWNER)
    assert [party for event, party in events(world) if event == "align consumer"] == [SECOND, LATE]


def test_one_that_was_tried_comes_after_the_others(world: World) -> None:
    released(world, parties=(*SENDERS, LATE, SECOND), late_consumers=(LATE, SECOND))
    for party in (LATE, SECOND):
        world.send(uplink_of(world, party, rows=0))
        world.clock.forward(1)
    tried = []
    for _ in range(4):
        found = claimed(world)
        assert found is not None
        tried.append(found.party)
        world.clock.forward(LEASE_S + 1)
    assert tried == [LATE, SECOND, LATE, SECOND]


def test_one_whose_round_is_closed_meanwhile_changes_nothing(world: World) -> None:
    released(world).send(uplink_of(world, LATE, rows=0))
    taken = claimed(world)
    assert taken is not None

    def run(step: Any, /, *args: Any, **options: Any) -> Any:
        found = step(*args, **options)
        opened = found.open(world.analyst.blobs)
        with world.records.begin(write=True) as unit:
            row = unit.collaboration(world.id)
            assert row is not None
            row.state = "closed"
        assert opened.size
        return found

    with pytest.raises(OutOfOrderError):
        latecomers.compute(world.analyst, taken, OWNER, run=run)
    assert ("align consumer", LATE) not in events(world)


def test_it_may_begin_again_and_has_one_uplink(world: World) -> None:
    released(world)
    one, other = uplink_of(world, LATE, rows=0), uplink_of(world, LATE, rows=0, scale=1.0000001)
    assert world.begin(one).upload_id == world.begin(one).upload_id
    assert world.send(one) == world.send(one)
    with pytest.raises(DifferentUplinkError):
        world.send(other)


def test_what_it_is_still_to_do_is_said_when_it_asks_too_early(world: World) -> None:
    released(world)
    with pytest.raises(NotFoundError, match="sent no uplink yet") as caught:
        downlinks.fetch(world.analyst, identity(LATE), world.id)
    assert "odc contribute" in caught.value.hint
    world.send(uplink_of(world, LATE, rows=0))
    with pytest.raises(OutOfOrderError, match="still being computed"):
        downlinks.fetch(world.analyst, identity(LATE), world.id)


def test_the_ledger_has_its_steps_and_holds(world: World) -> None:
    manifest, _ = fetch(joined(released(world)), LATE)
    page = decode(LedgerPage, views.ledger_page(world.analyst, identity(LATE), world.id, 0))
    check_chain(world.id, page.entries)
    steps = [(entry.event.value, entry.party) for entry in page.entries if entry.state == "released"]
    ours = ("begin uplink", "accept uplink", "align consumer", "fetch downlink")
    assert steps == [("release", None), *((event, LATE) for event in ours)]
    assert page.entries[-2].subject == page.entries[-1].subject == digest(manifest)


def test_the_report_counts_it_as_a_party_without_rows(world: World) -> None:
    joined(released(world))
    shown = next(
        row for row in report.for_operator(world.analyst, world.id)["parties"] if row["party"] == LATE
    )
    assert (shown["rows"], shown["late_consumer"]) == (0, True)
    assert shown["uplink_formula_bytes"] == 4 * ANCHOR_ROWS * LATENT_DIM
    assert shown["uplink_payload_bytes"] == 8 * ANCHOR_ROWS * LATENT_DIM


def test_a_round_without_late_consumers_keeps_no_target(world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world)
    assert world.row().kept is None
