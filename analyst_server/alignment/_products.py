"""The products of all parties with one target, and their mean: where an alignment spends its flops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix


def cross_products(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return ``A_i.T @ Z`` of every party as one (c, l, l) array; ``2 a l**2`` flops per party."""
    return np.stack([rep.T @ target for rep in anchor_reps])


def mean_aligned(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Matrix:
    """Return the mean of ``A_i @ G_i`` over the trusted parties; ``2 a l**2`` flops per party."""
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    total = np.zeros(anchor_reps[0].shape, changes_of_basis[0].dtype)
    for index in chosen:
        total += anchor_reps[index] @ changes_of_basis[index]
    return np.asarray(total / len(chosen))
