"""The numbers of an institution's own non-linear map of encoded rows: random features, or a kernel's."""

from __future__ import annotations

from typing import Final

import numpy as np

from user_client.secret.expansion import ByteSource, Matrix64, gaussian, uniform

LEAST_EIGENVALUE: Final = 1e-6
"""Of the kernel between landmarks, relative to the largest: below, a direction is rounding of 32-bit rows."""


def random_frequencies(
    source: ByteSource, features: int, count: int, kernel_width: float
) -> tuple[Matrix64, Matrix64]:
    """Draw the W and b of ``sqrt(2 / D) cos(W x + b)``, whose products approximate a Gaussian kernel [1]_.

    Parameters
    ----------
    source : callable
        Returns secret bytes.
    features, count : int
        m and D.
    kernel_width : float
        s of ``exp(-|x - y|^2 / (2 s^2))``, in the unit of the rows; above 0.

    Returns
    -------
    frequencies : (D, m) ndarray of float64
        Normal, with standard deviation 1 / s.
    phases : (D,) ndarray of float64
        Uniform in [0, 2 pi).

    References
    ----------
    .. [1] Rahimi and Recht, Random Features for Large-Scale Kernel Machines (NIPS 2007).
    """
    frequencies = gaussian(source, count * features).reshape(count, features) / kernel_width
    return frequencies, 2 * np.pi * uniform(source, count)


def inverse_root(landmarks: Matrix64, kernel_width: float) -> Matrix64:
    """Return R with ``K R R^T K = K`` for the Gaussian kernel K between landmarks, (r, D), by Nystroem [1]_.

    ``k(x, Z) R`` are the coordinates of a row in the space that the landmarks span, along its principal axes.
    D is r less the directions that rounding could explain.

    Parameters
    ----------
    landmarks : (r, m) ndarray of float64
        Z. Not modified.
    kernel_width : float
        As for `random_frequencies`.

    References
    ----------
    .. [1] Williams and Seeger, Using the Nystroem Method to Speed Up Kernel Machines (NIPS 2000).
    """
    energies, vectors = np.linalg.eigh(np.exp(-_squares(landmarks) / (2 * kernel_width**2)))
    kept = energies > LEAST_EIGENVALUE * energies[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(energies[kept]))[:, ::-1]


def median_distance(rows: Matrix64) -> float:
    """Return the median of the distances between rows, (n, m), that are not the same; 0 if all are."""
    squares = _squares(rows)[np.triu_indices(len(rows), 1)]
    apart = squares[squares > 0]
    return float(np.sqrt(np.median(apart))) if len(apart) else 0.0


def _squares(rows: Matrix64) -> Matrix64:
    """Return the squared distances between rows, (n, n)."""
    lengths = np.square(rows).sum(axis=1)
    return np.asarray(np.maximum(lengths[:, None] + lengths - 2 * rows @ rows.T, 0))
