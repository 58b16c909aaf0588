"""What a worker of Dask does for a group of parties, and how matrices travel there and back: in blobs.

Through the scheduler go keys, shapes and small numbers.
"""

from __future__ import annotations

import resource
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment import Work
from analyst_server.blobs import Blobs, DamagedBlobError, StoredArray, at_least_single, store_arrays

Matrix = NDArray[Any]
Anchored = tuple[StoredArray, StoredArray | None]
"""Where an anchor representation lies, and its scale if it is one of 8-bit integers."""

INLINE_BYTES: Final = 4096
"""So much of an answer is no matrix, and may go through the scheduler."""
CACHE_BYTES: Final = 2**29
"""What a worker keeps at most of the matrices that it has read: it is asked for the same group again."""
CACHE_SHARE: Final = 4
"""And no more than this part of the memory that it may take."""
_ALIGNED: Final = 16
_NONE: Final = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Packed:
    """Some matrices in a blob: where all of them lie, and their types and shapes in their order."""

    stored: StoredArray
    layout: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def together(cls, lists: Sequence[Sequence[Matrix]], blobs: Blobs, folder: str) -> list[Packed]:
        """Store lists of matrices in one blob, whose key nobody else writes, also if this is done twice."""
        given = [[np.ascontiguousarray(one) for one in each] for each in lists]
        key = f"{folder}/{secrets.token_hex(8)}"
        data = [np.concatenate([_NONE, *map(_bytes, each)]) for each in given]
        stored = store_arrays(blobs, key, data, has_digests=False)
        return [
            cls(place, tuple((one.dtype.str, one.shape) for one in each))
            for place, each in zip(stored, given, strict=True)
        ]

    def open(self, blobs: Blobs) -> tuple[Matrix, ...]:
        """Return the matrices, read-only."""
        data, start, found = self.stored.open(blobs), 0, []
        for name, shape in self.layout:
            dtype = np.dtype(name)
            end = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            piece = data[start:end]
            # a product of matrices that are not aligned in memory is slow
            aligned = piece if piece.ctypes.data % _ALIGNED == 0 else piece.copy()
            found.append(aligned.view(dtype).reshape(shape))
            start = end
        return tuple(found)


def _bytes(matrix: Matrix) -> NDArray[np.uint8]:
    return matrix.reshape(-1).view(np.uint8)


Answer = tuple[Matrix, ...] | Packed


def opened(answer: Answer, blobs: Blobs) -> tuple[Matrix, ...]:
    """Return the matrices of an answer."""
    return answer.open(blobs) if isinstance(answer, Packed) else answer


@dataclass(frozen=True)
class Group:
    """The parties of a group, and where those who work on it read and write."""

    blobs: Blobs
    parties: tuple[Anchored, ...]
    folder: str

    def anchor_reps(self) -> list[Matrix]:
        """Return ``A_i`` of each, in a type to compute in."""
        return [_cache.anchor_rep(self.blobs, party) for party in self.parties]

    def work(self, work: Work, shared: Packed, own: Packed | None) -> Answer:
        """Do the work of an alignment on these parties."""
        reps = self.anchor_reps()
        mine = None if own is None else own.open(self.blobs)
        found = work(reps, mine, *_cache.matrices(self.blobs, shared))
        return self._answer(found)

    def add(self, answers: Sequence[Answer]) -> Answer:
        """Return the sum of matrices, one of each answer."""
        return self._answer((reduce(np.add, (opened(one, self.blobs)[0] for one in answers)),))

    def _answer(self, found: tuple[Matrix, ...]) -> Answer:
        if sum(one.nbytes for one in found) <= INLINE_BYTES:
            return found
        return Packed.together([found], self.blobs, self.folder)[0]


def require_intact(blobs: Blobs, arrays: Sequence[StoredArray]) -> None:
    """Raise `DamagedBlobError` for the first array that is not what was signed, as this worker sees it."""
    for one in arrays:
        if not one.is_intact(blobs):
            raise DamagedBlobError(one.key)


def forget_matrices() -> None:
    """Forget what this worker has read."""
    _cache.clear()


class _Cache:
    """The matrices that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], tuple[Matrix, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def anchor_rep(self, blobs: Blobs, party: Anchored) -> Matrix:
        stored, scale = party
        return self._get(blobs, stored, lambda: (at_least_single(blobs, stored, scale),))[0]

    def matrices(self, blobs: Blobs, packed: Packed) -> tuple[Matrix, ...]:
        return self._get(blobs, packed.stored, partial(packed.open, blobs))

    def _get(self, blobs: Blobs, stored: StoredArray, read: Any) -> tuple[Matrix, ...]:
        name = (repr(blobs), stored.key, stored.offset_bytes)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        found: tuple[Matrix, ...] = read()
        with self._lock:
            self._kept[name] = found
            while sum(one.nbytes for kept in self._kept.values() for one in kept) > _most_cached():
                self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


def _most_cached() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return CACHE_BYTES if limit == resource.RLIM_INFINITY else min(CACHE_BYTES, limit // CACHE_SHARE)


_cache = _Cache()
