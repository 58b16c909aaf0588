"""Imakura's alignment: least squares onto the directions that all parties have in common."""

from __future__ import annotations

from collections.abc import Sequence

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._spectral import Stack, common_directions, fit_by_least_squares


def align_imakura(
    anchor_reps: AnchorReps,
    *,
    trusted: Sequence[int] | None = None,
    latent_dim: int | None = None,
    rounding: float = 0.0,
) -> Solution:
    """Return the change-of-basis matrices of Imakura's Data Collaboration.

    Solves ``min ||A_i G_i - U||_F`` for each party, where ``U`` holds the top ``l`` left singular
    vectors of ``[A_1 .. A_c]`` [1]_, [2]_: ``G_i = A_i^+ U``. ``U R`` with any invertible ``R`` is as good
    a target; it turns ``G_i`` into ``G_i R``, which is left to the caller.
    Computing ``U`` is nearly all of the cost: ``min{a (c l)**2, a**2 c l}`` flops.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l_i) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    trusted : sequence of int, optional
        ``U`` is computed from these parties alone.
    latent_dim : int, optional
        l; the smallest l_i if not given. A direction that no party has is a column of zeros.
    rounding : float
        How far the entries of ``A_i`` were rounded for the wire, relative to the largest of their column.

    Returns
    -------
    Solution
        ``G_i`` is (l_i, l). If all bases span the same space and ``A`` has full column rank,
        ``F_i @ G_i`` is the same for every party, orthonormal or not. A party whose ``A_i`` has lost
        a direction gets the ``G_i`` of least norm, which is singular.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Eq. (12) and Theorem III.3.
    .. [2] Imakura, Sakurai, ASCE-ASME J. Risk Uncertainty A 6 (2020) 04020018.
    """
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    stack = Stack([anchor_reps[index] for index in chosen])
    count = latent_dim or min(rep.shape[1] for rep in anchor_reps)
    # a direction that nobody has would be noise, and a model would take it for as telling as any other
    target, _ = common_directions(stack, count, rounding)
    changes: list[Matrix] = [fit_by_least_squares(rep, target) for rep in anchor_reps]
    return Solution(changes, target, "U")
