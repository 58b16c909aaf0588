"""The sums over an institution's rows, in whole numbers and with its share of the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from user_client.rows import Rows
from user_client.secret.discrete_gaussian import Integers, discrete_gaussian
from user_client.secret.expansion import ByteSource, Matrix64
from user_client.secret.sums import in_blocks, targets_of

_ROUNDING = 1 - 2.0**-30
"""Rows are clipped to a little less than length 1, so that rounding makes none of them longer."""


@dataclass(frozen=True)
class PrivateSums:
    """The noised sums, and how many rows were clipped.

    Attributes
    ----------
    numbers : (k,) ndarray of int64
        The upper triangle of the sum of ``q q^T``, row by row.
    clipped_rows : int
    """

    numbers: Integers
    clipped_rows: int


def private_sums(
    rows: Rows | Matrix64,
    labels: NDArray[Any],
    phi: Callable[[Matrix64], Matrix64],
    outputs: int,
    *,
    clip: float,
    bits: int,
    deviation: float,
    source: ByteSource,
) -> PrivateSums:
    """Return the sum of ``q q^T`` over the rows with noise; q is ``2^b (1, phi(x) / clip, y)`` in integers.

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
    clip : float
        Longer feature vectors are scaled down to this length.
    bits : int
        b, at most 20: then no sum of a block is rounded.
    deviation : float
        Of the noise, for rows of length 1.
    source : callable
        Returns random bytes that nobody else may know.
    """
    total, clipped = np.zeros((), np.int64), 0
    for part, said in in_blocks(rows, labels):
        features = phi(part)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        clipped += int((lengths > clip).sum())
        features *= _ROUNDING / np.maximum(lengths, clip)
        z = np.hstack([np.ones((len(said), 1)), features, targets_of(said, outputs)])
        whole = np.trunc(np.ldexp(z, bits))
        total = total + (whole.T @ whole).astype(np.int64)
    order = len(total)
    drawn = math.ceil(math.ldexp(deviation, 2 * bits))

    def draw(count: int) -> Integers:
        return discrete_gaussian(count, drawn, source)

    noise = _noise_of_classes(order, outputs, draw) if outputs > 1 else _noise_of_numbers(order, draw)
    return PrivateSums((total + noise)[np.triu_indices(order)], clipped)


def _noise_of_classes(order: int, outputs: int, draw: Callable[[int], Integers]) -> Integers:
    """Return noise of which the numbers that follow from others follow from these, as they do in the sums.

    Each row is of one class. So the number of rows, the sum of their features and that of ``y y^T`` follow
    from the sums by class, and no noise of their own is spent on them.
    """
    noise = np.zeros((order, order), np.int64)
    first = order - outputs
    features, targets = np.arange(1, first), np.arange(first, order)
    noise[1:first, 1:first][np.triu_indices(len(features))] = draw(len(features) * (len(features) + 1) // 2)
    by_class = draw(len(features) * outputs).reshape(len(features), outputs)
    counts = draw(outputs)
    noise[1:first, first:] = by_class
    noise[0, 1:first] = by_class.sum(axis=1)
    noise[0, first:] = noise[targets, targets] = counts
    noise[0, 0] = counts.sum()
    return noise


def _noise_of_numbers(order: int, draw: Callable[[int], Integers]) -> Integers:
    """Return noise of its own for every number."""
    noise = np.zeros((order, order), np.int64)
    noise[np.triu_indices(order)] = draw(order * (order + 1) // 2)
    return noise
