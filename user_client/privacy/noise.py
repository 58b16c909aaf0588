"""Gaussian noise on a party's rows and on their projection."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
NUMBERS_AT_ONCE = 2**20
"""Normal numbers drawn at a time, because drawing them takes several times their own memory."""


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
    if len(rep) == 0:
        return np.array(rep, dtype=np.float64)
    return add_shaped(rep, dither_shape(rep.T @ rep / len(rep), strength), standard_normal)


def dither_shape(second_moments: Matrix64, strength: float) -> Matrix64:
    """Return what turns normal numbers into the dither of rows with these second moments, both (l, l)."""
    squares, axes = np.linalg.eigh(second_moments)
    # those of fewer rows than columns are rounding errors
    squares[squares < np.finfo(np.float64).eps * len(squares) * squares[-1]] = 0
    return np.asarray(strength * np.sqrt(squares)[:, None] * axes.T)


def add_shaped(rep: Matrix64, shape: Matrix64, standard_normal: Callable[[int], Matrix64]) -> Matrix64:
    """Return projected rows, (n, l), with normal numbers times ``shape``, (l, l)."""
    dithered = np.array(rep, dtype=np.float64, order="C")
    count, latent_dim = rep.shape
    at_once = max(1, NUMBERS_AT_ONCE // latent_dim)
    for start in range(0, count, at_once):
        part = dithered[start : start + at_once]
        part += standard_normal(part.size).reshape(part.shape) @ shape
    return dithered
