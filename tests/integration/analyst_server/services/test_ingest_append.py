"""The bytes of an upload: they arrive chunk by chunk, and every number is checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analyst_server.blobs import DirectoryBlobs, MemoryBlobs
from protocol.arrays import DIGEST_BYTES, raw_bytes
from protocol.errors import (
    DigestMismatchError,
    LabelOutOfRangeError,
    LimitExceededError,
    MalformedMessageError,
    NotFiniteError,
    NotFoundError,
    OdcError,
    OffsetMismatchError,
    UploadSupersededError,
)
from protocol.limits import MIN_CHUNK_BYTES
from protocol.messages import PrivacyRecord
from protocol.row_bounds import RowTooLongError
from tests.harness.uploads import MANY_ROWS, hospital, offset_after, part_file, whole_file
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink


def test_bytes_in_pieces_of_any_size_arrive(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    append = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert append is not None
    for start in range(0, len(uplink.stream), 10_007):
        append.write(uplink.stream[start : start + 10_007])
    assert append.close() == len(uplink.stream)


def test_a_store_that_holds_bytes_back_is_synced_while_they_arrive(tmp_path: Path) -> None:
    class HoldingBack(MemoryBlobs):
        holds_back_bytes = 2 * MIN_CHUNK_BYTES

        def sync(self, key: str) -> None:
            synced.append(key)

    synced: list[str] = []
    world = World(tmp_path, blobs=HoldingBack()).until_anchored()
    uplink = hospital(world, rows=MANY_ROWS)
    upload_id = world.begin(uplink).upload_id
    append = world.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert append is not None
    append.write(uplink.stream)
    whole = sum(array.nbytes for array in uplink.arrays) // (2 * MIN_CHUNK_BYTES)
    assert whole > 0
    arrays = [key for key in synced if key.endswith(upload_id)]
    assert len(arrays) == whole
    assert len(synced) == 2 * len(arrays), "and the list of digests with them"
    world.records.dispose()


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


def test_what_came_of_a_chunk_is_kept_and_need_not_come_again(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    for cut in (offset_after(uplink, 2) + 5, offset_after(uplink, 2) + 700, offset_after(uplink, 3) + 1):
        status = ready.ingest.status(identity(HOSPITAL), upload_id)
        start = status.offset + status.begun
        ready.append(uplink, upload_id, start, uplink.stream[start:cut])
        status = ready.ingest.status(identity(HOSPITAL), upload_id)
        assert status.offset + status.begun == cut
    ready.append(uplink, upload_id, cut)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))
    assert sorted(path.name for path in whole_file(ready, upload_id).parent.iterdir()) == [upload_id]


def test_from_the_end_of_the_last_chunk_on_what_had_begun_is_dropped(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2) + 700])
    ready.append(uplink, upload_id, reached, uplink.stream[reached : reached + 50])
    assert ready.ingest.status(identity(HOSPITAL), upload_id).begun == 50
    ready.append(uplink, upload_id, reached)
    ready.complete(uplink, upload_id)
    assert whole_file(ready, upload_id).read_bytes() == b"".join(map(raw_bytes, uplink.arrays))


def test_what_had_begun_and_was_damaged_costs_its_chunk_alone(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    reached = ready.append(uplink, upload_id, data=uplink.stream[: offset_after(uplink, 2) + 700])
    begun = part_file(ready, upload_id).with_name(f"{upload_id}.2.begun.part")
    assert begun.read_bytes() == uplink.stream[reached : reached + 700]
    begun.write_bytes(bytes(700))
    with pytest.raises(DigestMismatchError):
        ready.append(uplink, upload_id, reached + 700)
    status = ready.ingest.status(identity(HOSPITAL), upload_id)
    assert (status.offset, status.begun) == (reached, 0)
    ready.append(uplink, upload_id, reached)
    ready.complete(uplink, upload_id)


def test_a_connection_that_was_replaced_leaves_nothing_of_a_chunk(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    upload_id = ready.begin(uplink).upload_id
    older = ready.ingest.append(identity(HOSPITAL), upload_id, 0)
    assert older is not None
    older.write(uplink.stream[:900])
    ready.append(uplink, upload_id, 0, uplink.stream[:400])
    older.close()
    assert ready.ingest.status(identity(HOSPITAL), upload_id).begun == 400


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


@pytest.mark.parametrize(("name", "row"), [("rep", 29), ("anchor_rep", 3)])
@pytest.mark.parametrize("value", [1e4, 3e38])
def test_a_row_that_no_table_encodes_is_refused_and_another_uplink_can_come(
    ready: World, name: str, row: int, value: float
) -> None:
    uplink = hospital(ready)
    array = dict(zip(("rep", "anchor_rep", "labels"), uplink.arrays, strict=True))[name].copy()
    array[row] = value
    broken = hospital(ready, arrays={name: array})
    upload_id = ready.begin(broken).upload_id
    with pytest.raises(RowTooLongError) as caught:
        ready.append(broken, upload_id)
    assert caught.value.context == {"party": HOSPITAL, "array": name, "row": row}
    assert ready.ingest.status(identity(HOSPITAL), upload_id).offset == 0
    assert ready.send(uplink)


def test_a_row_that_chunks_cut_is_checked_and_is_not_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of 65,536 bytes end inside rows of 12."""
    latent_dim = 3
    terms = make_terms(latent_dim=latent_dim)
    world.until_anchored(terms)
    rep = np.zeros((MANY_ROWS, latent_dim), "<f4")
    cut = MIN_CHUNK_BYTES // rep.itemsize // latent_dim
    uplink = hospital(world, rows=MANY_ROWS, arrays={"rep": rep})
    monkeypatch.delattr(DirectoryBlobs, "read_partial")
    world.append(uplink, world.begin(uplink).upload_id)
    rep[cut] = 1e4
    broken = hospital(world, rows=MANY_ROWS, arrays={"rep": rep})
    with pytest.raises(RowTooLongError, match=f"row {cut}"):
        world.append(broken, world.begin(broken).upload_id)


def test_a_row_that_ends_after_a_restart_is_checked_too(ready: World) -> None:
    uplink = hospital(ready, rows=MANY_ROWS)
    rep = uplink.arrays[0].copy()
    rep[-1] = 100
    broken = hospital(ready, rows=MANY_ROWS, arrays={"rep": rep})
    upload_id = ready.begin(broken).upload_id
    reached = ready.append(broken, upload_id, data=broken.stream[: offset_after(broken, 2)])
    ready.restart()
    with pytest.raises(RowTooLongError, match=f"row {MANY_ROWS - 1}"):
        ready.append(broken, upload_id, reached)


def test_noise_that_nobody_can_add_is_refused_before_a_byte(ready: World) -> None:
    stated = PrivacyRecord(epsilon=1.0, delta=0.5, clip=1e308)
    with pytest.raises(MalformedMessageError, match="noise"):
        ready.begin(hospital(ready, privacy=stated))


def test_a_scale_that_no_row_has_is_refused(world: World) -> None:
    terms = make_terms(rep_dtype="i1")
    world.until_anchored(terms)
    uplink = make_uplink(terms, HOSPITAL, arrays={"rep_scale": np.array([1e-3, 1], dtype=np.float32)})
    status = world.begin(uplink)
    with pytest.raises(RowTooLongError, match="rep_scale of hospital-a: row 1"):
        world.append(uplink, status.upload_id)


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


@pytest.mark.parametrize("sender", [LEAD, "hospital-z"])
def test_another_party_does_not_find_the_upload(ready: World, sender: str) -> None:
    upload_id = ready.begin(hospital(ready)).upload_id
    with pytest.raises(NotFoundError):
        ready.ingest.status(identity(sender), upload_id)


def test_an_unknown_upload_is_not_found(ready: World) -> None:
    with pytest.raises(NotFoundError):
        ready.ingest.append(identity(HOSPITAL), "0" * 32, 0)


def test_labels_of_many_classes_travel_in_two_bytes(world: World) -> None:
    schema = make_terms().table_schema
    label = schema.label_column.model_copy(update={"classes": tuple(map(str, range(300)))})
    world.until_anchored(make_terms(table_schema=schema.model_copy(update={"label_column": label})))
    uplink = hospital(world, rows=300, arrays={"labels": np.arange(300).astype("<u2")})
    assert world.send(uplink)


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
