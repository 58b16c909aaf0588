"""A manifest opens an upload: whose, under which terms, and how large, is settled before the first byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.blobs import DirectoryBlobs
from protocol.codec import digest
from protocol.envelope import seed_commitment
from protocol.errors import (
    DifferentUplinkError,
    DtypeMismatchError,
    LimitExceededError,
    NotFoundError,
    NotPermittedError,
    OutOfOrderError,
    ShapeMismatchError,
    TermsMismatchError,
    TermsNotAcceptedError,
    UploadSupersededError,
)
from tests.harness.uploads import hospital, part_file
from tests.harness.world import (
    FEATURES,
    HOSPITAL,
    LATENT_DIM,
    LEAD,
    World,
    identity,
    make_uplink,
    signed,
)


def test_a_first_manifest_opens_an_upload_at_nothing(ready: World) -> None:
    uplink = hospital(ready)
    status = ready.begin(uplink)
    assert (status.offset, status.length, status.complete, status.created) == (
        0,
        len(uplink.stream),
        False,
        True,
    )


def test_the_same_manifest_twice_finds_the_same_upload(ready: World) -> None:
    first, again = ready.begin(hospital(ready)), ready.begin(hospital(ready))
    assert (again.upload_id, again.created) == (first.upload_id, False)


def test_the_first_upload_moves_the_collaboration_to_collecting(ready: World) -> None:
    ready.begin(hospital(ready))
    assert ready.state == "collecting"


def test_a_different_manifest_before_completion_replaces_the_first(ready: World) -> None:
    first = hospital(ready, seed=1)
    abandoned = ready.begin(first).upload_id
    ready.append(first, abandoned)
    second = hospital(ready, seed=2)
    status = ready.begin(second)
    assert (status.upload_id != abandoned, status.offset, status.created) == (True, 0, True)


def test_the_bytes_of_a_replaced_upload_are_erased(ready: World) -> None:
    first = hospital(ready, seed=1)
    abandoned = ready.begin(first).upload_id
    ready.append(first, abandoned)
    ready.begin(hospital(ready, seed=2))
    assert not part_file(ready, abandoned).exists()


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_replaced_upload_is_not_completed_even_if_the_server_died_before_it_erased_it(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    replaced = ready.begin(first).upload_id
    ready.append(first, replaced)
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryBlobs, "discard", die)
        with pytest.raises(KeyboardInterrupt):
            ready.begin(second)
    ready.restart()
    with pytest.raises(UploadSupersededError):
        ready.complete(first, replaced)
    assert ready.send(second)


def test_a_replaced_manifest_can_be_begun_again_and_replaces_the_other(ready: World) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    found = ready.begin(first).upload_id
    other = ready.begin(second).upload_id
    ready.append(second, other)
    again = ready.begin(first)
    assert (again.upload_id, again.offset, again.created) == (found, 0, False)
    assert not part_file(ready, other).exists()
    assert ready.send(first)
    with pytest.raises(DifferentUplinkError):
        ready.begin(second)


def test_beginning_the_same_again_is_no_step_unless_another_came_between(ready: World) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    for uplink in (first, first, second, second, first):
        ready.begin(uplink)
    with ready.records.begin() as unit:
        steps = [entry.subject for entry in unit.ledger(ready.id) if entry.event == "begin uplink"]
    one, other = digest(first.manifest), digest(second.manifest)
    assert steps == [one, other, one]


def test_a_different_manifest_after_completion_is_refused(ready: World) -> None:
    ready.send(hospital(ready, seed=1))
    with pytest.raises(DifferentUplinkError):
        ready.begin(hospital(ready, seed=2))


def test_the_same_manifest_after_completion_is_shown_complete(ready: World) -> None:
    uplink = hospital(ready)
    ready.send(uplink)
    status = ready.begin(uplink)
    assert (status.complete, status.offset) == (True, len(uplink.stream))


def test_a_party_without_signature_under_the_terms_is_refused(world: World) -> None:
    world.publish()
    world.accept(LEAD)
    with pytest.raises(TermsNotAcceptedError):
        world.begin(hospital(world))


def test_no_upload_begins_before_the_anchor(world: World) -> None:
    world.publish()
    world.accept(LEAD, HOSPITAL)
    with pytest.raises(OutOfOrderError):
        world.begin(hospital(world))


def test_an_uplink_in_anothers_name_is_refused(ready: World) -> None:
    of_the_lead = make_uplink(ready.terms, LEAD).manifest
    with pytest.raises(NotPermittedError):
        ready.ingest.begin(identity(HOSPITAL), ready.id, signed(HOSPITAL, of_the_lead))


def test_an_uplink_signed_by_another_is_refused(ready: World) -> None:
    with pytest.raises(NotPermittedError):
        ready.ingest.begin(identity(LEAD), ready.id, hospital(ready).body)


def test_an_uplink_for_another_collaboration_is_refused(ready: World) -> None:
    uplink = hospital(ready, collaboration_id="d0" * 16)
    with pytest.raises(NotPermittedError):
        ready.begin(uplink)


def test_a_stranger_learns_nothing_but_not_found(ready: World) -> None:
    stranger = make_uplink(ready.terms, "hospital-z")
    with pytest.raises(NotFoundError):
        ready.begin(stranger)


def test_an_uplink_for_other_terms_is_refused(ready: World) -> None:
    uplink = hospital(ready, terms_digest=bytes(32))
    with pytest.raises(TermsMismatchError):
        ready.begin(uplink)


def test_an_uplink_under_another_anchor_is_refused(ready: World) -> None:
    uplink = hospital(ready, anchor_commitment=seed_commitment(bytes(32)))
    with pytest.raises(TermsMismatchError, match="anchor"):
        ready.begin(uplink)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("rep", (30, LATENT_DIM + 1)),
        ("rep", (30, LATENT_DIM - 1)),
        ("anchor_rep", (FEATURES + 1, LATENT_DIM)),
        ("anchor_rep", (FEATURES, LATENT_DIM + 1)),
        ("anchor_rep", (0, LATENT_DIM)),
    ],
)
def test_a_wrong_shape_is_refused(ready: World, name: str, shape: tuple[int, int]) -> None:
    with pytest.raises(ShapeMismatchError):
        ready.begin(hospital(ready, arrays={name: np.zeros(shape, "<f4")}))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("rep", np.zeros((30, LATENT_DIM), "<f8")),
        ("rep", np.zeros((30, LATENT_DIM), "<f2")),
        ("anchor_rep", np.zeros((FEATURES, LATENT_DIM), "<f8")),
        ("labels", np.zeros(30, "<u2")),
        ("labels", np.zeros(30, "<i8")),
    ],
)
def test_a_wrong_number_type_is_refused(ready: World, name: str, array: Any) -> None:
    with pytest.raises(DtypeMismatchError):
        ready.begin(hospital(ready, arrays={name: array}))


def test_more_bytes_than_the_analyst_allows_are_refused_before_the_first(tmp_path: Path) -> None:
    world = World(tmp_path, max_uplink_bytes=300).until_anchored()
    try:
        with pytest.raises(LimitExceededError, match="at most 300"):
            world.begin(hospital(world))
    finally:
        world.records.dispose()


def test_a_refused_manifest_leaves_no_trace(ready: World) -> None:
    with pytest.raises(ShapeMismatchError):
        ready.begin(hospital(ready, arrays={"rep": np.zeros((30, 3), "<f4")}))
    with ready.records.begin() as unit:
        assert not unit.uplinks_of(ready.id, HOSPITAL)
    assert ready.state == "anchored"
