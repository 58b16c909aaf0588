"""Orthogonal factors: the closed form under the orthogonal methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment._contract import Matrix as Matrix
from analyst_server.alignment._polar import polar_factors

Matrix64 = NDArray[np.float64]


def orthogonal_factor(cross_products: Matrix) -> Matrix:
    """Return the orthogonal ``G`` that maximises ``tr(G.T @ M)`` for each matrix ``M``.

    With ``M = U S V.T`` it is ``U V.T`` [1]_; sign flips and rotations inside equal singular
    values cancel in the product, so no sign convention is needed.

    Parameters
    ----------
    cross_products : (..., l, l) ndarray of float32 or float64
        For alignment ``A_i.T @ Z``. Not modified.

    Returns
    -------
    (..., l, l) ndarray of the same type
        Unique where the matrix has full rank; one of the maximisers otherwise.

    References
    ----------
    .. [1] Schoenemann, Psychometrika 31 (1966) 1-10, doi:10.1007/BF02289451.
    """
    stack = cross_products.reshape(-1, *cross_products.shape[-2:])
    return polar_factors(stack).reshape(cross_products.shape)


def haar_orthogonal(order: int, rng: np.random.Generator) -> Matrix64:
    """Draw from O(order) with the Haar measure: QR of a Gaussian matrix, signs of R made positive."""
    q, r = np.linalg.qr(rng.standard_normal((order, order)))
    return np.asarray(q * np.sign(np.diagonal(r)))
