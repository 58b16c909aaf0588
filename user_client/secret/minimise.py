"""The minimum of a smooth function by L-BFGS.

SciPy has it too, and nothing else of SciPy is used at an institution: a hundred megabytes for this page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from user_client.secret.expansion import Matrix64

Loss = Callable[[Matrix64], tuple[float, Matrix64]]
MEMORY: Final = 10
"""Steps whose curvature is remembered."""
FLAT: Final = 1e-5
"""Largest entry of a gradient that counts as zero."""
STILL: Final = 2.2e-9
"""Relative decrease below which nothing is gained any more."""
_ENOUGH: Final = 1e-4
"""Share of the decrease the slope promises that a step must bring (Armijo)."""
_HALVINGS: Final = 30


def minimise(loss: Loss, start: Matrix64, *, iterations: int) -> Matrix64:
    """Return where limited-memory BFGS [1]_ with backtracking comes to.

    Parameters
    ----------
    loss : callable
        Returns the value at a point and the gradient there.
    start : (n,) ndarray of float64
        Not modified.
    iterations : int
        Steps at most; fewer where the gradient vanishes or a step brings nothing.

    References
    ----------
    .. [1] Nocedal, Wright, Numerical Optimization, second edition, Algorithms 7.4 and 7.5.
    """
    point, (value, gradient) = start, loss(start)
    curvature: deque[tuple[Matrix64, Matrix64]] = deque(maxlen=MEMORY)
    for _ in range(iterations):
        if np.abs(gradient).max() <= FLAT:
            break
        direction = -_times_inverse_hessian(gradient, curvature)
        # before the curvature is known a step of length one could lead anywhere
        step = 1.0 if curvature else min(1.0, 1 / float(np.abs(gradient).sum()))
        slope = float(gradient @ direction)
        for _ in range(_HALVINGS):
            reached = point + step * direction
            lower, its_gradient = loss(reached)
            if lower <= value + _ENOUGH * step * slope:
                break
            step /= 2
        else:
            break
        moved, turned = reached - point, its_gradient - gradient
        if moved @ turned > np.finfo(np.float64).eps * (turned @ turned):  # keeps the Hessian positive
            curvature.append((moved, turned))
        is_still = value - lower <= STILL * max(abs(value), abs(lower), 1)
        point, value, gradient = reached, lower, its_gradient
        if is_still:
            break
    return point


def _times_inverse_hessian(gradient: Matrix64, curvature: deque[tuple[Matrix64, Matrix64]]) -> Matrix64:
    """Multiply by the inverse Hessian that the remembered steps tell of: the two-loop recursion."""
    found, shares = gradient.copy(), []
    for moved, turned in reversed(curvature):
        shares.append((moved @ found) / (moved @ turned))
        found -= shares[-1] * turned
    if curvature:
        moved, turned = curvature[-1]
        found *= (moved @ turned) / (turned @ turned)
    for (moved, turned), share in zip(curvature, reversed(shares), strict=True):
        found += (share - (turned @ found) / (moved @ turned)) * moved
    return found
