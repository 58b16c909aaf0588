"""The rank-deficiency penalty: invertible matrices that are penalised for every change of volume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import optimize

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment._orthogonal import cross_products, orthogonal_factor
from analyst_server.alignment._spectral import Matrix64
from analyst_server.alignment.procrustes import align_procrustes

PENALTY: Final = 1.0
"""eta as a multiple of the trusted parties' mean ``||A_i||_F**2``, so that the answer does not change with
the unit of the anchor."""
TOLERANCE: Final = 1e-6
MAX_ITERATIONS: Final = 1000


def align_rdp(anchor_reps: AnchorReps, *, trusted: Sequence[int] | None = None) -> Solution:
    """Return invertible change-of-basis matrices that trade agreement against distortion.

    Minimises ``1/2 sum_ij ||A_i G_i - A_j G_j||_F**2 + eta sum_i log(det(G_i.T @ G_i))**2`` over
    invertible ``G_i`` [1]_, starting from `align_procrustes`. The problem is not convex. If all parties agree
    exactly in some direction but not in all, there is no minimum: stretching that direction lets the others
    shrink without a penalty, and the descent ends after `MAX_ITERATIONS`.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified; one copy in float64 is made.
    trusted : sequence of int, optional
        The problem is solved for these parties alone; the others are then fitted to their mean.

    Returns
    -------
    Solution
        ``G_i`` invertible; ``target`` is the mean of the trusted ``A_i @ G_i``.

    References
    ----------
    .. [1] Nosaka, Yoshise, Data Collaboration Analysis over Matrix Manifolds, Eq. (24).
    """
    chosen = list(range(len(anchor_reps)) if trusted is None else trusted)
    others = [index for index in range(len(anchor_reps)) if index not in set(chosen)]
    start = align_procrustes(anchor_reps, trusted=trusted)
    changes = np.stack(start.changes_of_basis).astype(np.float64)
    reps = np.stack([anchor_reps[index] for index in chosen], dtype=np.float64)
    unit = np.linalg.norm(reps) / np.sqrt(len(chosen))
    reps /= unit
    objective = Objective(reps, PENALTY, len(chosen))
    changes[chosen], iterations = descend(objective, changes[chosen], TOLERANCE, MAX_ITERATIONS)
    target = (reps @ changes[chosen]).mean(axis=0)
    if others:
        reps = np.stack([anchor_reps[index] for index in others], dtype=np.float64) / unit
        objective = Objective(reps, PENALTY, len(chosen), target)
        changes[others], _ = descend(objective, changes[others], TOLERANCE, MAX_ITERATIONS)
    description = f"mean of A_i G_i after {iterations} iterations from procrustes"
    return Solution(list(changes), target * unit, description)


def fit_by_rdp(anchor_rep: Matrix, target: Matrix, parties: int) -> Matrix64:
    """Return the invertible G of one more party, for the target that ``parties`` others were aligned to.

    Minimises ``c ||A_i G - Z||_F**2 + eta log(det(G.T @ G))**2`` from the closest orthogonal matrix on.
    """
    start = orthogonal_factor(cross_products([anchor_rep], target)).astype(np.float64)
    unit = np.linalg.norm(anchor_rep)
    rep, goal = np.divide(anchor_rep[None], unit, dtype=np.float64), target / unit
    changes, _ = descend(Objective(rep, PENALTY, parties, goal), start, TOLERANCE, MAX_ITERATIONS)
    return np.asarray(changes[0])


class Objective:
    """``c sum_i ||A_i G_i - Z||_F**2 + eta sum_i log(det(G_i.T @ G_i))**2`` and its gradient.

    If ``Z`` is the mean of the ``A_i G_i``, the first term is half the sum over all pairs. The mean is the
    best ``Z``, so its own change does not count to first order, and the gradient is that for a fixed ``Z``.
    """

    def __init__(self, reps: Matrix64, penalty: float, parties: int, target: Matrix64 | None = None) -> None:
        self.reps, self.penalty, self.parties, self.target = reps, penalty, parties, target

    def __call__(self, flat: Matrix64) -> tuple[float, Matrix64]:
        order = self.reps.shape[2]
        changes = flat.reshape(-1, order, order)
        aligned = self.reps @ changes
        error = aligned - (aligned.mean(axis=0) if self.target is None else self.target)
        log_volumes = 2 * np.linalg.slogdet(changes)[1]
        value = self.parties * np.sum(error**2) + self.penalty * np.sum(log_volumes**2)
        gradient = 2 * self.parties * (self.reps.transpose(0, 2, 1) @ error)
        gradient += 4 * self.penalty * log_volumes[:, None, None] * np.linalg.inv(changes).transpose(0, 2, 1)
        return float(value), gradient.ravel()


def descend(
    objective: Objective, start: Matrix, tolerance: float, max_iterations: int
) -> tuple[Matrix64, int]:
    """Return where limited-memory BFGS with the analytic gradient ends, and after how many iterations.

    It ends when an iteration lowers the objective by less than the fraction ``tolerance``, or after
    ``max_iterations``; there may be hundreds. Each costs ``4 a l**2`` flops and one inverse of order ``l``
    per party. ``start`` and the answer are (c, l, l).
    """
    found = optimize.minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": tolerance, "gtol": 0.0},
    )
    return np.asarray(found.x).reshape(start.shape), int(found.nit)
