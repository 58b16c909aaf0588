"""Alignment for bases that do not share a span: centred, then three generalised Procrustes sweeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyst_server.alignment._orthogonal import Matrix, Matrix64, orthogonal_factor
from analyst_server.alignment.odc import align_odc

SWEEPS = 3
"""More did not help where it was measured (DESIGN: the numbers); the target has settled by then."""


def align_isotropic(
    anchor_reps: Sequence[Matrix],
    target_factor: Matrix64 | None = None,
    *,
    anchor_is_isotropic: bool,
    sweeps: int = SWEEPS,
) -> list[Matrix64]:
    """Return change-of-basis matrices that treat every direction of the feature space alike.

    Starts from `align_odc` and alternates the mean target ``Z = mean_i A_i G_i`` with one orthogonal
    Procrustes problem per party, the block coordinate descent of generalised orthogonal Procrustes
    [1]_. With a Haar anchor ``A.T @ A = I``, so the errors it weighs are those of the bases
    themselves; any other anchor is centred first, which removes the one direction in which a uniform
    anchor is far longer than in all others.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    target_factor : (l, l) ndarray of float64, optional
        The orthogonal ``O`` of the start ``A_1 O``; the identity if not given.
    anchor_is_isotropic : bool
        True for a Haar anchor. It is not centred: with a = m rows that would delete a direction.
    sweeps : int
        Number of alternations, each as expensive as `align_odc` plus one pass for the mean.

    Returns
    -------
    list of c (l, l) ndarrays of float64
        Orthogonal up to rounding; the same as `align_odc`'s, up to rounding, where its premises hold.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v2, Appendix B, Algorithm 2.
    """
    reps = anchor_reps if anchor_is_isotropic else [rep - rep.mean(axis=0) for rep in anchor_reps]
    changes = align_odc(reps, target_factor)
    for _ in range(sweeps):
        target = np.zeros(reps[0].shape)
        for rep, change in zip(reps, changes, strict=True):
            target += rep @ change
        target /= len(reps)
        changes = list(orthogonal_factor(np.stack([rep.T @ target for rep in reps])))
    return changes
