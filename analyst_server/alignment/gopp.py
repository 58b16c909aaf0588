"""Generalised orthogonal Procrustes: the mean of all parties as the target, found by alternation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._orthogonal import orthogonal_factor
from analyst_server.alignment._products import cross_products, mean_aligned
from analyst_server.alignment._spectral import Stack, leading_directions

Start = Literal["spectral", "odc"]


def align_gopp(
    anchor_reps: AnchorReps,
    target_factor: Matrix | None = None,
    *,
    trusted: Sequence[int] | None = None,
    start: Start = "spectral",
    tolerance: float = 1e-6,
    max_sweeps: int = 100,
    centred: bool = False,
) -> Solution:
    """Return change-of-basis matrices that bring all parties to their common mean.

    Solves ``min sum_i ||A_i G_i - Z||_F**2`` over orthogonal ``G_i`` and ``Z`` [1]_, [2]_ by block
    coordinate descent: given ``Z`` one orthogonal Procrustes problem per party, given the ``G_i`` their
    mean. Each sweep costs ``4 a l**2`` flops and one ``l x l`` factorisation per party. The problem is not
    convex: the descent ends at a point that no step of either kind improves.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    target_factor : (l, l) ndarray of float64, optional
        The orthogonal ``O`` of the start ``Z O``; the identity if not given.
    trusted : sequence of int, optional
        The start and the means are computed from these parties alone.
    start : {"spectral", "odc"}
        The top ``l`` left singular vectors of ``[A_1 .. A_c]``, or the first party's ``A_i``.
    tolerance : float
        The descent ends when a sweep would move ``Z`` by no more than this fraction of its norm.
    max_sweeps : int
        Largest number of sweeps; with 0 the answer is the best one for the start.
    centred : bool
        Subtract the column means of every ``A_i`` first. The ``A_i`` are not copied for that: with a
        centred ``Z`` the product ``A_i.T @ Z`` is the same.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding, the best for ``target``.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v2, Appendix B, Algorithm 2.
    .. [2] Nosaka, Yoshise, Data Collaboration Analysis over Matrix Manifolds, Eq. (21).
    """
    target = _start(anchor_reps, trusted, start, centred)
    if target_factor is not None:
        target = target @ target_factor.astype(target.dtype)
    changes = orthogonal_factor(cross_products(anchor_reps, target))
    sweeps = 0
    while sweeps < max_sweeps:
        mean = _mean(anchor_reps, changes, trusted, centred)
        if _norm(mean - target) <= tolerance * _norm(mean):
            break  # `changes` are already the best for this target
        target, sweeps = mean, sweeps + 1
        changes = orthogonal_factor(cross_products(anchor_reps, target))
    return Solution(list(changes), target, _description(start, sweeps, centred))


def _start(anchor_reps: AnchorReps, trusted: Sequence[int] | None, start: Start, centred: bool) -> Matrix:
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    if start == "odc":
        first = np.asarray(anchor_reps[chosen[0]])
        return _centre(first) if centred else first
    reps = [anchor_reps[index] for index in chosen]
    stack = Stack([_centre(rep) for rep in reps] if centred else reps)
    directions, _ = leading_directions(stack, anchor_reps[0].shape[1])
    return directions.astype(np.result_type(*reps))


def _mean(anchor_reps: AnchorReps, changes: Matrix, trusted: Sequence[int] | None, centred: bool) -> Matrix:
    mean = mean_aligned(anchor_reps, list(changes), trusted)
    return _centre(mean) if centred else mean


def _norm(matrix: Matrix) -> float:
    """Return the Frobenius norm without the BLAS, whose threads would occupy our cores for a while."""
    return float(np.sqrt(np.square(matrix).sum()))


def _centre(matrix: Matrix) -> Matrix:
    return np.asarray(matrix - matrix.mean(axis=0))


def _description(start: Start, sweeps: int, centred: bool) -> str:
    mean = "mean of A_i G_i, centred," if centred else "mean of A_i G_i"
    return f"{mean} after {sweeps} sweeps from {start}"
