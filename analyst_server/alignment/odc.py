"""The paper's closed form: orthogonal Procrustes against one party's anchor representation."""

from __future__ import annotations

from collections.abc import Sequence

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._orthogonal import orthogonal_changes


def align_odc(
    anchor_reps: AnchorReps, target_factor: Matrix | None = None, *, trusted: Sequence[int] | None = None
) -> Solution:
    """Return the change-of-basis matrices of Orthonormal Data Collaboration.

    Solves ``min sum_i ||A_i G_i - A_1 O||_F`` over orthogonal ``G_i`` [1]_: one ``l x l`` product of
    ``2 a l**2`` flops and one ``l x l`` factorisation per party.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Unitless: the schema has scaled the columns. Not modified.
    target_factor : (l, l) ndarray of float64, optional
        The orthogonal ``O``; the identity if not given. It turns all aligned representations alike.
    trusted : sequence of int, optional
        The first of these parties takes the place of party 1.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding. If all bases are orthonormal and span the same space, and
        ``A`` has full column rank, ``F_i @ G_i`` is the same for every party.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Theorem IV.3, Eqs. (16) and (20).
    """
    first = 0 if trusted is None else trusted[0]
    target, description = anchor_reps[first], f"A_{first + 1}"
    if target_factor is not None:
        target, description = target @ target_factor.astype(target.dtype), f"{description} O"
    changes = orthogonal_changes(anchor_reps, target)
    return Solution(list(changes), target, description)
