"""How much Gaussian noise gives exactly a stated (epsilon, delta)."""

from __future__ import annotations

import math
from typing import Final

_ROOT: Final = math.sqrt(2)


def gaussian_delta(epsilon: float, sigma: float, *, sensitivity: float) -> float:
    """Return the smallest delta for which Gaussian noise is (epsilon, delta)-differentially private.

    With ``s = sensitivity / sigma`` it is ``Phi(s/2 - epsilon/s) - exp(epsilon) Phi(-s/2 - epsilon/s)``
    [1]_, computed by the scaled complementary error function so that a small delta keeps its digits.

    References
    ----------
    .. [1] Balle and Wang, arXiv:1805.06530, Theorem 8.
    """
    scaled = sensitivity / sigma
    upper, lower = scaled / 2 - epsilon / scaled, -scaled / 2 - epsilon / scaled
    if upper > 0:  # no cancellation here, and exp(epsilon) Phi(lower) is at most 1/2
        return math.erfc(-upper / _ROOT) / 2 - math.exp(-upper * upper / 2) * erfcx(-lower / _ROOT) / 2
    # exp(epsilon) phi(lower) = phi(upper), so both terms share the factor exp(-upper^2 / 2)
    return math.exp(-upper * upper / 2) * (erfcx(-upper / _ROOT) - erfcx(-lower / _ROOT)) / 2


def erfcx(x: float) -> float:
    """Return ``exp(x**2) erfc(x)`` for x >= 0, the scaled complementary error function.

    For x >= 5 it is computed by its continued fraction [1]_. SciPy has this function, but an institution
    would need nothing else of SciPy.

    References
    ----------
    .. [1] NIST Digital Library of Mathematical Functions, Eq. 7.9.1.
    """
    if x < 5:
        return math.exp(x * x) * math.erfc(x)
    tail = 0.0
    for k in range(50, 0, -1):
        tail = k / 2 / (x + tail)
    return 1 / (math.sqrt(math.pi) * (x + tail))


def gaussian_sigma(epsilon: float, delta: float, *, sensitivity: float) -> float:
    """Return the least standard deviation that makes Gaussian noise (epsilon, delta)-private.

    This is the analytic Gaussian mechanism [1]_: the exact condition `gaussian_delta` ``<= delta`` is
    solved for sigma by bisection, and the end of the last interval that meets it is returned. Unlike the
    classical formula it holds for every epsilon, also above 1.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Between 0 and 1, both excluded.
    sensitivity : float
        The largest Euclidean distance between what is released for two adjacent inputs.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    .. [1] Balle and Wang, arXiv:1805.06530, Theorem 8 and Algorithm 1.
    """
    if not (0 < epsilon < math.inf and 0 < delta < 1 and 0 < sensitivity < math.inf):
        raise ValueError("epsilon and sensitivity must be positive, delta between 0 and 1")

    def is_enough(sigma: float) -> bool:
        return gaussian_delta(epsilon, sigma, sensitivity=1) <= delta

    low = high = 1.0
    while not is_enough(high):
        high *= 2
    while is_enough(low):
        low /= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high * sensitivity
