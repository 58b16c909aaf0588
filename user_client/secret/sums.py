"""The sums over an institution's rows, and the masks that cover them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import ByteSource, Matrix64

BLOCK_ROWS: Final = 8192
"""Rows whose features are in memory at once."""
_BLOCK_WORDS: Final = 2**20


def extended_sums(
    rows: Matrix64, labels: NDArray[Any], phi: Callable[[Matrix64], Matrix64], outputs: int
) -> Matrix64:
    """Return the sum of ``z z^T`` over the rows, ``z = (1, phi(x), y)``.

    Parameters
    ----------
    rows : (n, m) ndarray
        Encoded.
    labels : (n,) ndarray
        As on the wire: class numbers, or numbers.
    phi : callable
        Returns the features of rows, (n, d).
    outputs : int
        Length of y: the number of classes, whose number becomes one-hot, or 1.

    Returns
    -------
    (p, p) ndarray of float64
        ``p = 1 + d + outputs``.
    """
    total: Matrix64 | None = None
    for start in range(0, len(rows), BLOCK_ROWS):
        part, said = rows[start : start + BLOCK_ROWS], labels[start : start + BLOCK_ROWS]
        targets = np.eye(outputs)[said] if outputs > 1 else said.astype(np.float64)[:, None]
        extended = np.hstack([np.ones((len(part), 1)), phi(part), targets])
        found = extended.T @ extended
        total = found if total is None else total + found
    if total is None:
        raise ValueError("there are no rows to sum")
    return total


def sums_by_class(
    rows: Matrix64, labels: NDArray[Any], phi: Callable[[Matrix64], Matrix64], classes: int
) -> Matrix64:
    """Return the sums of ``z z^T`` over the rows of each class, ``z = (1, phi(x))``, (k, 1 + d, 1 + d).

    The parameters are those of `extended_sums`. A class without a row has zeros.
    """
    total: Matrix64 | None = None
    for start in range(0, len(rows), BLOCK_ROWS):
        part, said = rows[start : start + BLOCK_ROWS], labels[start : start + BLOCK_ROWS]
        extended = np.hstack([np.ones((len(part), 1)), phi(part)])
        if total is None:
            total = np.zeros((classes, extended.shape[1], extended.shape[1]))
        for number in np.unique(said):
            of_class = extended[said == number]
            total[number] += of_class.T @ of_class
    if total is None:
        raise ValueError("there are no rows to sum")
    return total


def add_masks(
    sums: NDArray[np.uint64], added: Iterable[ByteSource], subtracted: Iterable[ByteSource]
) -> NDArray[np.uint64]:
    """Return the sums with key streams added and subtracted, modulo 2^64.

    Of each pair of institutions, the one that comes first in the terms adds the stream that both share, and
    the other subtracts it: in the total over all institutions the masks cancel [1]_.

    Parameters
    ----------
    sums : (k,) ndarray of uint64
    added, subtracted : iterable of callable
        Each returns the next bytes of one stream.

    References
    ----------
    .. [1] Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017,
       doi:10.1145/3133956.3133982, without its second mask: docs/protocol.md says why.
    """
    masked = sums.copy()
    for streams, operation in ((added, np.add), (subtracted, np.subtract)):
        for stream in streams:
            for start in range(0, len(masked), _BLOCK_WORDS):
                block = masked[start : start + _BLOCK_WORDS]
                operation(block, np.frombuffer(stream(8 * len(block)), dtype="<u8"), out=block)
    return masked
