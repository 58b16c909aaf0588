"""Numbers and the anchor A from key-stream bytes, as docs/protocol.md specifies in "Expansion".

Every implementation in every language expands the same bytes into the same numbers, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
ByteSource = Callable[[int], bytes]
ANCHOR_KINDS = ("haar", "gaussian", "uniform")
"""Those that come from a seed; a public anchor is a table of the lead's."""


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


def expand_anchor(kind: str, source: ByteSource, *, rows: int, features: int) -> Matrix64:
    """Return the anchor of a kind from its key stream.

    Parameters
    ----------
    kind : {"haar", "gaussian", "uniform"}
        "haar" is a random orthogonal matrix, so that ``A.T @ A = I`` and nothing but the bases up to
        one common unknown rotation follows from ``A @ F_i``; "gaussian" has standard normal entries
        (Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", section 4); "uniform"
        is the ODC paper's, entries in [0, 1) (arXiv:2403.02780v5, section V).
    source : callable
        Returns the next bytes of the key stream.
    rows, features : int
        a and m; equal for "haar".

    Returns
    -------
    (rows, features) ndarray of float64

    Raises
    ------
    ValueError
        If the kind is unknown, or a Haar anchor is not square.
    """
    if kind == "gaussian":
        return gaussian(source, rows * features).reshape(rows, features)
    if kind == "uniform":
        return uniform(source, rows * features).reshape(rows, features)
    if kind != "haar":
        raise ValueError(f"unknown anchor kind {kind!r}")
    if rows != features:
        raise ValueError(f"a haar anchor is square, got {rows} x {features}")
    return haar(source, features)
