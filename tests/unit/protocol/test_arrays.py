from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from protocol.arrays import (
    DIGEST_BYTES,
    Chunk,
    Layout,
    StreamReader,
    chunks_of,
    dequantise,
    frame,
    little_endian,
    quantise,
    raw_bytes,
    specify,
)
from protocol.chunk_checks import check_values
from protocol.errors import DigestMismatchError, LabelOutOfRangeError, LimitExceededError, NotFiniteError
from protocol.labels import AnyLabel, BinaryLabel, Label, MultiLabel, NumberLabel, SurvivalLabel

THREE = Label(name="y", classes=("a", "b", "c"))


def layout_of(array: Any, dtype: Any, chunk_bytes: int = 8, name: str = "rep") -> tuple[Layout, bytes]:
    ready = little_endian(np.asarray(array), dtype)
    stream = b"".join(frame(chunks_of(raw_bytes(ready), chunk_bytes)))
    return Layout([specify(name, ready, dtype, chunk_bytes)], chunk_bytes), stream


def chunks(layout: Layout, stream: bytes) -> list[Chunk]:
    return list(StreamReader(layout).feed(stream))


def check(layout: Layout, stream: bytes, chunks_done: int = 0, label: AnyLabel | None = None) -> None:
    for chunk in StreamReader(layout, chunks_done).feed(stream):
        check_values(layout, chunk, label)


def test_numbers_travel_little_endian_in_row_order() -> None:
    big_endian_in_column_order = np.asfortranarray(np.array([[1, 2], [3, 4]], dtype=">u2"))
    assert raw_bytes(little_endian(big_endian_in_column_order, "u2")).tobytes().hex() == "0100020003000400"


def test_an_array_that_is_ready_is_not_copied() -> None:
    array = np.zeros((3, 2), dtype="<f4")
    assert np.shares_memory(little_endian(array, "f4"), array)
    assert np.shares_memory(np.frombuffer(raw_bytes(array), dtype=np.uint8), array)


def test_chunks_are_views() -> None:
    data = memoryview(bytearray(5))
    first, second = chunks_of(data, 3)
    assert (len(first), len(second), first.obj is data.obj) == (3, 2, True)


def test_an_empty_array_has_no_chunk_and_a_digest() -> None:
    layout, stream = layout_of(np.zeros((0, 4)), "f4")
    assert (stream, layout.chunk_count, layout.stream_bytes) == (b"", 0, 0)
    assert layout.specs[0].digest == hashlib.sha256(b"odc/v1/array\0").digest()
    assert layout.place_of(0) == (0, 0)
    assert layout.stream_offset(0) == 0


def test_the_digest_of_an_array_is_over_its_chunk_digests() -> None:
    layout, _ = layout_of([1, 2, 3], "u1", chunk_bytes=2)
    parts = hashlib.sha256(b"\1\2").digest() + hashlib.sha256(b"\3").digest()
    assert layout.specs[0].digest == hashlib.sha256(b"odc/v1/array\0" + parts).digest()


def test_a_slot_beyond_the_last_chunk_is_an_index_error() -> None:
    layout, _ = layout_of([1, 2, 3], "u1")
    with pytest.raises(IndexError):
        layout.slot(1)


def test_a_slot_says_whether_it_ends_its_array() -> None:
    one = specify("a", np.zeros(3, dtype="u1"), "u1", 2)
    layout = Layout([one, one], 2)
    assert [layout.slot(number).ends_array for number in range(4)] == [False, True, False, True]
    assert [layout.slot(number).array for number in range(4)] == [0, 0, 1, 1]


def test_a_changed_chunk_is_named_by_number_and_array() -> None:
    layout, stream = layout_of([1.0, 2.0], "f8")
    spoilt = stream[:-1] + b"\xff"
    with pytest.raises(DigestMismatchError, match=r"^chunk 1 of rep: "):
        chunks(layout, spoilt)


def test_a_reader_goes_on_after_a_changed_chunk_is_sent_again() -> None:
    layout, stream = layout_of([1.0, 2.0], "f8")
    reader = StreamReader(layout)
    with pytest.raises(DigestMismatchError):
        list(reader.feed(bytes([stream[0] ^ 1]) + stream[1:40]))
    assert [chunk.data.tobytes() for chunk in reader.feed(stream)] == [stream[32:40], stream[72:]]


def test_a_stream_longer_than_its_manifest_is_refused() -> None:
    layout, stream = layout_of([1.0], "f8")
    with pytest.raises(LimitExceededError, match=f"at most {len(stream)}"):
        chunks(layout, stream + b"\0")


def test_a_chunk_is_read_only() -> None:
    layout, stream = layout_of([1.0], "f8")
    (chunk,) = chunks(layout, stream)
    assert chunk.data.readonly
    assert chunk.slot.stream_end == DIGEST_BYTES + 8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_number_that_is_not_finite_is_named_by_its_row_alone(dtype: str, bad: float) -> None:
    rows = np.ones((6, 3))
    rows[4, 1] = bad
    layout, stream = layout_of(rows, dtype)
    with pytest.raises(NotFiniteError, match=r"^rep: row 4 is not finite$") as caught:
        check(layout, stream)
    assert caught.value.context == {"array": "rep", "row": 4}


def test_a_row_is_counted_from_the_start_of_its_own_array() -> None:
    fine, _ = layout_of(np.ones((5, 2)), "f4")
    bad, stream = layout_of([[1.0, 1.0], [np.nan, 1.0]], "f4", name="anchor_rep")
    layout = Layout([fine.specs[0], bad.specs[0]], 8)
    with pytest.raises(NotFiniteError, match=r"^anchor_rep: row 1 "):
        check(layout, stream, chunks_done=5)


@pytest.mark.parametrize(("dtype", "bad"), [("u1", 3), ("u1", 255), ("u2", 65535), ("i4", -1), ("i8", 3)])
def test_a_label_that_numbers_no_class_is_named_by_its_row_alone(dtype: str, bad: int) -> None:
    layout, stream = layout_of([0, 1, 2, 0, 0, 0, 0, 0, 0, bad], dtype, name="labels")
    with pytest.raises(LabelOutOfRangeError, match=r"^labels: row 9 is not one of 3 classes$"):
        check(layout, stream, label=THREE)


def test_labels_of_every_class_are_taken() -> None:
    layout, stream = layout_of([0, 1, 2], "u1", name="labels")
    check(layout, stream, label=THREE)


def test_numbers_from_minus_one_to_one_are_labels() -> None:
    number = NumberLabel(name="y", low=0, high=1)
    layout, stream = layout_of([-1.0, 0.5, 1.0], "f4", name="labels")
    check(layout, stream, label=number)
    for beyond, error in (
        (1.0001, LabelOutOfRangeError),
        (np.nan, NotFiniteError),
        (-np.inf, NotFiniteError),
    ):
        layout, stream = layout_of([-1.0, 0.5, beyond], "f4", name="labels")
        with pytest.raises(error, match="labels: row 2 "):
            check(layout, stream, label=number)


def test_only_labels_are_held_to_the_label_of_the_terms() -> None:
    layout, stream = layout_of([[7.0, 9.0]], "f4", name="rep")
    check(layout, stream, label=NumberLabel(name="y", low=0, high=1))


@pytest.mark.parametrize("bad", [-1e-30, np.nan, np.inf, 2.0**121])
def test_a_scale_out_of_range_is_named_by_its_column(bad: float) -> None:
    layout, stream = layout_of([0.0, 2.0**120, bad], "f4", name="rep_scale")
    with pytest.raises(NotFiniteError, match=r"^rep_scale: row 2 "):
        check(layout, stream)


def test_the_largest_scale_keeps_every_entry_finite() -> None:
    scale = np.array([2.0**120], dtype=np.float32)
    assert np.isfinite(dequantise(np.array([[-128], [127]], dtype=np.int8), scale)).all()


def test_a_matrix_is_scaled_by_the_largest_of_each_column() -> None:
    values, scale = quantise(np.array([[127.0, 0.5], [-64.4, -1.0], [0.0, 0.25]]))
    assert scale[0] == 1
    assert values[:, 0].tolist() == [127, -64, 0]
    assert values[:, 1].tolist() == [64, -127, 32]  # in units of 1/127
    assert values.dtype == np.int8
    assert scale.dtype == np.float32


def test_a_matrix_without_rows_has_scales_of_zero() -> None:
    values, scale = quantise(np.empty((0, 3)))
    assert (values.shape, scale.tolist()) == ((0, 3), [0, 0, 0])


def test_a_matrix_of_many_blocks_is_rounded_like_one() -> None:
    matrix = np.random.default_rng(0).standard_normal((10_000, 2))
    values, scale = quantise(matrix)
    np.testing.assert_array_equal(values, np.rint(matrix / scale.astype(np.float64)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e40])
def test_a_number_that_no_scale_can_hold_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite or too large"):
        quantise(np.array([[1.0, bad]]))


def test_bytes_that_are_no_labels_may_be_anything() -> None:
    layout, stream = layout_of([0, 255], "u1", name="model")
    check(layout, stream)


def test_times_of_survival_are_signed_and_not_zero() -> None:
    label = SurvivalLabel(name="t", event="e", seen="1", censored="0", horizon=9, times=(3,))
    layout, stream = layout_of([-1.0, 0.25, 1.0], "f4", name="labels")
    check(layout, stream, label=label)
    for bad in (0.0, 1.5):
        layout, stream = layout_of([-1.0, bad, 1.0], "f4", name="labels")
        with pytest.raises(LabelOutOfRangeError, match="row 1 is not a time from -1 to 1 other than 0"):
            check(layout, stream, label=label)


def test_a_set_of_labels_has_no_bit_of_a_label_that_is_none() -> None:
    names = ("a", "b", "c")
    label = MultiLabel(labels=tuple(BinaryLabel(name=name, absent="0", present="1") for name in names))
    layout, stream = layout_of([0, 7, 4], "u1", name="labels")
    check(layout, stream, label=label)
    layout, stream = layout_of([0, 8, 4], "u1", name="labels")
    with pytest.raises(LabelOutOfRangeError, match="row 1 is not a set of 3 labels"):
        check(layout, stream, label=label)
