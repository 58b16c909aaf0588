"""Products of all parties with one target, and their mean: where an alignment spends most of its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix
from analyst_server.alignment._threads import in_parts, multiplies_unpacked, own_threads

BLOCK_ROWS: Final = 2048
"""Rows of the anchor per block. Those of the target, which every party needs, stay in the cache of a core."""

SMALL_PRODUCT: Final = 10**6
"""Multiplications up to which some BLAS libraries skip packing the factors (`multiplies_unpacked`)."""

MIN_BLOCK_ROWS: Final = 200
"""With fewer rows the calls cost more than is gained."""


def cross_products(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return ``A_i.T @ Z`` of every party as one (c, l, l) array; ``2 a l**2`` flops per party.

    The result has the wider type of the two factors. No ``A_i`` is copied.
    """
    count, (rows, latent_dim) = len(anchor_reps), target.shape
    dtype = np.result_type(*anchor_reps, target)
    turned = np.zeros((count, latent_dim, latent_dim), dtype)
    block_rows = _rows_at_a_time(latent_dim, dtype)

    def multiply(first: int, last: int) -> None:
        part = np.empty_like(turned[0])
        for start in range(0, rows, block_rows):
            block = slice(start, start + block_rows)
            for index in range(first, last):  # A_i.T @ Z itself took up to twice as long as Z.T @ A_i
                turned[index] += np.matmul(target[block].T, anchor_reps[index][block], out=part)

    with own_threads(float(rows) * latent_dim**2 * count) as threads:
        in_parts(multiply, count, threads)
    return np.ascontiguousarray(turned.transpose(0, 2, 1))


def _rows_at_a_time(latent_dim: int, dtype: np.dtype[np.floating]) -> int:
    """Return how many rows at a time make products of order ``latent_dim`` fastest.

    Small products of doubles need no packing. Larger ones would pack the target again for each party: for
    l = 50 the small ones took 0.75 of the time. In single precision nothing was gained.
    """
    small = SMALL_PRODUCT // latent_dim**2
    if dtype == np.float64 and small >= MIN_BLOCK_ROWS and multiplies_unpacked():
        return min(small, BLOCK_ROWS)
    return BLOCK_ROWS


def mean_aligned(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Matrix:
    """Return the mean of ``A_i @ G_i`` over the trusted parties; ``2 a l**2`` flops per party."""
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    pairs = [(anchor_reps[index], changes_of_basis[index]) for index in chosen]
    mean = np.zeros(anchor_reps[0].shape, np.result_type(*[matrix for pair in pairs for matrix in pair]))
    rows, latent_dim = mean.shape

    def add(first: int, last: int) -> None:
        aligned = np.empty((min(BLOCK_ROWS, last - first), latent_dim), mean.dtype)
        for start in range(first, last, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, last))
            for rep, change in pairs:
                mean[block] += np.matmul(rep[block], change, out=aligned[: block.stop - start])
            mean[block] /= len(pairs)

    with own_threads(float(rows) * latent_dim**2 * len(pairs)) as threads:
        in_parts(add, rows, threads)
    return mean
