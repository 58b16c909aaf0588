"""Alignment for bases that do not share a span: centred, then three generalised Procrustes sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyst_server.alignment._contract import AnchorReps, Solution
from analyst_server.alignment._spread import common_dtype, shapes_of
from analyst_server.alignment.gopp import centre, descend

SWEEPS: Final = 3
"""More sweeps did not help where it was measured: the target has settled by then."""

SETTLED: Final = 16
"""A mean that differs from the target by so few roundings counts as equal to it, so that parties of one span
need no sweep."""

SETTLED_PER_PARTY: Final = 0.125
"""Further roundings per party, since a sum over parties rounds once for each: 36 were measured for 600
parties that agree."""


def align_isotropic(
    anchor_reps: AnchorReps,
    *,
    trusted: Sequence[int] | None = None,
    anchor_is_isotropic: bool,
) -> Solution:
    """Return change-of-basis matrices that treat every direction of the feature space alike.

    Starts from `align_odc` and alternates the mean target ``Z = mean_i A_i G_i`` with one orthogonal
    Procrustes problem per party, the block coordinate descent of generalised orthogonal Procrustes
    [1]_. With a Haar anchor ``A.T @ A = I``, so that it minimises the errors of the bases themselves.
    Any other anchor is centred first, which removes the one direction in which a uniform anchor is far
    longer than in all others. Each of the at most three sweeps is as expensive as `align_odc` plus one pass
    for the mean; there is none if the parties already agree up to rounding.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    trusted : sequence of int, optional
        The start is the first of these parties, and the means are computed from them alone.
    anchor_is_isotropic : bool
        Whether ``A.T @ A = I`` by construction, as for a Haar anchor. Such an anchor is not centred,
        because with a = m rows that would delete a direction. For the same reason no anchor of at most
        ``l`` rows is centred.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding. Where the premises of `align_odc` hold, they equal its ``G_i``
        up to rounding.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v2, Appendix B, Algorithm 2.
    """
    rows, latent_dim = shapes_of(anchor_reps)[0]
    centred = not anchor_is_isotropic and rows > latent_dim
    first = np.asarray(anchor_reps[0 if trusted is None else trusted[0]])
    start = centre(first) if centred else first
    roundings = SETTLED + SETTLED_PER_PARTY * len(anchor_reps)
    tolerance = roundings * float(np.finfo(common_dtype(anchor_reps)).eps)
    changes, target, sweeps = descend(
        anchor_reps, start, trusted=trusted, tolerance=tolerance, max_sweeps=SWEEPS, centred=centred
    )
    mean = "mean of A_i G_i, centred," if centred else "mean of A_i G_i"
    return Solution(changes, target, f"{mean} after {sweeps} sweeps from odc")
