"""Orthogonal Procrustes against the last party's anchor representation, instead of the first's."""

from __future__ import annotations

from collections.abc import Sequence

from analyst_server.alignment._contract import AnchorReps, Matrix, Solution
from analyst_server.alignment.odc import align_odc


def align_last_party(
    anchor_reps: AnchorReps, target_factor: Matrix | None = None, *, trusted: Sequence[int] | None = None
) -> Solution:
    """Return the change-of-basis matrices of `align_odc` with the last party in the place of the first.

    Parameters
    ----------
    anchor_reps : sequence of c (a, l) ndarrays
        ``A_i = A @ F_i``, float32 or float64. Not modified.
    target_factor : (l, l) ndarray of float64, optional
        The orthogonal ``O``; the identity if not given.
    trusted : sequence of int, optional
        The last of these parties is the target; the last of all if not given.

    Returns
    -------
    Solution
        ``G_i`` orthogonal up to rounding.
    """
    last = (range(len(anchor_reps)) if trusted is None else trusted)[-1]
    return align_odc(anchor_reps, target_factor, trusted=[last])
