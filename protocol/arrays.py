"""Arrays as a stream of chunks, each of which is checked as it arrives.

The stream of a transfer consists of the arrays of its manifest, one after another. Each array is cut into
chunks of ``chunk_bytes`` (the last may be shorter), and each chunk is preceded by its SHA-256. The digest of
an array is the SHA-256 of a label and its chunk digests, so that it needs no second pass over the data, and a
receiver that resumes needs only the chunk digests. Values are little-endian in C order. Sender and receiver
hold one chunk in memory, never a matrix (docs/protocol.md, "Array stream").
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from protocol.errors import DigestMismatchError, LimitExceededError
from protocol.limits import MAX_SCALE
from protocol.messages import ArraySpec, Dtype

B = TypeVar("B", bytes, memoryview)
DIGEST_BYTES = 32
_ARRAY_LABEL = b"odc/v1/array\x00"
_LARGEST_I1 = 127
_SMALLEST_SCALE = np.finfo(np.float32).tiny
_BLOCK_ROWS = 4096


class ArrayDigest:
    """The running digest of one array: feed it the digest of each chunk in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(_ARRAY_LABEL)

    def update(self, chunk_digest: bytes) -> None:
        self._hash.update(chunk_digest)

    def digest(self) -> bytes:
        return self._hash.digest()


def little_endian(array: NDArray[np.generic], dtype: Dtype) -> NDArray[np.generic]:
    """Return ``array`` in the form of the wire; it is copied only where order or type differ."""
    return np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))


def quantise(matrix: NDArray[np.floating]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix as 8-bit integers with one scale for each column.

    Parameters
    ----------
    matrix : (n, l) ndarray of float
        Finite. Not modified; processed in blocks of rows, so that no second matrix of floats is held.

    Returns
    -------
    values : (n, l) ndarray of int8
        Each entry divided by its column's scale, rounded to the nearest integer, ties to even. All lie
        between -127 and 127.
    scale : (l,) ndarray of float32
        The largest magnitude in the column divided by 127, so that no entry is off by more than half a
        scale; 0 for a column of zeros.

    Raises
    ------
    ValueError
        If an entry is not finite, or too large to have a scale.
    """
    scale = scale_of(largest_of(matrix))
    return quantise_by(scale, matrix), scale


def largest_of(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the largest magnitude in each column, (l,); 0 without rows."""
    return np.asarray(np.maximum(matrix.max(axis=0, initial=0), -matrix.min(axis=0, initial=0)))


def scale_of(largest: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the scale of each column, (l,), for the largest magnitudes in it; raises `ValueError`."""
    if not (largest <= float(_LARGEST_I1 * MAX_SCALE)).all():
        raise ValueError("an entry is not finite or too large")
    scale = (largest / _LARGEST_I1).astype("<f4")
    scale[scale < _SMALLEST_SCALE] = 0  # a subnormal scale would itself be too coarse
    return scale


def quantise_by(scale: NDArray[np.float32], matrix: NDArray[np.floating]) -> NDArray[np.int8]:
    """Return rows, (n, l), as 8-bit integers, by the scales, (l,), of the whole matrix that they are of."""
    divisor = np.where(scale > 0, scale, np.inf)  # a column without a scale becomes zeros
    values = np.empty(matrix.shape, dtype=np.int8)
    for start in range(0, len(matrix), _BLOCK_ROWS):
        block = np.rint(matrix[start : start + _BLOCK_ROWS] / divisor)
        values[start : start + _BLOCK_ROWS] = block.clip(-_LARGEST_I1, _LARGEST_I1)
    return values


def dequantise(values: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the float32 matrix that `quantise` has rounded; no other memory is allocated."""
    return np.multiply(values, scale, dtype=np.float32)


def chunks_of(data: memoryview, chunk_bytes: int) -> Iterator[memoryview]:
    """Yield the chunks of one array's bytes, without copying."""
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]


def raw_bytes(array: NDArray[np.generic]) -> memoryview:
    """Return the bytes of a C-ordered array, without copying."""
    return array.reshape(-1).view(np.uint8).data


def specify(name: str, array: NDArray[np.generic], dtype: Dtype, chunk_bytes: int) -> ArraySpec:
    """Return the manifest's entry for ``array``, which must have the form that `little_endian` returns."""
    digest = digest_in_chunks([raw_bytes(array)], chunk_bytes)
    return ArraySpec(name=name, dtype=dtype, shape=array.shape, digest=digest)


def digest_in_chunks(pieces: Iterable[memoryview], chunk_bytes: int) -> bytes:
    """Return the digest of an array whose bytes come in pieces, however long these are; nothing is copied."""
    running, begun, left_bytes = ArrayDigest(), hashlib.sha256(), chunk_bytes
    for piece in pieces:
        rest = piece
        while len(rest):
            taken, rest = rest[:left_bytes], rest[left_bytes:]
            begun.update(taken)
            left_bytes -= len(taken)
            if not left_bytes:
                running.update(begun.digest())
                begun, left_bytes = hashlib.sha256(), chunk_bytes
    if left_bytes < chunk_bytes:
        running.update(begun.digest())
    return running.digest()


def frame(chunks: Iterable[B]) -> Iterator[bytes | B]:
    """Yield the stream of some chunks: digest, chunk, digest, chunk."""
    for chunk in chunks:
        yield hashlib.sha256(chunk).digest()
        yield chunk


def whole_digest(array_digests: Iterable[bytes]) -> bytes:
    """Return the digest that completes an upload: over the digests of its arrays, in their order."""
    return hashlib.sha256(b"".join(array_digests)).digest()


@dataclass(frozen=True)
class Slot:
    """The place of one chunk: with its digest in the stream, and in the concatenated arrays."""

    array: int
    stream_offset: int
    payload_offset: int
    payload_bytes: int
    ends_array: bool

    @property
    def stream_end(self) -> int:
        return self.stream_offset + DIGEST_BYTES + self.payload_bytes


class Layout:
    """The places of all chunks of a transfer, computed from its manifest alone."""

    def __init__(self, specs: Sequence[ArraySpec], chunk_bytes: int) -> None:
        self.specs = tuple(specs)
        self.chunk_bytes = chunk_bytes
        self._chunks = [-(-spec.payload_bytes // chunk_bytes) for spec in self.specs]
        self.chunk_count = sum(self._chunks)
        self.payload_bytes = sum(spec.payload_bytes for spec in self.specs)
        self.stream_bytes = self.payload_bytes + DIGEST_BYTES * self.chunk_count

    def payload_start(self, array: int) -> int:
        """Return the offset at which an array begins in the concatenation of all arrays."""
        return sum(spec.payload_bytes for spec in self.specs[:array])

    def slot(self, index: int) -> Slot:
        """Return the place of chunk ``index``, counted over all arrays."""
        first = 0
        for array, count in enumerate(self._chunks):
            if index < first + count:
                inside = (index - first) * self.chunk_bytes
                size = min(self.chunk_bytes, self.specs[array].payload_bytes - inside)
                payload_offset = self.payload_start(array) + inside
                return Slot(
                    array=array,
                    stream_offset=payload_offset + DIGEST_BYTES * index,
                    payload_offset=payload_offset,
                    payload_bytes=size,
                    ends_array=index == first + count - 1,
                )
            first += count
        raise IndexError(index)

    def stream_offset(self, chunks_done: int) -> int:
        """Return the offset in the stream after ``chunks_done`` whole chunks."""
        return self.stream_bytes if chunks_done == self.chunk_count else self.slot(chunks_done).stream_offset

    def place_of(self, stream_offset: int) -> tuple[int, int]:
        """Return how many chunks end up to ``stream_offset``, and how many bytes lie between.

        Raises `ValueError` if the stream has no such offset.
        """
        if not 0 <= stream_offset <= self.stream_bytes:
            raise ValueError(f"the stream has {self.stream_bytes} bytes")
        done = bisect.bisect_right(
            range(self.chunk_count), stream_offset, key=lambda i: self.slot(i).stream_end
        )
        return done, stream_offset - self.stream_offset(done)


@dataclass(frozen=True)
class Chunk:
    """A chunk that has the digest that was sent with it."""

    slot: Slot
    digest: bytes
    data: memoryview


class StreamReader:
    """Turns the bytes of a transfer, which may come in pieces of any size, into checked chunks.

    With ``chunks_done`` it resumes after that many chunks, with ``begun`` inside the next one. It holds at
    most one chunk in memory. With ``reuses_room`` each is in the place of the one before, and its data is
    valid only until the next one is asked for: the system hands out new memory page by page, which takes a
    tenth as long as reading a chunk.
    """

    def __init__(
        self, layout: Layout, chunks_done: int = 0, begun: bytes = b"", *, reuses_room: bool = False
    ) -> None:
        self._layout = layout
        self._next = chunks_done
        self._slot: Slot | None = None
        self._buffer, self._filled = memoryview(b""), 0
        self._reuses_room, self._room = reuses_room, memoryview(b"")
        for _ in self.feed(begun):
            raise ValueError("a whole chunk is no beginning of one")

    @property
    def begun(self) -> bytes:
        """What came of the next chunk and its digest: fewer bytes than both have."""
        return bytes(self._buffer[: self._filled])

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Chunk]:
        """Yield the chunks that ``data`` completes.

        Raises
        ------
        DigestMismatchError
            If a chunk does not have the digest sent with it. Earlier chunks stay valid.
        LimitExceededError
            If there is more data than the manifest announces.
        """
        rest = memoryview(data)
        while len(rest):
            if self._slot is None:
                self._slot = self._begin()
            taken = rest[: len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            rest = rest[len(taken) :]
            if self._filled == len(self._buffer):
                slot, self._slot = self._slot, None
                yield self._finish(slot)

    def _begin(self) -> Slot:
        """Make room for the next chunk and its digest: a buffer that grows would be copied often.

        Nothing is written into it beforehand: what has not come yet is never shown.
        """
        if self._next == self._layout.chunk_count:
            raise LimitExceededError("stream in bytes", self._layout.stream_bytes)
        slot = self._layout.slot(self._next)
        size = DIGEST_BYTES + slot.payload_bytes
        if not self._reuses_room or len(self._room) < size:
            self._room = np.empty(size, np.uint8).data
        self._buffer = self._room[:size]
        return slot

    def _finish(self, slot: Slot) -> Chunk:
        whole = self._buffer.toreadonly()
        self._buffer, self._filled = memoryview(b""), 0
        claimed, data = bytes(whole[:DIGEST_BYTES]), whole[DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != claimed:
            raise DigestMismatchError(f"chunk {self._next} of {self._layout.specs[slot.array].name}")
        self._next += 1
        return Chunk(slot, claimed, data)
