"""Orthogonal polar factors of many small matrices: products, checked; singular values where they fail."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment._contract import Matrix
from analyst_server.alignment._threads import ONE_THREAD_OPERATIONS, in_parts, thread_count

MAX_STEPS: Final = 16
"""The iteration needs 13 for a condition of 2000 in double precision; what takes longer is left to it."""

LARGE_ORDER: Final = 128
"""Up to it a product is so much cheaper than a factorisation that the iteration is worth many steps."""

PORTION_BYTES: Final = 2**18
"""What is iterated at a time; three arrays of it stay in the cache of one core."""


def polar_factors(matrices: Matrix) -> Matrix:
    """Return ``U V.T`` of each matrix ``U S V.T`` of a stack.

    Where the matrices are conditioned well, the scaled Newton-Schulz iteration of [1]_: two products a
    step. Its every result is checked; what has not become orthogonal, and all of a stack whose first
    matrix is conditioned badly, comes from the singular value decomposition.

    Parameters
    ----------
    matrices : (c, l, l) ndarray of float32 or float64
        Not modified.

    Returns
    -------
    (c, l, l) ndarray of the same type
        Orthogonal up to rounding, for singular matrices too, where it is one choice of many.

    References
    ----------
    .. [1] Chen, Chow, A stable scaling of Newton-Schulz for improving the sign function computation of a
       Hermitian matrix, Argonne ANL/MCS-P5059-0114 (2014), section 3.
    """
    count, order, _ = matrices.shape
    factors = np.empty_like(matrices)
    portion = max(1, PORTION_BYTES // matrices[:1].nbytes)
    max_condition = _max_condition(matrices.dtype, order)

    def factor(first: int, last: int) -> None:
        condition = _condition(matrices[(first + last) // 2]) if max_condition else np.inf
        for start in range(first, last, portion):
            chosen = slice(start, min(start + portion, last))
            if condition > max_condition:
                factors[chosen] = _by_singular_values(matrices[chosen])
            else:
                factors[chosen] = _by_products(matrices[chosen], condition)

    # the products of larger matrices are split by the BLAS, their singular values better by us
    is_split_by_blas = order**3 > ONE_THREAD_OPERATIONS and max_condition > 0
    in_parts(factor, count, 1 if is_split_by_blas else thread_count())
    return factors


def _max_condition(dtype: np.dtype[np.floating], order: int) -> float:
    """Return up to which condition the iteration beats singular values, which numpy takes in double."""
    if order > LARGE_ORDER:
        return 100.0 if dtype == np.float32 else 0.0
    return 1e4 if dtype == np.float32 else 2e3


def _by_products(matrices: Matrix, condition: float) -> Matrix:
    factors, failed = _newton_schulz(matrices, 0.5 / condition)
    if failed.any():
        factors[failed] = _by_singular_values(matrices[failed])
    return factors


def _newton_schulz(matrices: Matrix, lower: float) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the iterates, and which of them are not the answer.

    ``x <- r x (3 - r**2 x**2) / 2`` brings singular values in [lower, 1] as close to 1 as a cubic can.
    Those below come as well, only later.
    """
    identity = np.eye(matrices.shape[-1], dtype=matrices.dtype)
    nearly = np.sqrt(np.finfo(matrices.dtype).eps)  # one step squares the distance to orthogonality
    iterate, gram, spread = _normalised(matrices)
    if spread < 0.5:  # as under a Haar anchor, where parties of one span are orthogonal to each other already
        lower = np.sqrt((1 - spread) / (1 + spread))
    for _ in range(MAX_STEPS):
        distance = np.abs(gram - identity).max(axis=(1, 2))
        is_last = bool(distance.max() <= nearly)
        scale = 1.0 if is_last else float(np.sqrt(3 / (1 + lower + lower**2)))
        gram *= -(scale**3) / 2
        gram += 1.5 * scale * identity
        iterate = iterate @ gram
        if is_last:
            break
        lower = scale * lower * (3 - scale**2 * lower**2) / 2
        np.matmul(iterate.transpose(0, 2, 1), iterate, out=gram)
    return iterate, ~(distance <= nearly)


def _normalised(matrices: Matrix) -> tuple[Matrix, Matrix, float]:
    """Return the matrices over a bound of their norm, ``M.T @ M`` of that, and its distance from ``s I``."""
    peak = np.abs(matrices).max(axis=(1, 2), keepdims=True)
    iterate = matrices / np.where(peak > 0, peak, 1)  # no square of an entry overflows or vanishes
    gram = iterate.transpose(0, 2, 1) @ iterate
    order = gram.shape[-1]
    size = np.trace(gram, axis1=1, axis2=2)[:, None, None] / order
    size = np.where(size > 0, size, 1)
    norm = np.sqrt(np.square(gram).sum(axis=(1, 2), keepdims=True))
    # ||M.T M / s - I||**2 = ||M.T M / s||**2 - l, but not to rounding
    spread = np.sqrt(np.square(gram / size - np.eye(order, dtype=gram.dtype)).sum(axis=(1, 2), keepdims=True))
    bound = np.where(spread < 0.5, size * (1 + spread), np.where(norm > 0, norm, 1))
    iterate /= np.sqrt(bound)
    gram /= bound
    return iterate, gram, float(spread.max())


def _by_singular_values(matrices: Matrix) -> Matrix:
    left, _, right = np.linalg.svd(matrices)
    return np.asarray(left @ right)


def _condition(matrix: Matrix) -> float:
    """Return the condition of one matrix of a stack: parties of one span all have the same."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else np.inf
