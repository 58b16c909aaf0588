"""The products of all parties with one target, and their mean: where an alignment spends its flops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix


def cross_products(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return ``A_i.T @ Z`` of every party as one (c, l, l) array; ``2 a l**2`` flops per party.

    In the precision of the wider of the two. No copy is made of an ``A_i``. One product after another, each
    on all threads of the BLAS: on two cores that was faster than a thread for each half of the parties.
    """
    latent_dim = target.shape[1]
    products = np.empty((len(anchor_reps), latent_dim, latent_dim), np.result_type(*anchor_reps, target))
    for rep, product in zip(anchor_reps, products, strict=True):
        np.matmul(rep.T, target, out=product)
    return products


def mean_aligned(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Matrix:
    """Return the mean of ``A_i @ G_i`` over the trusted parties; ``2 a l**2`` flops per party."""
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    pairs = [(anchor_reps[index], changes_of_basis[index]) for index in chosen]
    total = np.zeros(anchor_reps[0].shape, np.result_type(*[matrix for pair in pairs for matrix in pair]))
    aligned = np.empty_like(total)
    for rep, change in pairs:
        total += np.matmul(rep, change, out=aligned)
    total /= len(pairs)
    return total
