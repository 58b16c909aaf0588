"""The operator's check of all that is stored: every damaged array is named, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst_server.services import end, scrub
from analyst_server.services.stored import blob_key
from protocol.anchor_terms import AnchorTerms
from protocol.terms import Terms
from tests.harness.computing import claim, finish
from tests.harness.world import HOSPITAL, LEAD, World, make_terms, make_uplink

LATE = "late-hospital"


@pytest.fixture
def terms() -> Terms:
    return make_terms(
        parties=(LEAD, HOSPITAL, LATE), late_consumers=(LATE,), anchor=AnchorTerms(kind="haar", rows=4)
    )


@pytest.fixture
def released(world: World, terms: Terms) -> World:
    world.until_anchored(terms)
    for number, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(terms, party, seed=number))
    claim(world)
    finish(world)
    return world


def spoil(world: World, key: str) -> None:
    path = world.directory / "blobs" / key
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


def files(world: World) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (world.directory / "blobs").rglob("*") if path.is_file()}


def test_what_is_as_signed_is_counted(released: World) -> None:
    before = files(released)
    found = scrub.scrub(released.analyst)
    assert (found.damaged, found.unreadable, found.unchecked) == ((), (), ())
    # three arrays of two uplinks, two changes of basis, one model for both, one target
    assert found.arrays == 2 * 3 + 2 + 1 + 1
    assert found.bytes == sum(len(data) for data in before.values())
    assert files(released) == before


def test_a_damaged_uplink_is_named(released: World) -> None:
    with released.records.begin() as unit:
        key = blob_key(unit.uplinks_of(released.id, HOSPITAL)[0])
    spoil(released, key)
    (one,) = scrub.scrub(released.analyst).damaged
    assert (one.collaboration_id, one.kind, one.parties) == (released.id, "uplink", (HOSPITAL,))
    assert (one.name, one.blob) == ("rep", key)


def test_every_damaged_file_of_results_is_named(released: World) -> None:
    results = released.directory / "blobs" / released.id / "results"
    for path in results.iterdir():
        spoil(released, f"{released.id}/results/{path.name}")
    found = scrub.scrub(released.analyst).damaged
    assert sorted((one.kind, one.name, one.parties) for one in found) == [
        ("downlink", "change_of_basis", (HOSPITAL,)),
        ("downlink", "change_of_basis", (LEAD,)),
        ("downlink", "model", (HOSPITAL, LEAD)),
        ("late consumers", "target", ()),
    ]


def test_a_file_that_is_gone_is_named(released: World) -> None:
    for path in (released.directory / "blobs" / released.id / "results").iterdir():
        path.unlink()
    assert len(scrub.scrub(released.analyst).damaged) == 4


def test_a_collaboration_that_has_ended_has_nothing_to_check(released: World) -> None:
    end.close(released.analyst, released.id)
    assert scrub.scrub(released.analyst).arrays == 0


def test_an_upload_under_way_is_left_alone(world: World, terms: Terms) -> None:
    world.until_anchored(terms)
    uplink = make_uplink(terms, LEAD)
    world.append(uplink, world.begin(uplink).upload_id)
    assert scrub.scrub(world.analyst).arrays == 0


def test_a_sealed_matrix_is_named_as_unchecked(world: World) -> None:
    terms = make_terms(anchor=AnchorTerms(kind="public", rows=8))
    world.publish(terms)
    world.analyst.blobs.write(f"{world.id}/anchor.matrix", b"sealed")
    assert scrub.scrub(world.analyst).unchecked == (f"{world.id}/anchor.matrix",)


def test_what_a_newer_server_has_stored_is_named_and_all_else_checked(released: World) -> None:
    with released.records.begin(write=True) as unit:
        (uplink,) = unit.uplinks_of(released.id, HOSPITAL)
        uplink.manifest = uplink.manifest[:100]
        downlink = next(one for one in unit.downlinks(released.id) if one.party == LEAD)
        downlink.manifest = downlink.manifest[:100]
        row = unit.collaboration(released.id)
        assert row is not None
        row.terms = row.terms[:100]
        key = blob_key(unit.uplinks_of(released.id, LEAD)[0])
    spoil(released, key)
    found = scrub.scrub(released.analyst)
    assert {(one.kind, one.parties) for one in found.unreadable} == {
        ("terms", ()),
        ("uplink", (HOSPITAL,)),
        ("downlink", (LEAD,)),
    }
    assert [(one.kind, one.parties) for one in found.damaged] == [("uplink", (LEAD,))]
    assert found.arrays == 3 + 1 + 1 + 1  # an uplink, a change of basis, the model, the target
