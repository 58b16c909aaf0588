"""Alignment for bases that do not share a span: centred, then three generalised Procrustes sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment.gopp import align_gopp

SWEEPS: Final = 3
"""More did not help where it was measured; the target has settled by then."""

SETTLED: Final = 16
"""A mean that differs from the target by so many roundings is the target: parties of one span are done."""

SETTLED_PER_PARTY: Final = 0.125
"""The sum over parties rounds once for each: 36 roundings were measured for 600 parties that agree."""


def align_isotropic(
    anchor_reps: AnchorReps,
    target_factor: Matrix | None = None,
    *,
    trusted: Sequence[int] | None = None,
    anchor_is_isotropic: bool,
    sweeps: int = SWEEPS,
) -> Solution:
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
    trusted : sequence of int, optional
        The start is the first of these parties, the means are taken over them alone.
    anchor_is_isotropic : bool
        True for a Haar anchor. It is not centred: with a = m rows that would delete a direction, and
        neither is any other of no more than ``l`` rows.
    sweeps : int
        Number of alternations, each as expensive as `align_odc` plus one pass for the mean. None is
        made where the parties agree to rounding already.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding; the same as `align_odc`'s, up to rounding, where its premises hold.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v2, Appendix B, Algorithm 2.
    """
    rows, latent_dim = anchor_reps[0].shape
    roundings = SETTLED + SETTLED_PER_PARTY * len(anchor_reps)
    return align_gopp(
        anchor_reps,
        target_factor,
        trusted=trusted,
        start="odc",
        tolerance=roundings * float(np.finfo(np.result_type(*anchor_reps)).eps),
        max_sweeps=sweeps,
        centred=not anchor_is_isotropic and rows > latent_dim,
    )
