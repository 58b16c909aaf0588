"""A round that was sealed or cancelled takes no byte more, and what it took is erased when it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst_server.services import end, rounds
from protocol.errors import NotFoundError, OutOfOrderError
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, whole_file
from tests.harness.world import HOSPITAL, LEAD, Uplink, World, identity, make_uplink


def folder(world: World) -> Path:
    return world.directory / "blobs" / world.id


def test_a_cancelled_collaboration_keeps_no_array(ready: World) -> None:
    ready.send(make_uplink(ready.terms, LEAD))
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    assert len(list(folder(ready).rglob("*.part"))) == 2
    end.cancel(ready.analyst, ready.id)
    assert not folder(ready).exists()
    with pytest.raises(OutOfOrderError):
        ready.ingest.append(identity(HOSPITAL), upload_id, offset_after(uplink, 2))


def test_an_append_to_a_cancelled_collaboration_is_refused(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    append = ready.ingest.append(identity(HOSPITAL), ready.begin(uplink).upload_id, 0)
    assert append is not None
    half = offset_after(uplink, 2)
    append.write(uplink.stream[:half])
    end.cancel(ready.analyst, ready.id)
    with pytest.raises(NotFoundError, match="its collaboration has ended"):
        append.write(uplink.stream[half:])
    assert append.close() == half
    assert not folder(ready).exists()


def test_what_a_line_still_brought_is_erased_at_the_next_start(ready: World) -> None:
    uplink = hospital(ready)
    append = ready.ingest.append(identity(HOSPITAL), ready.begin(uplink).upload_id, 0)
    assert append is not None
    end.cancel(ready.analyst, ready.id)
    append.write(uplink.stream)
    assert folder(ready).exists()
    end.erase_ended(ready.analyst)
    assert not folder(ready).exists()


def test_a_start_leaves_a_round_under_way_alone(ready: World) -> None:
    ready.send(make_uplink(ready.terms, LEAD))
    held = sorted(folder(ready).rglob("*"))
    end.erase_ended(ready.analyst)
    assert sorted(folder(ready).rglob("*")) == held


# a sealed round takes nothing


@pytest.fixture
def sealed(ready: World) -> tuple[World, Uplink, str]:
    """Sealed by hand while the hospital is sending."""
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    ready.send(make_uplink(ready.terms, LEAD))
    rounds.seal(ready.analyst, ready.id)
    return ready, uplink, upload_id


def test_a_sealed_round_takes_no_byte(sealed: tuple[World, Uplink, str]) -> None:
    world, uplink, upload_id = sealed
    with pytest.raises(OutOfOrderError):
        world.append(uplink, upload_id, offset_after(uplink, 2))


def test_a_sealed_round_takes_no_new_upload(sealed: tuple[World, Uplink, str]) -> None:
    world, _, _ = sealed
    with pytest.raises(OutOfOrderError):
        world.begin(hospital(world, seed=5))


def test_a_sealed_round_completes_no_upload(world: World) -> None:
    world.until_anchored()
    uplink = hospital(world)
    upload_id = world.begin(uplink).upload_id
    world.append(uplink, upload_id)
    world.send(make_uplink(world.terms, LEAD))
    rounds.seal(world.analyst, world.id)
    with pytest.raises(OutOfOrderError):
        world.complete(uplink, upload_id)
    assert not whole_file(world, upload_id).exists()


def test_a_sealed_round_still_shows_its_receipts(world: World) -> None:
    world.until_sealed()
    assert world.begin(make_uplink(world.terms, HOSPITAL, seed=1)).complete
