"""Arrays inside blobs: read them, in a type to compute in, and write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from analyst_server.store import Blobs
from protocol.arrays import dequantise, raw_bytes


@dataclass(frozen=True)
class StoredArray:
    """An array inside a blob: little-endian, C order."""

    key: str
    offset_bytes: int
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return an array from its fields as JSON has them."""
        return cls(**{**value, "shape": tuple(value["shape"])})

    def open(self, blobs: Blobs) -> NDArray[Any]:
        """Return the array, read-only; an empty one needs no blob."""
        dtype = np.dtype(self.dtype).newbyteorder("<")
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        size = dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        return np.frombuffer(blobs.read(self.key, self.offset_bytes, size), dtype).reshape(self.shape)


def at_least_single(blobs: Blobs, stored: StoredArray, scale: StoredArray | None) -> NDArray[Any]:
    """Return a representation in a type to compute in; float16 and 8-bit integers only save bytes."""
    array = stored.open(blobs)
    if scale is not None:
        return dequantise(array, scale.open(blobs))
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def store(blobs: Blobs, key: str, array: NDArray[Any]) -> StoredArray:
    """Store an array; not synced, because a round that is cut off starts again from what was sealed."""
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    blobs.append(key, 0, raw_bytes(stored))
    blobs.commit(key)
    return StoredArray(key, 0, stored.dtype.str[1:], stored.shape)
