"""Gaussian noise: on a party's rows, to give exactly the stated (epsilon, delta), and on their projection."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
NUMBERS_AT_ONCE = 2**20
"""Normal numbers drawn at a time, because drawing them takes several times their own memory."""
_ROOT = math.sqrt(2)


def clip_rows(rows: Matrix64, norm: float) -> Matrix64:
    """Return the rows, each scaled down to Euclidean length ``norm`` if it is longer.

    Replacing one row by another then changes it by at most ``2 * norm``, which is the sensitivity for
    `gaussian_sigma`.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Not modified.
    norm : float
        Positive.
    """
    if not 0 < norm < math.inf:
        raise ValueError(f"the norm must be positive, got {norm}")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1, norm / np.maximum(lengths, norm)))


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


def add_noise(rows: Matrix64, sigma: float, standard_normal: Callable[[int], Matrix64]) -> Matrix64:
    """Return the rows with independent Gaussian noise on every entry.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Not modified.
    sigma : float
        Standard deviation of the noise.
    standard_normal : callable
        Returns as many standard normal numbers as it is asked for, from a cryptographic source that is
        stored nowhere: ``partial(gaussian, KeyStream.fresh(purpose).read)``.
    """
    noisy = np.array(rows, dtype=np.float64, order="C")
    flat = noisy.reshape(-1)  # a view
    for start in range(0, flat.size, NUMBERS_AT_ONCE):
        part = flat[start : start + NUMBERS_AT_ONCE]
        part += sigma * standard_normal(part.size)
    return noisy


def add_dither(rep: Matrix64, strength: float, standard_normal: Callable[[int], Matrix64]) -> Matrix64:
    """Return projected rows with noise that has their own shape.

    The noise has ``strength**2`` times their second moments. What a row that leaves tells of its row is then
    at most ``l / 2 log2(1 + 1 / strength**2)`` bits: the capacity of l Gaussian channels [1]_.

    Parameters
    ----------
    rep : (n, l) ndarray of float64
        Not modified.
    strength : float
        The noise's standard deviation along every direction, for that of the projected rows.
    standard_normal : callable
        As for `add_noise`.

    References
    ----------
    .. [1] Cover and Thomas, Elements of Information Theory, 2nd edition, Theorem 9.4.1.
    """
    dithered = np.array(rep, dtype=np.float64, order="C")
    count, latent_dim = rep.shape
    if count == 0:
        return dithered
    squares, axes = np.linalg.eigh(rep.T @ rep / count)
    squares[squares < np.finfo(np.float64).eps * latent_dim * squares[-1]] = 0  # of fewer rows than columns
    shape = strength * np.sqrt(squares)[:, None] * axes.T
    at_once = max(1, NUMBERS_AT_ONCE // latent_dim)
    for start in range(0, count, at_once):
        part = dithered[start : start + at_once]
        part += standard_normal(part.size).reshape(part.shape) @ shape
    return dithered
