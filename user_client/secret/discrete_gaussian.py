"""Exact samples of the discrete Gaussian distribution, many at a time.

Each number is decided by comparing uniform random bits with a probability. Floating point decides where it
surely can; the few comparisons that are too close for it are settled with as many digits as they take. So
what comes out has exactly the stated distribution, which noise in floating point has not [1]_.

References
----------
.. [1] Mironov, On Significance of the Least Significant Bits for Differential Privacy, CCS 2012,
   doi:10.1145/2382196.2382264.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import ByteSource

Integers = NDArray[np.int64]
LARGEST_DEVIATION: Final = 2**52
"""Larger ones could leave 64 bits."""
SURE: Final = 2.0**-40
"""A comparison that is no closer than this is right in floating point, whose errors are below 2^-48."""
_AT_ONCE: Final = 2**18


def discrete_gaussian(count: int, deviation: int, source: ByteSource) -> Integers:
    """Return independent integers, each x with a probability proportional to ``exp(-x^2 / (2 s^2))`` [1]_.

    Parameters
    ----------
    count : int
    deviation : int
        s, from 1 to 2^52.
    source : callable
        Returns as many random bytes as it is asked for, which nobody else may know.

    References
    ----------
    .. [1] Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, arXiv:2004.00010,
       Algorithms 1 to 3.
    """
    if not 1 <= deviation <= LARGEST_DEVIATION:
        raise ValueError(f"the deviation must be from 1 to {LARGEST_DEVIATION}, got {deviation}")
    found = np.zeros(count, np.int64)
    for start in range(0, count, _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        missing = np.arange(len(part))
        while len(missing):
            drawn, is_kept = _candidates(len(missing), deviation, source)
            part[missing[is_kept]] = drawn[is_kept]
            missing = missing[~is_kept]
    return found


def _candidates(count: int, deviation: int, source: ByteSource) -> tuple[Integers, NDArray[np.bool_]]:
    """Return discrete Laplace numbers of about that scale, and which to keep so that they are Gaussian."""
    scale = deviation + 1
    low = _below(count, scale, source)
    is_kept = _happens(low / scale, source, lambda i: Fraction(int(low[i]), scale))
    drawn = low + scale * _geometric(count, source)
    is_negative = (np.frombuffer(source(count), np.uint8) & 1).astype(bool)
    is_kept &= ~(is_negative & (drawn == 0))  # 0 has no sign: one of both zeros goes

    def exponent(i: int) -> Fraction:
        return (int(drawn[i]) - Fraction(deviation**2, scale)) ** 2 / (2 * deviation**2)

    is_kept &= _happens((drawn / deviation - deviation / scale) ** 2 / 2, source, exponent)
    return np.where(is_negative, -drawn, drawn), is_kept


def _below(count: int, bound: int, source: ByteSource) -> Integers:
    """Return uniform integers from 0 to ``bound - 1``."""
    mask = np.uint64(2 ** (bound - 1).bit_length() - 1)
    found = np.full(count, bound, np.uint64)
    while len(missing := np.flatnonzero(found >= bound)):
        found[missing] = np.frombuffer(source(8 * len(missing)), "<u8") & mask
    return found.astype(np.int64)


def _geometric(count: int, source: ByteSource) -> Integers:
    """Return how often an event of probability 1/e happens before it fails."""
    found = np.zeros(count, np.int64)
    going = np.arange(count)
    while len(going):
        going = going[_happens(np.ones(len(going)), source, lambda _: Fraction(1))]
        found[going] += 1
    return found


def _happens(
    exponents: NDArray[np.float64], source: ByteSource, exact: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """Return, for each exponent g >= 0, True with the probability ``exp(-g)``.

    Parameters
    ----------
    exponents : (n,) ndarray
        Nearly the exponents: what they differ by from ``exact`` changes no probability by 2^-48.
    exact : callable
        Returns the exponent at a place.
    """
    bits = np.frombuffer(source(8 * len(exponents)), "<u8") >> np.uint64(11)
    apart = np.exp(-exponents) - bits * 2.0**-53
    happens = np.asarray(apart > 0)
    for i in np.flatnonzero(np.abs(apart) < SURE):
        happens[i] = settled(int(bits[i]), exact(int(i)), source)
    return happens


def settled(bits: int, exponent: Fraction, source: ByteSource) -> bool:
    """Return whether a uniform number that begins with these 53 bits is below ``exp(-exponent)``."""
    if exponent == 0:
        return True
    known, digits = 53, 40
    while True:
        context = Context(prec=digits)
        quotient = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
        probability = Fraction(context.exp(quotient))
        error = Fraction(1, 10 ** (digits - 10))
        if Fraction(bits + 1, 2**known) <= probability - error:
            return True
        if Fraction(bits, 2**known) >= probability + error:
            return False
        bits, known = (bits << 64) | int.from_bytes(source(8), "little"), known + 64
        digits += 20
