"""What a disk changes after a receipt trains no model: its institution is named and sends the same again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.compute import sequence
from analyst_server.services import downlinks, end, latecomers, rounds, views
from analyst_server.services.stored import stored_arrays
from analyst_server.store import Uplink as UplinkRow
from protocol.anchor_terms import AnchorTerms
from protocol.arrays import raw_bytes
from protocol.errors import DifferentUplinkError, DigestMismatchError, RoundFailedError
from tests.harness.computing import LEASE_S, OWNER, Watched, claim, fetch, finish, release_and_follow
from tests.harness.uploads import whole_file
from tests.harness.world import HOSPITAL, LEAD, Uplink, World, identity, make_terms, make_uplink

LATE = "late-hospital"


@pytest.fixture
def sealed(world: World) -> World:
    return world.until_sealed()


def row_of(world: World, party: str) -> UplinkRow:
    with world.records.begin() as unit:
        return unit.uplinks_of(world.id, party)[0]


def file_of(world: World, party: str) -> Path:
    return whole_file(world, row_of(world, party).id)


def sent_by(world: World, party: str) -> Uplink:
    """Return what `World.until_sealed` sends in the name of a party."""
    return make_uplink(world.terms, party, seed=world.terms.parties.index(party))


def place_of(world: World, party: str, name: str) -> int:
    return stored_arrays(row_of(world, party))[name].offset_bytes


def flip(path: Path, place: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= mask
    path.write_bytes(data)


def exponent_bit(world: World, party: str) -> str:
    flip(file_of(world, party), place_of(world, party, "rep") + 3, 0x40)
    return "rep"


def anchor_bit(world: World, party: str) -> str:
    flip(file_of(world, party), place_of(world, party, "anchor_rep") + 3, 0x40)
    return "anchor_rep"


def label_bit(world: World, party: str) -> str:
    flip(file_of(world, party), place_of(world, party, "labels"), 0x02)
    return "labels"


def cut_off(world: World, party: str) -> str:
    path = file_of(world, party)
    path.write_bytes(path.read_bytes()[:-100])
    return "rep, anchor_rep, labels"


def gone(world: World, party: str) -> str:
    file_of(world, party).unlink()
    return "rep, anchor_rep, labels"


Damage = Callable[[World, str], str]
DAMAGES = [exponent_bit, anchor_bit, label_bit, cut_off, gone]


def computed(world: World) -> None:
    """Do what the worker does."""
    Watched(world).run_one()


def send_again(world: World, uplink: Uplink) -> bytes:
    status = world.begin(uplink)
    assert not status.complete
    return world.send(uplink)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_uplink_trains_no_model_and_its_institution_is_named(sealed: World, damage: Damage) -> None:
    names = damage(sealed, HOSPITAL)
    computed(sealed)
    failure = sealed.row().failure or ""
    assert sealed.state == "failed"
    assert f"the uplink of {HOSPITAL} ({names}) is damaged" in failure
    assert f"{HOSPITAL} must run `odc contribute` again" in failure
    assert LEAD not in failure
    with pytest.raises(RoundFailedError, match="is damaged"):
        downlinks.fetch(sealed.analyst, identity(LEAD), sealed.id)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_bytes_again_mend_it_and_the_round_goes_on_by_itself(sealed: World, damage: Damage) -> None:
    uplink, receipt = sent_by(sealed, HOSPITAL), row_of(sealed, HOSPITAL).receipt
    damage(sealed, HOSPITAL)
    computed(sealed)
    assert send_again(sealed, uplink) == receipt
    assert sealed.state == "sealed"
    assert file_of(sealed, HOSPITAL).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))
    assert not list((sealed.directory / "blobs").rglob("*.part"))
    computed(sealed)
    assert sealed.state == "released"
    with sealed.records.begin() as unit:
        steps = [(entry.event, entry.party) for entry in unit.ledger(sealed.id)]
    assert steps.count(("accept uplink", HOSPITAL)) == 1


def test_the_model_is_the_one_that_it_would_have_been(tmp_path: Path) -> None:
    models = []
    for name in ("plain", "mended"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name).until_sealed()
        if name == "mended":
            exponent_bit(world, HOSPITAL)
            computed(world)
            send_again(world, sent_by(world, HOSPITAL))
        computed(world)
        models.append([fetch(world, party)[1] for party in (LEAD, HOSPITAL)])
        world.records.dispose()
    assert models[0] == models[1]


def test_the_status_says_who_has_to_send_again(sealed: World) -> None:
    label_bit(sealed, HOSPITAL)
    computed(sealed)
    status = views.status(sealed.analyst, identity(LEAD), sealed.id)
    assert status["waiting_for"] == [f"{HOSPITAL}: odc contribute"]
    uplinks = {member["party"]: member["uplink"] for member in status["members"]}
    assert uplinks == {LEAD: "received", HOSPITAL: "receiving"}
    send_again(sealed, sent_by(sealed, HOSPITAL))
    status = views.status(sealed.analyst, identity(LEAD), sealed.id)
    assert {member["uplink"] for member in status["members"]} == {"received"}


def test_all_damaged_uplinks_are_named_at_once_and_the_last_one_mends_the_round(sealed: World) -> None:
    for party in (LEAD, HOSPITAL):
        exponent_bit(sealed, party)
    computed(sealed)
    assert all(f"{party} (rep)" in (sealed.row().failure or "") for party in (LEAD, HOSPITAL))
    send_again(sealed, sent_by(sealed, LEAD))
    assert sealed.state == "failed"
    send_again(sealed, sent_by(sealed, HOSPITAL))
    assert sealed.state == "sealed"


def test_other_bytes_do_not_take_the_place_of_damaged_ones(sealed: World) -> None:
    exponent_bit(sealed, HOSPITAL)
    computed(sealed)
    uplink, other = sent_by(sealed, HOSPITAL), make_uplink(sealed.terms, HOSPITAL, seed=9)
    with pytest.raises(DifferentUplinkError):
        sealed.begin(other)
    upload_id = sealed.begin(uplink).upload_id
    sealed.append(uplink, upload_id, data=other.stream)
    with pytest.raises(DigestMismatchError):
        sealed.complete(uplink, upload_id)
    assert sealed.state == "failed"
    send_again(sealed, uplink)
    assert sealed.state == "sealed"


def test_an_uplink_that_is_whole_is_not_taken_again(sealed: World) -> None:
    exponent_bit(sealed, HOSPITAL)
    computed(sealed)
    assert sealed.begin(sent_by(sealed, LEAD)).complete


def test_sending_again_goes_on_after_a_restart(sealed: World) -> None:
    uplink = sent_by(sealed, HOSPITAL)
    exponent_bit(sealed, HOSPITAL)
    computed(sealed)
    upload_id = sealed.begin(uplink).upload_id
    reached = sealed.append(uplink, upload_id, data=uplink.stream[:-1])
    assert reached > 0
    sealed.restart()
    assert sealed.begin(uplink).offset == reached
    send_again(sealed, uplink)
    assert sealed.state == "sealed"


def test_an_operator_who_restores_the_file_resumes_without_the_institution(sealed: World) -> None:
    path = file_of(sealed, HOSPITAL)
    good = path.read_bytes()
    exponent_bit(sealed, HOSPITAL)
    computed(sealed)
    path.write_bytes(good)
    rounds.resume(sealed.analyst, sealed.id)
    assert sealed.begin(sent_by(sealed, HOSPITAL)).complete
    computed(sealed)
    assert sealed.state == "released"


def test_a_round_that_is_resumed_unmended_fails_again(sealed: World) -> None:
    exponent_bit(sealed, HOSPITAL)
    for _ in range(2):
        computed(sealed)
        assert sealed.state == "failed"
        rounds.resume(sealed.analyst, sealed.id)


def test_a_round_with_a_damaged_uplink_can_be_cancelled(sealed: World) -> None:
    exponent_bit(sealed, HOSPITAL)
    computed(sealed)
    end.cancel(sealed.analyst, sealed.id)
    assert not (sealed.directory / "blobs" / sealed.id).exists()
    assert sealed.begin(sent_by(sealed, HOSPITAL)).complete


def test_what_is_damaged_while_the_round_is_computed_is_found_when_it_is_read(
    sealed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    align = sequence.align_parties

    def aligned(*given: Any) -> Any:
        found = align(*given)
        label_bit(sealed, HOSPITAL)
        return found

    monkeypatch.setattr(sequence, "align_parties", aligned)
    computed(sealed)
    assert sealed.state == "failed"
    assert f"{HOSPITAL} (labels)" in (sealed.row().failure or "")


def test_what_reads_well_the_second_time_fails_the_round_with_a_warning(
    sealed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    align, path = sequence.align_parties, file_of(sealed, HOSPITAL)
    good = path.read_bytes()

    def aligned(*given: Any) -> Any:
        anchor_bit(sealed, HOSPITAL)
        try:
            return align(*given)
        finally:
            path.write_bytes(good)

    monkeypatch.setattr(sequence, "align_parties", aligned)
    computed(sealed)
    assert sealed.state == "failed"
    assert "check the disk and the memory" in (sealed.row().failure or "")


# late consumers


def test_a_late_consumer_whose_uplink_is_damaged_is_asked_again_and_not_refused(world: World) -> None:
    late = release_and_follow(world, LATE)
    anchor_bit(world, LATE)
    claimed = latecomers.claim(world.analyst, OWNER, LEASE_S)
    assert claimed is not None
    with pytest.raises(RoundFailedError, match=f"the uplink of {LATE} \\(anchor_rep\\) is damaged"):
        latecomers.compute(world.analyst, claimed, OWNER)
    status = views.status(world.analyst, None, world.id)
    assert status["waiting_for"] == [f"{LATE}: odc contribute"]
    send_again(world, late)
    world.clock.forward(LEASE_S + 1)
    claimed = latecomers.claim(world.analyst, OWNER, LEASE_S)
    assert claimed is not None
    latecomers.compute(world.analyst, claimed, OWNER)
    assert np.frombuffer(fetch(world, LATE)[1][0], "<f4").size == world.terms.latent_dim**2


def test_a_damaged_target_is_no_reason_to_refuse_a_late_consumer(world: World) -> None:
    terms = make_terms(
        parties=(LEAD, HOSPITAL, LATE), late_consumers=(LATE,), anchor=AnchorTerms(kind="haar", rows=4)
    )
    world.until_anchored(terms)
    for number, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(terms, party, seed=number))
    claim(world)
    finish(world)
    target = world.directory / "blobs" / (world.row().kept or {})["target"]["key"]
    flip(target, 6, 0x40)
    world.send(make_uplink(terms, LATE, rows=0, seed=7))
    claimed = latecomers.claim(world.analyst, OWNER, LEASE_S)
    assert claimed is not None
    with pytest.raises(RoundFailedError, match="restore it from a backup"):
        latecomers.compute(world.analyst, claimed, OWNER)
    assert row_of(world, LATE).refused is None
