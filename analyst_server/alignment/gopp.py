"""Generalised orthogonal Procrustes: the mean of all parties as the target, found by alternation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._orthogonal import mean_aligned, orthogonal_changes
from analyst_server.alignment._spectral import Stack, leading_directions

TOLERANCE: Final = 1e-6
MAX_SWEEPS: Final = 100


def align_gopp(anchor_reps: AnchorReps, *, trusted: Sequence[int] | None = None) -> Solution:
    """Return change-of-basis matrices that bring all parties to their common mean.

    Solves ``min sum_i ||A_i G_i - Z||_F**2`` over orthogonal ``G_i`` and ``Z`` [1]_, [2]_ by `descend` from
    the top ``l`` left singular vectors of ``[A_1 .. A_c]``. The problem is not convex: the descent ends at a
    point that no step of either kind improves, or after `MAX_SWEEPS`.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    trusted : sequence of int, optional
        The start and the means are computed from these parties alone.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding, the best for ``target``.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v2, Appendix B, Algorithm 2.
    .. [2] Nosaka, Yoshise, Data Collaboration Analysis over Matrix Manifolds, Eq. (21).
    """
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    reps = [anchor_reps[index] for index in chosen]  # the start needs all of them
    start, _ = leading_directions(Stack(reps), anchor_reps[0].shape[1])
    start = start.astype(np.result_type(*reps))
    changes, target, sweeps = descend(
        anchor_reps, start, trusted=trusted, tolerance=TOLERANCE, max_sweeps=MAX_SWEEPS
    )
    return Solution(changes, target, f"mean of A_i G_i after {sweeps} sweeps from spectral")


def descend(
    anchor_reps: AnchorReps,
    start: Matrix,
    *,
    trusted: Sequence[int] | None,
    tolerance: float,
    max_sweeps: int,
    centred: bool = False,
) -> tuple[list[Matrix], Matrix, int]:
    """Return the ``G_i`` and ``Z`` by block coordinate descent from ``Z = start``, and the number of sweeps.

    Given ``Z`` there is one orthogonal Procrustes problem per party; given the ``G_i``, ``Z`` is their mean.
    Each sweep costs ``4 a l**2`` flops and one ``l x l`` factorisation per party.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
    start : (a, l) ndarray
        With ``centred``, its columns have mean zero.
    trusted : sequence of int, optional
        The means are computed from these parties alone.
    tolerance : float
        The descent ends when a sweep would move ``Z`` by no more than this fraction of its norm.
    max_sweeps : int
        Largest number of sweeps; with 0 the answer is the best one for the start.
    centred : bool
        Work with the ``A_i`` less their column means. They are not copied for that: with a centred ``Z`` the
        product ``A_i.T @ Z`` is the same.
    """
    target = start
    changes = orthogonal_changes(anchor_reps, target)
    sweeps = 0
    while sweeps < max_sweeps:
        mean = mean_aligned(anchor_reps, list(changes), trusted)
        if centred:
            mean = centre(mean)
        if _norm(mean - target) <= tolerance * _norm(mean):
            break  # `changes` are already the best for this target
        target, sweeps = mean, sweeps + 1
        changes = orthogonal_changes(anchor_reps, target)
    return list(changes), target, sweeps


def centre(matrix: Matrix) -> Matrix:
    """Return the matrix less its column means."""
    return np.asarray(matrix - matrix.mean(axis=0))


def _norm(matrix: Matrix) -> float:
    """Return the Frobenius norm without the BLAS, whose threads would occupy our cores for a while."""
    return float(np.sqrt(np.square(matrix).sum()))
