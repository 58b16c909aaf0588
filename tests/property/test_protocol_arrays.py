"""A stream gives the same chunks however it is cut, and no flipped byte is accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.arrays import (
    ArrayDigest,
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
from protocol.errors import DigestMismatchError, LimitExceededError, ProtocolError
from protocol.labels import Label
from protocol.limits import MAX_SCALE
from protocol.messages import DTYPE_BYTES


@dataclass(frozen=True)
class Transfer:
    """Arrays with their layout and their stream."""

    layout: Layout
    payload: bytes
    stream: bytes


@st.composite
def transfers(draw: st.DrawFn, *, empty: bool = True) -> Transfer:
    """Up to three small arrays; chunks of 8 to 40 bytes, so that every size of number fits into them."""
    chunk_bytes = 8 * draw(st.integers(1, 5))
    specs, payload, stream = [], b"", b""
    for number in range(draw(st.integers(0 if empty else 1, 3))):
        dtype = draw(st.sampled_from(sorted(DTYPE_BYTES)))
        extent = st.integers(0 if empty else 1, 6)
        shape = draw(st.tuples(extent) | st.tuples(extent, extent))
        size = math.prod(shape) * DTYPE_BYTES[dtype]
        data = draw(st.binary(min_size=size, max_size=size))
        array = np.frombuffer(data, dtype="<" + dtype).reshape(shape)
        specs.append(specify(f"array {number}", array, dtype, chunk_bytes))  # type: ignore[arg-type]
        payload += data
        stream += b"".join(frame(chunks_of(raw_bytes(array), chunk_bytes)))
    return Transfer(Layout(specs, chunk_bytes), payload, stream)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return ``data`` cut at the offsets in ``cuts``."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def read(layout: Layout, parts: list[bytes], chunks_done: int = 0, begun: bytes = b"") -> list[Chunk]:
    reader = StreamReader(layout, chunks_done, begun)
    return [chunk for part in parts for chunk in reader.feed(part)]


@given(transfers())
def test_a_stream_fed_whole_gives_the_arrays_and_their_digests(transfer: Transfer) -> None:
    chunks = read(transfer.layout, [transfer.stream])
    assert b"".join(chunk.data for chunk in chunks) == transfer.payload
    digests = [ArrayDigest() for _ in transfer.layout.specs]
    for chunk in chunks:
        digests[chunk.slot.array].update(chunk.digest)
    assert [each.digest() for each in digests] == [spec.digest for spec in transfer.layout.specs]


@given(transfers(), st.lists(st.integers(0, 10**6), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_chunks(transfer: Transfer, cuts: list[int]) -> None:
    whole = read(transfer.layout, [transfer.stream])
    assert read(transfer.layout, pieces(transfer.stream, cuts)) == whole
    one_byte_at_a_time = [bytes([byte]) for byte in transfer.stream]
    assert read(transfer.layout, one_byte_at_a_time) == whole


@given(transfers())
def test_a_stream_can_be_resumed_at_every_byte(transfer: Transfer) -> None:
    layout, whole = transfer.layout, read(transfer.layout, [transfer.stream])
    for offset in range(layout.stream_bytes + 1):
        done, inside = layout.place_of(offset)
        assert layout.stream_offset(done) + inside == offset
        assert inside == 0 or offset < layout.slot(done).stream_end
        reader = StreamReader(layout)
        assert list(reader.feed(transfer.stream[:offset])) == whole[:done]
        assert reader.begun == transfer.stream[offset - inside : offset]
        assert read(layout, [transfer.stream[offset:]], done, reader.begun) == whole[done:]


@given(transfers())
def test_a_stream_has_no_other_offsets(transfer: Transfer) -> None:
    for offset in (-1, transfer.layout.stream_bytes + 1):
        with pytest.raises(ValueError, match="the stream has"):
            transfer.layout.place_of(offset)


@given(transfers())
def test_the_layout_says_where_every_chunk_is(transfer: Transfer) -> None:
    layout = transfer.layout
    assert (layout.payload_bytes, layout.stream_bytes) == (len(transfer.payload), len(transfer.stream))
    end = 0
    for number, chunk in enumerate(read(layout, [transfer.stream])):
        assert chunk.slot == layout.slot(number)
        assert chunk.slot.stream_offset == end
        start = chunk.slot.payload_offset
        assert transfer.payload[start : start + chunk.slot.payload_bytes] == chunk.data
        end = chunk.slot.stream_end
    assert end == layout.stream_bytes


@given(transfers(empty=False), st.data())
def test_any_flipped_bit_is_found_and_the_chunks_before_it_stay(
    transfer: Transfer, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(transfer.stream) - 1))
    spoilt = bytearray(transfer.stream)
    spoilt[place] ^= 1 << data.draw(st.integers(0, 7))
    reader = StreamReader(transfer.layout)
    good: list[Chunk] = []
    with pytest.raises(DigestMismatchError):
        good.extend(reader.feed(bytes(spoilt)))  # what came before the error is kept by extend
    assert all(chunk.slot.stream_end <= place for chunk in good)
    assert len(good) == sum(
        transfer.layout.slot(number).stream_end <= place for number in range(transfer.layout.chunk_count)
    )


@given(transfers(), st.binary(min_size=1, max_size=50))
def test_more_than_promised_is_refused_after_the_last_chunk(transfer: Transfer, more: bytes) -> None:
    reader = StreamReader(transfer.layout)
    good: list[Chunk] = []
    with pytest.raises(LimitExceededError):
        good.extend(reader.feed(transfer.stream + more))
    assert len(good) == transfer.layout.chunk_count


@given(transfers(), st.binary(max_size=200), st.lists(st.integers(0, 10**6), max_size=5))
def test_any_bytes_give_chunks_or_a_protocol_error(transfer: Transfer, noise: bytes, cuts: list[int]) -> None:
    reader = StreamReader(transfer.layout)
    try:
        for part in pieces(noise, cuts):
            for chunk in reader.feed(part):
                check_values(transfer.layout, chunk, Label(name="y", classes=("a", "b", "c")))
    except ProtocolError:
        pass


entries = st.floats(-1e6, 1e6) | st.floats(-1e-30, 1e-30) | st.floats(-1e38, 1e38)


@given(st.lists(entries, min_size=1, max_size=30), st.integers(1, 5))
def test_no_scaled_entry_is_off_by_more_than_half_its_scale(numbers: list[float], columns: int) -> None:
    matrix = np.reshape(numbers + [0.0] * (-len(numbers) % columns), (-1, columns))
    values, scale = quantise(matrix)
    assert (scale >= 0).all()
    assert (scale <= MAX_SCALE).all()
    off = np.abs(dequantise(values, scale).astype(np.float64) - matrix)
    # in addition to half a step: float32 rounds scale and product, and columns below its range become zeros
    rounding = 2.0**-22 * np.abs(matrix) + 127 * float(np.finfo(np.float32).tiny)
    assert (off <= 0.5 * scale.astype(np.float64) + rounding).all()


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_the_first_row_that_is_not_finite_is_named(numbers: list[float], columns: int) -> None:
    padded = numbers + [0.0] * (-len(numbers) % columns)
    array: NDArray[np.generic] = little_endian(np.reshape(padded, (-1, columns)), "f4")
    layout = Layout([specify("rep", array, "f4", 8)], 8)
    bad_rows = [row for row, entries in enumerate(array) if not np.isfinite(entries).all()]
    found = None
    try:
        for chunk in read(layout, [b"".join(frame(chunks_of(raw_bytes(array), 8)))]):
            check_values(layout, chunk)
    except ProtocolError as error:
        found = error.context["row"]
    assert found == (bad_rows[0] if bad_rows else None)
