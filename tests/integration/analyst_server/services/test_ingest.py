from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_server.services import end, rounds
from analyst_server.services.ingest import blob_key
from analyst_server.store import Uplink as UplinkRow
from protocol.arrays import DIGEST_BYTES, Layout, raw_bytes
from protocol.envelope import seed_commitment, verify
from protocol.errors import (
    DifferentUplinkError,
    DigestMismatchError,
    DtypeMismatchError,
    LabelOutOfRangeError,
    LimitExceededError,
    NotFiniteError,
    NotFoundError,
    NotPermittedError,
    OdcError,
    OffsetMismatchError,
    OutOfOrderError,
    ShapeMismatchError,
    TermsMismatchError,
    TermsNotAcceptedError,
    TruncatedError,
    UploadSupersededError,
)
from protocol.limits import MIN_CHUNK_BYTES
from protocol.messages import Receipt
from tests.harness.certificates import NOW
from tests.harness.world import (
    FEATURES,
    HOSPITAL,
    LATENT_DIM,
    LEAD,
    Uplink,
    World,
    identity,
    make_terms,
    make_uplink,
    signed,
)

MANY_ROWS = 20_000
"""Enough that the representation has three chunks; the anchor's and the labels have one each."""


@pytest.fixture
def ready(world: World) -> World:
    return world.until_anchored()


def hospital(world: World, **changed: Any) -> Uplink:
    return make_uplink(world.terms, HOSPITAL, **changed)


def stored(world: World, upload_id: str) -> UplinkRow:
    with world.records.begin() as unit:
        row = unit.uplink(upload_id)
    assert row is not None
    return row


def part_file(world: World, upload_id: str) -> Path:
    return whole_file(world, upload_id).with_name(f"{upload_id}.part")


def whole_file(world: World, upload_id: str) -> Path:
    return world.directory / "blobs" / blob_key(stored(world, upload_id))


def offset_after(uplink: Uplink, chunks: int) -> int:
    return Layout(uplink.manifest.arrays, uplink.manifest.chunk_bytes).stream_offset(chunks)


# begin


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


# append


def test_bytes_in_pieces_of_any_size_arrive(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    append = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert append is not None
    for start in range(0, len(uplink.stream), 10_007):
        append.write(uplink.stream[start : start + 10_007])
    assert append.close() == len(uplink.stream)


def test_what_is_stored_is_the_arrays_without_their_digests(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_chunk_cut_off_counts_as_not_sent(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2) - 1])
    assert reached == offset_after(uplink, 1)


@pytest.mark.parametrize("offset", [1, DIGEST_BYTES, 10**12])
def test_an_append_elsewhere_is_told_the_offset(ready: World, offset: int) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    with pytest.raises(OffsetMismatchError) as caught:
        ready.ingest.append(identity(HOSPITAL), upload_id, offset)
    assert caught.value.expected == reached


def test_the_status_says_where_to_go_on(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == reached


@pytest.mark.parametrize(
    ("name", "place", "value", "error"),
    [
        ("rep", (3, 1), np.nan, NotFiniteError),
        ("rep", (29, 0), np.inf, NotFiniteError),
        ("anchor_rep", (2, 0), -np.inf, NotFiniteError),
        ("labels", (7,), 2, LabelOutOfRangeError),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_row(
    ready: World, name: str, place: tuple[int, ...], value: float, error: type[OdcError]
) -> None:
    uplink = hospital(ready)
    array = dict(zip(("rep", "anchor_rep", "labels"), uplink.arrays, strict=True))[name].copy()
    array[place] = value
    broken = hospital(ready, arrays={name: array})
    upload_id = ready.begin(broken).upload_id
    with pytest.raises(error) as caught:
        ready.append(broken, upload_id)
    assert caught.value.context["row"] == place[0]


def test_a_changed_byte_is_refused_and_the_chunks_before_it_stay(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    damaged = bytearray(uplink.stream)
    damaged[offset_after(uplink, 2) + 1000] ^= 1
    with pytest.raises(DigestMismatchError):
        ready.append(uplink, upload_id, data=bytes(damaged))
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == offset_after(uplink, 2)


def test_more_bytes_than_promised_are_refused(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    with pytest.raises(LimitExceededError):
        ready.append(uplink, upload_id, data=uplink.stream + b"x")


def test_an_older_append_is_refused_once_a_newer_has_begun(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    older = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert older is not None
    with pytest.raises(UploadSupersededError):
        older.write(uplink.stream)


def test_an_append_to_a_replaced_upload_is_refused(ready: World) -> None:
    uplink = hospital(ready, seed=1)
    upload_id = ready.begin(uplink).upload_id
    append = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    ready.begin(hospital(ready, seed=2))
    assert append is not None
    with pytest.raises(UploadSupersededError):
        append.write(uplink.stream)


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


@pytest.mark.parametrize("sender", [LEAD, "hospital-z"])
def test_another_party_does_not_find_the_upload(ready: World, sender: str) -> None:
    upload_id = ready.begin(hospital(ready)).upload_id
    with pytest.raises(NotFoundError):
        ready.ingest.status(identity(sender), upload_id)


def test_an_unknown_upload_is_not_found(ready: World) -> None:
    with pytest.raises(NotFoundError):
        ready.ingest.append(identity(HOSPITAL), "0" * 32, 0)


# going on after a break


def test_an_upload_goes_on_after_a_restart(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 3) + 5])
    ready.restart()
    assert ready.begin(uplink).offset == reached == offset_after(uplink, 3)
    ready.append(uplink, upload_id, reached)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_chunk_damaged_on_the_disk_is_asked_for_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    with part_file(ready, upload_id).open("r+b") as file:
        file.seek(MIN_CHUNK_BYTES + 17)
        file.write(b"\xff\xff")
    ready.restart()
    assert ready.begin(uplink).offset == offset_after(uplink, 1)


def test_an_upload_with_a_repaired_chunk_completes(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    part_file(ready, upload_id).write_bytes(b"nothing of it")
    ready.restart()
    ready.append(uplink, upload_id, ready.begin(uplink).offset)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


@pytest.mark.parametrize("lost", ["", ".digests"])
def test_an_upload_of_which_a_file_is_gone_starts_again(ready: World, lost: str) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    ready.analyst.blobs.discard(blob_key(stored(ready, upload_id)) + lost)
    ready.restart()
    assert ready.begin(uplink).offset == 0


def crash_before_the_receipt(world: World, uplink: Uplink) -> str:
    """Leave the disk as a crash between the blob's final name and its record does."""
    upload_id = world.begin(uplink).upload_id
    world.append(uplink, upload_id)
    world.analyst.blobs.commit(blob_key(stored(world, upload_id)))
    world.restart()
    return upload_id


def test_a_crash_between_the_name_and_the_receipt_is_completed_without_sending_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = crash_before_the_receipt(ready, uplink)
    status = ready.begin(uplink)
    assert (status.offset, status.complete) == (len(uplink.stream), False)
    assert ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_a_whole_blob_that_was_damaged_before_its_receipt_comes_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = crash_before_the_receipt(ready, uplink)
    with whole_file(ready, upload_id).open("r+b") as file:
        file.write(b"\xff\xff\xff")
    assert ready.begin(uplink).offset == 0
    ready.append(uplink, upload_id)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


# complete


def test_completing_too_early_says_what_is_missing_and_keeps_the_rest(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2)])
    with pytest.raises(TruncatedError):
        ready.complete(uplink, upload_id)
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == reached


def test_the_receipt_is_the_analysts_signature_under_the_uplink(ready: World) -> None:
    uplink = hospital(ready)
    verified = verify(Receipt, ready.send(uplink), ready.analyst.root, at=NOW)
    receipt = verified.message
    assert verified.author == identity("analyst")
    assert (receipt.party, receipt.received_at) == (HOSPITAL, NOW)
    assert receipt.payload_bytes == sum(array.nbytes for array in uplink.arrays)


def test_completing_twice_gets_the_same_receipt(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    first = ready.complete(uplink, upload_id)
    ready.clock.forward(100)
    assert ready.complete(uplink, upload_id) == first


def test_the_whole_uplink_sent_again_gets_the_same_receipt_and_keeps_its_bytes(ready: World) -> None:
    uplink = hospital(ready)
    first = ready.send(uplink)
    assert ready.send(uplink) == first
    (row,) = (row for row in rows_of(ready) if row.receipt)
    assert whole_file(ready, row.id).exists()


def test_an_append_behind_a_complete_upload_takes_nothing(ready: World) -> None:
    uplink = hospital(ready)
    ready.send(uplink)
    upload_id = ready.begin(uplink).upload_id
    assert ready.ingest.append(identity(HOSPITAL), upload_id, len(uplink.stream)) is None


def test_an_append_into_a_complete_upload_is_told_its_end(ready: World) -> None:
    uplink = hospital(ready)
    ready.send(uplink)
    upload_id = ready.begin(uplink).upload_id
    with pytest.raises(OffsetMismatchError) as caught:
        ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert caught.value.expected == len(uplink.stream)


def rows_of(world: World) -> list[UplinkRow]:
    with world.records.begin() as unit:
        return list(unit.uplinks_of(world.id, HOSPITAL))


def test_arrays_that_are_not_the_signed_ones_start_again_from_nothing(ready: World) -> None:
    promised, sent = hospital(ready, seed=1), hospital(ready, seed=2)
    upload_id = ready.begin(promised).upload_id
    ready.append(promised, upload_id, data=sent.stream)
    with pytest.raises(DigestMismatchError, match="rep, anchor_rep"):
        ready.complete(promised, upload_id)
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == 0


def test_a_wrong_digest_of_the_whole_is_refused(ready: World) -> None:
    uplink = hospital(ready)
    upload_id = ready.begin(uplink).upload_id
    ready.append(uplink, upload_id)
    with pytest.raises(DigestMismatchError, match="as a whole"):
        ready.ingest.complete(identity(HOSPITAL), upload_id, bytes(32))


def test_of_two_uploads_of_a_party_only_one_completes(ready: World) -> None:
    first, second = hospital(ready, seed=1), hospital(ready, seed=2)
    abandoned = ready.begin(first).upload_id
    ready.send(second)
    ready.append(first, abandoned)
    with pytest.raises(DifferentUplinkError):
        ready.complete(first, abandoned)


def test_the_digest_list_goes_with_the_receipt(ready: World) -> None:
    ready.send(hospital(ready))
    assert not list((ready.directory / "blobs").rglob("*.part"))


def test_the_last_uplink_seals_the_round(ready: World) -> None:
    ready.send(make_uplink(ready.terms, LEAD))
    assert ready.state == "collecting"
    ready.send(hospital(ready))
    assert ready.state == "sealed"


def test_a_party_without_rows_is_taken(ready: World) -> None:
    assert ready.send(hospital(ready, rows=0))


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


def test_labels_of_many_classes_travel_in_two_bytes(world: World) -> None:
    schema = make_terms().table_schema
    label = schema.label_column.model_copy(update={"classes": tuple(map(str, range(300)))})
    world.until_anchored(make_terms(table_schema=schema.model_copy(update={"label_column": label})))
    uplink = hospital(world, rows=300, arrays={"labels": np.arange(300).astype("<u2")})
    assert world.send(uplink)


def test_an_uplink_of_scaled_integers_goes_on_after_a_restart_and_is_received(world: World) -> None:
    terms = make_terms(rep_dtype="i1")
    world.until_anchored(terms)
    uplink = make_uplink(terms, HOSPITAL)
    status = world.begin(uplink)
    reached = world.append(uplink, status.upload_id, data=uplink.stream[:-1])
    assert 0 < reached < len(uplink.stream)
    world.restart()
    assert world.append(uplink, status.upload_id, reached) == len(uplink.stream)
    receipt = world.complete(uplink, status.upload_id)
    payload_bytes = verify(Receipt, receipt, world.analyst.root, at=NOW).message.payload_bytes
    assert payload_bytes == (30 + 4) * 2 + 30 + 2 * 2 * 4


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_a_scale_that_would_spoil_a_column_is_refused(world: World, scale: float) -> None:
    terms = make_terms(rep_dtype="i1")
    world.until_anchored(terms)
    uplink = make_uplink(terms, HOSPITAL, arrays={"rep_scale": np.array([1.0, scale], dtype=np.float32)})
    status = world.begin(uplink)
    with pytest.raises(NotFiniteError, match="rep_scale: row 1"):
        world.append(uplink, status.upload_id)


def test_a_refused_label_is_not_quoted(ready: World) -> None:
    uplink = hospital(ready, arrays={"labels": np.full(30, 77, "<u1")})
    upload_id = ready.begin(uplink).upload_id
    with pytest.raises(LabelOutOfRangeError) as caught:
        ready.append(uplink, upload_id)
    assert "77" not in f"{caught.value} {caught.value.to_problem()}"
