"""The sums over an institution's rows, and the masks that cover them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.rows import Rows, blocks_of
from user_client.secret.expansion import ByteSource, Matrix64

BLOCK_ROWS: Final = 8192
"""Rows whose features are in memory at once."""
_BLOCK_WORDS: Final = 2**20


def in_blocks(rows: Rows | Matrix64, labels: NDArray[Any]) -> Iterator[tuple[Matrix64, NDArray[Any]]]:
    """Yield at most `BLOCK_ROWS` rows and their labels at a time; raise `ValueError` if there are none."""
    if not len(rows):
        raise ValueError("there are no rows to sum")
    before = 0
    for block in blocks_of(rows):
        for start in range(0, len(block), BLOCK_ROWS):
            part = block[start : start + BLOCK_ROWS]
            yield part, labels[before + start : before + start + len(part)]
        before += len(block)


def targets_of(labels: NDArray[Any], outputs: int) -> Matrix64:
    """Return y of some rows, (n, outputs): classes one-hot, or numbers."""
    return np.asarray(np.eye(outputs)[labels] if outputs > 1 else labels.astype(np.float64)[:, None])


def extended_sums(
    rows: Rows | Matrix64, labels: NDArray[Any], phi: Callable[[Matrix64], Matrix64], outputs: int
) -> Matrix64:
    """Return the sum of ``z z^T`` over the rows, ``z = (1, phi(x), y)``.

    Parameters
    ----------
    rows : (n, m) Rows, or ndarray
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
    total = np.zeros(())
    for part, said in in_blocks(rows, labels):
        extended = np.hstack([np.ones((len(part), 1)), phi(part), targets_of(said, outputs)])
        total = total + extended.T @ extended
    return total


def sums_by_class(
    rows: Rows | Matrix64, labels: NDArray[Any], phi: Callable[[Matrix64], Matrix64], classes: int
) -> Matrix64:
    """Return the sums of ``z z^T`` over the rows of each class, ``z = (1, phi(x))``, (k, 1 + d, 1 + d).

    The parameters are those of `extended_sums`. A class without a row has zeros.
    """
    total = np.zeros(())
    for part, said in in_blocks(rows, labels):
        extended = np.hstack([np.ones((len(part), 1)), phi(part)])
        by_class = (extended[said == number] for number in range(classes))
        total = total + np.stack([of_class.T @ of_class for of_class in by_class])
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
