"""Arrays in blobs: where one lies, how it is read, and that it is what a manifest says."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from analyst_server.blobs.stores import Blobs
from protocol.arrays import ArrayDigest, chunks_of, dequantise, raw_bytes
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.messages import ArraySpec

_SHORT_OF_SOMETHING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM)
"""Why a file cannot be read now although nothing is wrong with it."""


class DamagedBlobError(Exception):
    """A blob that is not what a manifest says: changed, cut short, gone or not readable.

    No `ValueError`, which says that the data somebody sent cannot be computed with.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True)
class StoredArray:
    """An array inside a blob: little-endian, C order.

    One with a digest is checked whenever it is opened, because a disk may change what was checked when it
    arrived.
    """

    key: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]
    digest: str = ""
    """Of its chunks, as a manifest has it, in hexadecimal; empty for an array that was never hashed."""
    chunk_bytes: int = 0

    @classmethod
    def of(cls, spec: ArraySpec, key: str, offset_bytes: int, chunk_bytes: int) -> Self:
        """Return the array that a line of a manifest is about."""
        return cls(key, offset_bytes, spec.dtype, spec.shape, spec.digest.hex(), chunk_bytes)

    def as_json(self) -> dict[str, Any]:
        """Return its fields as JSON has them."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return what `as_json` was asked of."""
        return cls(**{**value, "shape": tuple(value["shape"])})

    @property
    def size_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * int(np.prod(self.shape, dtype=np.int64))

    def open(self, blobs: Blobs) -> NDArray[Any]:
        """Return the array, read-only; an empty one needs no blob.

        Raises `DamagedBlobError` if it does not have its digest.
        """
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        if blobs.reads_copies:
            data = self._checked_copy(blobs)
        elif self.is_intact(blobs):
            data = blobs.read(self.key, self.offset_bytes, self.size_bytes)
        else:
            raise DamagedBlobError(self.key)
        return np.frombuffer(data, dtype).reshape(self.shape)

    def _checked_copy(self, blobs: Blobs) -> memoryview:
        """Return the bytes, read once and then compared with the digest."""
        try:
            data = blobs.read(self.key, self.offset_bytes, self.size_bytes)
        except FileNotFoundError:
            if not self.digest:
                raise
            raise DamagedBlobError(self.key) from None
        found = ArrayDigest()
        for chunk in chunks_of(data, self.chunk_bytes) if self.digest else ():
            found.update(hashlib.sha256(chunk).digest())
        if self.digest and found.digest().hex() != self.digest:
            raise DamagedBlobError(self.key)
        return data

    def is_intact(self, blobs: Blobs) -> bool:
        """Return whether the stored bytes have the digest; an array without one counts as intact."""
        if not self.digest:
            return True
        if blobs.reads_copies:
            try:
                self._checked_copy(blobs)
            except DamagedBlobError:
                return False
            return True
        found, end = ArrayDigest(), self.offset_bytes + self.size_bytes
        try:
            for start in range(self.offset_bytes, end, self.chunk_bytes):
                piece = blobs.read_copy(self.key, start, min(self.chunk_bytes, end - start))
                found.update(hashlib.sha256(piece).digest())
        except OSError as error:
            if error.errno in _SHORT_OF_SOMETHING:
                raise
            return False
        return found.digest().hex() == self.digest


def at_least_single(blobs: Blobs, stored: StoredArray, scale: StoredArray | None) -> NDArray[Any]:
    """Return a representation in a type to compute in; float16 and 8-bit integers only save bytes."""
    array = stored.open(blobs)
    if scale is not None:
        return dequantise(array, scale.open(blobs))
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def store_array(
    blobs: Blobs, key: str, array: NDArray[Any], *, survives_power_cut: bool = False
) -> StoredArray:
    """Store an array with its digest.

    It need not survive a power cut unless records will name it: a round that is cut off starts again from
    what was sealed.
    """
    return store_arrays(blobs, key, [array], survives_power_cut=survives_power_cut)[0]


def store_arrays(
    blobs: Blobs,
    key: str,
    arrays: Sequence[NDArray[Any]],
    *,
    survives_power_cut: bool = False,
    has_digests: bool = True,
) -> list[StoredArray]:
    """Store arrays in one blob, one after another, as `store_array` does one.

    What is read at once and then erased needs no digest.
    """
    found, end = [], 0
    for array in arrays:
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        data = raw_bytes(stored)
        digest = _digest(data) if has_digests else ""
        blobs.append(key, end, data)
        found.append(StoredArray(key, end, stored.dtype.str[1:], stored.shape, digest, DEFAULT_CHUNK_BYTES))
        end += stored.nbytes
    if survives_power_cut:
        blobs.sync(key)
    blobs.commit(key)
    return found


def store_blocks(
    blobs: Blobs, key: str, blocks: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: np.dtype[Any]
) -> StoredArray:
    """Store a matrix that comes block by block, with its digest; it survives a power cut.

    One block is in memory, and a chunk.
    """
    on_disk, running = np.dtype(dtype).newbyteorder("<"), ArrayDigest()
    waiting, end, unsynced = bytearray(), 0, 0

    def append(data: bytearray) -> None:
        nonlocal end, unsynced
        if data:
            running.update(hashlib.sha256(data).digest())
        blobs.append(key, end, data)
        end += len(data)
        unsynced += len(data)
        if blobs.holds_back_bytes and unsynced >= blobs.holds_back_bytes:
            blobs.sync(key)
            unsynced = 0

    for block in blocks:
        waiting += raw_bytes(np.ascontiguousarray(block, on_disk))
        while len(waiting) >= DEFAULT_CHUNK_BYTES:
            append(waiting[:DEFAULT_CHUNK_BYTES])
            del waiting[:DEFAULT_CHUNK_BYTES]
    if waiting or not end:
        append(waiting)
    blobs.sync(key)
    blobs.commit(key)
    return StoredArray(key, 0, on_disk.str[1:], shape, running.digest().hex(), DEFAULT_CHUNK_BYTES)


def _digest(data: memoryview) -> str:
    running = ArrayDigest()
    for chunk in chunks_of(data, DEFAULT_CHUNK_BYTES):
        running.update(hashlib.sha256(chunk).digest())
    return running.digest().hex()
