"""The paper's closed form: orthogonal Procrustes against one party's anchor representation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._orthogonal import Matrix, Matrix64, orthogonal_factor


def align_odc(anchor_reps: Sequence[Matrix], target_factor: Matrix64 | None = None) -> list[Matrix64]:
    """Return the change-of-basis matrices of Orthonormal Data Collaboration.

    Solves ``min sum_i ||A_i G_i - A_1 O||_F`` over orthogonal ``G_i`` [1]_: one ``l x l`` product of
    ``2 a l**2`` flops and one ``l x l`` factorisation per party.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Unitless: the schema has scaled the columns. Not modified.
    target_factor : (l, l) ndarray of float64, optional
        The orthogonal ``O``; the identity if not given. It turns all aligned representations alike.

    Returns
    -------
    list of c (l, l) ndarrays of float64
        Orthogonal up to rounding. If all bases are orthonormal and span the same space, and ``A`` has
        full column rank, ``F_i @ G_i`` is the same for every party.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Theorem IV.3, Eqs. (16) and (20).
    """
    target = anchor_reps[0]
    cross_products = np.stack([np.asarray(rep.T @ target, dtype=np.float64) for rep in anchor_reps])
    if target_factor is not None:
        cross_products = cross_products @ target_factor
    return list(orthogonal_factor(cross_products))
