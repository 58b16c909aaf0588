"""Rows with dither are brought to what is expected of them without it, before a fit (docs/adr/0080)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def allow_for_dither(rows: NDArray[Any], strength: float) -> None:
    """Replace the rows of one party by what is expected of them without their dither.

    A model that is fitted on noisy rows answers as if rows without noise were less far apart than they are:
    a linear one has coefficients that are too small by ``1 + strength**2``. This is regression calibration
    [1]_. The dither has ``strength**2`` times the second moments of the rows, so that with the mean m and
    the covariance C of the noisy rows and ``r = strength**2 / (1 + strength**2)``

        ``E[x | noisy x] = m + ((1 - r) I - r m (C^-1 m)^T) (noisy x - m)``

    for rows of a normal distribution, and the best linear guess for others. Where m is 0, as in columns that
    the terms centre, every row keeps ``1 - r`` of its distance from it. Labels play no part.

    Parameters
    ----------
    rows : (n, l) ndarray of float
        ``X~_i G_i``, or any linear image of it. Modified.
    strength : float
        The dither that the party states, positive.

    References
    ----------
    .. [1] Carroll, Ruppert, Stefanski, Crainiceanu, Measurement Error in Nonlinear Models, 2nd edition,
       chapter 4.
    """
    lost = strength**2 / (1 + strength**2)
    if not len(rows) or not lost:  # a square that is too small to count
        return
    mean = rows.mean(axis=0, dtype=np.float64)
    rows -= mean.astype(rows.dtype)
    towards = _of_the_mean(rows, mean, strength)
    along = rows @ towards.astype(rows.dtype)
    rows *= 1 - lost
    rows -= np.outer((lost * along).astype(rows.dtype), mean.astype(rows.dtype))
    rows += mean.astype(rows.dtype)


def _of_the_mean(centred: NDArray[Any], mean: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """Return ``C^-1 m``, (l,), as much of it as the number of rows can tell.

    ``m^T C^-1 m`` of few rows is too large even where all of it is chance, and above ``1 / strength**2`` no
    rows without dither could have it.
    """
    count, latent_dim = centred.shape
    spare = count - latent_dim - 2
    if spare <= 0:
        return np.zeros(latent_dim)
    covariance = (centred.T @ centred).astype(np.float64) / count
    solved = np.asarray(np.linalg.lstsq(covariance, mean, rcond=None)[0])
    seen = float(mean @ solved)
    if seen <= 0:
        return np.zeros(latent_dim)
    without_chance = max(0.0, (spare * seen - latent_dim) / count)
    return np.asarray(solved * (min(without_chance, 1 / strength**2) / seen))
