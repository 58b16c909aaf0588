"""Kawakami's alignment: the directions in which the parties agree best, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._spectral import Stack, common_directions, whiten


def align_kawakami(
    anchor_reps: AnchorReps,
    *,
    trusted: Sequence[int] | None = None,
    latent_dim: int | None = None,
    rounding: float = 0.0,
) -> Solution:
    """Return the change-of-basis matrices of Kawakami's Data Collaboration.

    Column ``k`` of all ``G_i`` together minimises ``sum_ij ||A_i g_ik - A_j g_jk||**2`` under
    ``sum_i ||A_i g_ik||**2 = 1`` and orthogonally to the columns before it [1]_, [2]_: the ``l``
    smallest solutions of a generalised eigenvalue problem of order ``c l``. With ``A_i = Q_i R_i`` and
    the singular values ``s`` and right singular vectors ``V`` of ``[Q_1 .. Q_c]``,
    ``G_i = R_i^-1 V_i``, and its eigenvalues are ``2 c - 2 s**2``. The singular
    vectors are nearly all of the cost: ``min{a (c l)**2, a**2 c l}`` flops.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l_i) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    trusted : sequence of int, optional
        The problem is solved for these parties alone; the others are fitted to its answer by least squares.
    latent_dim : int, optional
        l; the smallest l_i if not given.
    rounding : float
        How far the entries of ``A_i`` were rounded for the wire, relative to the largest of their column.

    Returns
    -------
    Solution
        ``G_i`` is (l_i, l). If all bases span the same space and ``A`` has full column rank,
        ``F_i @ G_i`` is the same for every party, orthonormal or not. A direction that no party has
        is a column of zeros.

    References
    ----------
    .. [1] Kawakami, Takano, Imakura, arXiv:2404.14164v1.
    .. [2] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Eq. (13).
    """
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    count = latent_dim or min(rep.shape[1] for rep in anchor_reps)
    weights = [whiten(rep) for rep in anchor_reps]
    stack = Stack([anchor_reps[index] for index in chosen], [weights[index] for index in chosen])
    directions, values = common_directions(stack, count, rounding)
    target = directions * np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
    changes: list[Matrix] = [
        weight @ ((rep @ weight).T @ target) for rep, weight in zip(anchor_reps, weights, strict=True)
    ]
    return Solution(changes, target, "U / s of [Q_1 .. Q_c]")
