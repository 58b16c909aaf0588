"""The products of all parties with one target, and their mean: where an alignment spends its flops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix
from analyst_server.alignment._threads import ONE_THREAD_OPERATIONS, in_parts, thread_count

SLAB_BYTES = 2**19
"""What the mean adds up at a time: it stays in the cache of one core."""


def cross_products(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return ``A_i.T @ Z`` of every party as one (c, l, l) array; ``2 a l**2`` flops per party.

    In the precision of the wider of the two. No copy is made of an ``A_i``.
    """
    rows, latent_dim = target.shape
    products = np.empty((len(anchor_reps), latent_dim, latent_dim), np.result_type(*anchor_reps, target))
    threads, block = thread_count(), _block_rows(latent_dim)
    if threads == 1 or block == 0:
        for rep, product in zip(anchor_reps, products, strict=True):
            np.matmul(rep.T, target, out=product)
        return products
    even = rows - rows % block
    target_blocks = target[:even].reshape(-1, block, latent_dim)

    def multiply(first: int, last: int) -> None:
        for rep, product in zip(anchor_reps[first:last], products[first:last], strict=True):
            blocks = rep[:even].reshape(-1, block, latent_dim)
            np.sum(blocks.transpose(0, 2, 1) @ target_blocks, axis=0, out=product)
            product += rep[even:].T @ target[even:]

    in_parts(multiply, len(anchor_reps), threads)
    return products


def mean_aligned(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Matrix:
    """Return the mean of ``A_i @ G_i`` over the trusted parties; ``2 a l**2`` flops per party."""
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    pairs = [(anchor_reps[index], changes_of_basis[index]) for index in chosen]
    rows, latent_dim = anchor_reps[0].shape
    total = np.zeros((rows, latent_dim), np.result_type(*[matrix for pair in pairs for matrix in pair]))
    block = _block_rows(latent_dim)
    slab = max(1, SLAB_BYTES // (block * total[0].nbytes)) * block if block else rows

    def add(first: int, last: int) -> None:
        for start in range(first, last, slab):
            end = min(start + slab, last)
            for rep, change in pairs:
                total[start:end] += _by_blocks(rep[start:end], change, block)

    in_parts(add, rows, thread_count() if block else 1)
    total /= len(pairs)
    return total


def _by_blocks(rep: Matrix, change: Matrix, block: int) -> Matrix:
    """Return ``rep @ change``, the rows in blocks."""
    even = len(rep) - len(rep) % block if block else 0
    product = np.empty((len(rep), change.shape[1]), np.result_type(rep, change))
    if even:
        blocks = rep[:even].reshape(-1, block, rep.shape[1])
        np.matmul(blocks, change, out=product[:even].reshape(-1, block, change.shape[1]))
    if even < len(rep):
        np.matmul(rep[even:], change, out=product[even:])
    return product


def _block_rows(latent_dim: int) -> int:
    """Return how many rows at a time the BLAS multiplies in one thread; 0 if that is not worth while."""
    rows = (ONE_THREAD_OPERATIONS - 1) // latent_dim**2
    return rows if rows >= latent_dim else 0
