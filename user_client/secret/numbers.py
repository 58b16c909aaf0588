"""Numbers from key-stream bytes, specified so that any language draws the same (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
ByteSource = Callable[[int], bytes]


def uniform(source: ByteSource, count: int) -> Matrix64:
    """Return ``count`` numbers in [0, 1): the top 53 bits of little-endian 64-bit words."""
    words = np.frombuffer(source(8 * count), dtype="<u8")
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def gaussian(source: ByteSource, count: int) -> Matrix64:
    """Return ``count`` standard normal numbers by Box-Muller, two from each pair of uniform ones."""
    pairs = uniform(source, 2 * ((count + 1) // 2)).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log1p(-pairs[:, 0]))
    angle = 2 * np.pi * pairs[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]


def haar(source: ByteSource, order: int) -> Matrix64:
    """Return a matrix of O(order) with the Haar distribution: QR of a Gaussian one, diag(R) > 0."""
    q, r = np.linalg.qr(gaussian(source, order * order).reshape(order, order))
    return np.asarray(q * np.sign(np.diagonal(r)))


def permutation(source: ByteSource, count: int) -> NDArray[np.int64]:
    """Return 0 to ``count - 1`` in random order: the order of as many uniform numbers."""
    return np.argsort(uniform(source, count), kind="stable")
