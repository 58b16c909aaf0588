"""Space for an uplink: on the disk, and within what a party and a round may keep; before its first byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyst_server.blobs import DirectoryBlobs
from analyst_server.services import end, rounds
from analyst_server.services.ingest import Ingest
from analyst_server.services.space import KEPT_FREE_BYTES
from analyst_server.store import sqlite
from protocol.errors import DiskFullError, LimitExceededError
from runtime.storage import RETRY_FULL_DISK_S
from tests.harness.statements import statements
from tests.harness.uploads import MANY_ROWS, hospital, offset_after
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink


class Small(DirectoryBlobs):
    """A disk with little space."""

    def __init__(self, root: Path, free: int) -> None:
        super().__init__(root)
        self.free = free

    def free_bytes(self) -> int:
        return self.free


def test_an_uplink_that_would_find_no_space_is_refused(tmp_path: Path) -> None:
    """With the space that uploads under way still need."""
    blobs = Small(tmp_path / "blobs", 10**12)
    world = World(tmp_path, blobs=blobs).until_anchored()
    first, second = make_uplink(world.terms, LEAD), make_uplink(world.terms, HOSPITAL)
    world.begin(first)
    blobs.free = KEPT_FREE_BYTES + len(first.stream)
    with pytest.raises(DiskFullError, match=r"uploads under way need 0\.0 MB") as caught:
        world.begin(second)
    assert caught.value.context == {"retry_after_s": RETRY_FULL_DISK_S}
    world.begin(first)  # its space is counted
    world.append(first, world.begin(first).upload_id)
    world.begin(second)
    world.records.dispose()


def test_an_accepted_manifest_keeps_its_space_through_a_restart(tmp_path: Path) -> None:
    """Less what has arrived of it."""
    blobs = Small(tmp_path / "blobs", 10**12)
    world = World(tmp_path, blobs=blobs).until_anchored()
    first, second = make_uplink(world.terms, LEAD, rows=MANY_ROWS), make_uplink(world.terms, HOSPITAL)
    upload_id, half = world.begin(first).upload_id, offset_after(first, 2)
    world.append(first, upload_id, data=first.stream[:half])
    missing = len(first.stream) - half
    blobs.free = KEPT_FREE_BYTES + missing
    restarted = Ingest(world.analyst)
    with pytest.raises(DiskFullError, match="uploads under way need"):
        restarted.begin(identity(HOSPITAL), world.id, second.body)
    blobs.free += len(second.stream)
    restarted.begin(identity(HOSPITAL), world.id, second.body)
    world.records.dispose()


@pytest.mark.parametrize("ends", ["cancelled", "sealed without it"])
def test_an_upload_that_will_not_go_on_needs_no_space(tmp_path: Path, ends: str) -> None:
    blobs = Small(tmp_path / "blobs", 10**12)
    world = World(tmp_path, blobs=blobs).until_anchored()
    world.begin(make_uplink(world.terms, LEAD))
    if ends == "cancelled":
        end.cancel(world.analyst, world.id)
    else:
        world.send(make_uplink(world.terms, HOSPITAL))
        rounds.seal(world.analyst, world.id)
    world.until_anchored(make_terms(collaboration_id=f"{2:032x}"))
    uplink = make_uplink(world.terms, HOSPITAL)
    blobs.free = KEPT_FREE_BYTES + len(uplink.stream)
    world.begin(uplink)
    world.records.dispose()


def test_an_upload_that_is_replaced_leaves_its_space(tmp_path: Path) -> None:
    blobs = Small(tmp_path / "blobs", 10**12)
    world = World(tmp_path, blobs=blobs).until_anchored()
    world.begin(make_uplink(world.terms, LEAD, seed=1))
    other = make_uplink(world.terms, LEAD, seed=2)
    blobs.free = KEPT_FREE_BYTES + len(other.stream)
    world.begin(other)
    world.records.dispose()


# how much work it is


class Counted(Small):
    """Counts how often somebody looks at a file."""

    looks = 0

    def partial_size(self, key: str) -> int | None:
        self.looks += 1
        return super().partial_size(key)


def other_round(world: World, number: int) -> None:
    """Let the lead begin an uplink in a round of its own."""
    world.until_anchored(make_terms(collaboration_id=f"{number:032x}"))
    world.begin(make_uplink(world.terms, LEAD))


@pytest.mark.parametrize("is_short", [False, True])
def test_a_manifest_asks_as_often_however_many_uploads_are_under_way(tmp_path: Path, is_short: bool) -> None:
    """One question more each would hold up a thousand parties that begin at the same time."""
    blobs = Counted(tmp_path / "blobs", 10**12)
    world, asked, looked = World(tmp_path, blobs=blobs), [], []
    for number in range(2, 8):
        other_round(world, number)
        blobs.looks, uplink = 0, hospital(world)
        if is_short:
            blobs.free = KEPT_FREE_BYTES + 1
        with statements() as found:
            if is_short:
                with pytest.raises(DiskFullError):
                    world.begin(uplink)
            else:
                world.begin(uplink)
        asked.append(len(found))
        looked.append(blobs.looks)
        blobs.free = 10**12
    assert len(set(asked[1:])) == 1
    assert is_short or len(set(looked)) == 1
    world.records.dispose()


def test_no_file_is_looked_at_while_others_wait_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, looks = Counted(tmp_path / "blobs", 10**12), list[str]()
    world = World(tmp_path, blobs=blobs).until_anchored()
    world.begin(make_uplink(world.terms, LEAD))
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0)

    def look_while_another_writes(key: str) -> None:
        with world.records.begin(write=True):
            looks.append(key)

    monkeypatch.setattr(blobs, "partial_size", look_while_another_writes)
    blobs.free = KEPT_FREE_BYTES + 1
    with pytest.raises(DiskFullError):
        world.begin(hospital(world))
    assert len(looks) == 1
    world.records.dispose()


# what is kept for a party and for a round


def payload_bytes(world: World) -> int:
    return sum(spec.payload_bytes for spec in hospital(world).manifest.arrays)


def test_a_round_keeps_so_many_bytes(tmp_path: Path) -> None:
    world = World(tmp_path).until_anchored()
    each = payload_bytes(world)
    world = limited(world, max_collaboration_bytes=2 * each - 1)
    world.send(make_uplink(world.terms, LEAD))
    with pytest.raises(LimitExceededError, match=f"at most {2 * each - 1}, got {2 * each}") as caught:
        world.begin(hospital(world))
    assert f"other institutions have {each}" in caught.value.detail
    assert "ODC_ANALYST_MAX_COLLABORATION_BYTES" in caught.value.hint
    assert caught.value.context == {"limit": 2 * each - 1}
    limited(world, max_collaboration_bytes=2 * each).begin(hospital(world))
    world.records.dispose()


def test_a_party_keeps_so_many_bytes_in_all_its_rounds(tmp_path: Path) -> None:
    world = World(tmp_path).until_anchored()
    first, each = world.id, payload_bytes(world)
    world = limited(world, max_party_bytes=2 * each - 1)
    world.send(hospital(world))
    world.until_anchored(make_terms(collaboration_id=f"{2:032x}"))
    world.begin(make_uplink(world.terms, LEAD))  # another party's bytes are its own
    over = f"other rounds keep {each}: at most {2 * each - 1}"
    with pytest.raises(LimitExceededError, match=over) as caught:
        world.begin(hospital(world))
    assert "ODC_ANALYST_MAX_PARTY_BYTES" in caught.value.hint
    end.cancel(world.analyst, first)
    world.begin(hospital(world))
    world.records.dispose()


def test_an_uplink_that_replaces_another_takes_its_place(tmp_path: Path) -> None:
    world = World(tmp_path).until_anchored()
    each = payload_bytes(world)
    world = limited(world, max_party_bytes=each, max_collaboration_bytes=each)
    for seed in (1, 2, 1):
        world.begin(hospital(world, seed=seed))
    world.records.dispose()


def test_an_uplink_that_was_replaced_is_not_counted(tmp_path: Path) -> None:
    world = World(tmp_path).until_anchored()
    each = payload_bytes(world)
    world.begin(make_uplink(world.terms, LEAD, rows=MANY_ROWS))
    world.begin(make_uplink(world.terms, LEAD))
    limited(world, max_collaboration_bytes=2 * each).begin(hospital(world))
    world.records.dispose()


def test_an_uplink_that_was_replaced_needs_space_again_when_it_comes_back(tmp_path: Path) -> None:
    world = World(tmp_path).until_anchored()
    large, each = make_uplink(world.terms, LEAD, rows=MANY_ROWS), payload_bytes(world)
    world.begin(large)
    world.begin(make_uplink(world.terms, LEAD))
    with pytest.raises(LimitExceededError):
        limited(world, max_collaboration_bytes=2 * each).begin(large)
    world.records.dispose()


def limited(world: World, **limits: Any) -> World:
    """Return the world with an analyst that has other limits."""
    world.analyst = replace(world.analyst, **limits)
    world.ingest = Ingest(world.analyst)
    return world
