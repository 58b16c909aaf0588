"""Minimise a smooth function by L-BFGS.

SciPy has this algorithm too, but an institution would need nothing else of SciPy's hundred megabytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from user_client.secret.expansion import Matrix64

Loss = Callable[[Matrix64], tuple[float, Matrix64]]
MEMORY: Final = 10
"""Number of past steps whose curvature is kept."""
FLAT: Final = 1e-5
"""A gradient whose entries are all at most this large counts as zero."""
STILL: Final = 2.2e-9
"""Relative decrease at or below which the search ends."""
_ENOUGH: Final = 1e-4
"""Share of the decrease predicted by the slope that a step must achieve (Armijo's condition)."""
_HALVINGS: Final = 30
"""Number of step lengths that are tried, each half of the one before."""


def minimise(loss: Loss, start: Matrix64, *, iterations: int) -> Matrix64:
    """Return the point that limited-memory BFGS [1]_ with backtracking arrives at.

    Parameters
    ----------
    loss : callable
        Returns the value and the gradient at a point.
    start : (n,) ndarray of float64
        Not modified.
    iterations : int
        Largest number of steps. The search ends earlier where the gradient vanishes or a step gains nothing.

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
        # while the curvature is unknown, a step of length one could be far too long
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
        if moved @ turned > np.finfo(np.float64).eps * (
            turned @ turned
        ):  # keeps the Hessian positive definite
            curvature.append((moved, turned))
        is_still = value - lower <= STILL * max(abs(value), abs(lower), 1)
        point, value, gradient = reached, lower, its_gradient
        if is_still:
            break
    return point


def _times_inverse_hessian(gradient: Matrix64, curvature: deque[tuple[Matrix64, Matrix64]]) -> Matrix64:
    """Multiply by the inverse Hessian estimated from the past steps: the two-loop recursion."""
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
