"""Orthogonal Procrustes onto the directions that all parties have in common."""

from __future__ import annotations

from collections.abc import Sequence

from analyst_server.alignment._contract import AnchorReps, Solution
from analyst_server.alignment._orthogonal import orthogonal_changes
from analyst_server.alignment._spectral import Stack, leading_directions


def align_procrustes(
    anchor_reps: AnchorReps,
    *,
    trusted: Sequence[int] | None = None,
) -> Solution:
    """Return the orthogonal change-of-basis matrices closest to Imakura's target.

    Solves ``min ||A_i G_i - U||_F`` over orthogonal ``G_i``, where ``U`` holds the top ``l`` left
    singular vectors of ``[A_1 .. A_c]`` [1]_. Computing ``U``, as in Imakura's method, is nearly all of
    the cost.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    trusted : sequence of int, optional
        ``U`` is computed from these parties alone.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding. If all bases are orthonormal and span the same space, and
        ``A`` has full column rank, ``F_i @ G_i`` is the same for every party.

    References
    ----------
    .. [1] Nosaka, Yoshise, Data Collaboration Analysis over Matrix Manifolds, Eqs. (17)-(19).
    """
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    stack = Stack([anchor_reps[index] for index in chosen])
    target, _ = leading_directions(stack, anchor_reps[0].shape[1])
    changes = orthogonal_changes(anchor_reps, target)
    return Solution(list(changes), target, "U")
