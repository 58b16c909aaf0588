"""Products of all parties with one target, and their orthogonal factors: the closed form under every method.

Products are where an alignment spends most of its time. Factors of many small matrices are computed by
products too, whose result is checked, and by singular values where these fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment._contract import AnchorReps, Matrix
from analyst_server.alignment._spread import SpreadReps, joined
from analyst_server.alignment._threads import in_parts, multiplies_unpacked, own_threads

Matrix64 = NDArray[np.float64]

BLOCK_ROWS: Final = 2048
"""Rows of the anchor per block. Those of the target, which every party needs, stay in the cache of a core."""

SMALL_PRODUCT: Final = 10**6
"""Multiplications up to which some BLAS libraries skip packing the factors (`multiplies_unpacked`)."""

MIN_BLOCK_ROWS: Final = 200
"""With fewer rows the calls cost more than is gained."""

EXTRA_STEPS: Final = 2
"""Steps beyond the expected number, for matrices conditioned worse than expected. Those that need more are
left to the singular value decomposition."""

LARGE_ORDER: Final = 128
"""Up to this order products are so much cheaper than a factorisation that many steps are worth taking."""

CUBES: Final = 20
"""Multiplications per factor, divided by ``l**3``: ten steps of two products. A decomposition takes about as
many."""

PORTION_BYTES: Final = 2**18
"""Bytes of matrices iterated at a time: three arrays of this size stay in the cache of one core."""


def cross_products(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return ``A_i.T @ Z`` of every party as one (c, l, l) array; ``2 a l**2`` flops per party.

    The result has the wider type of the two factors. No ``A_i`` is copied.
    """
    if isinstance(anchor_reps, SpreadReps):
        return joined(anchor_reps.by_group(_products_of_group, target))
    count, (rows, latent_dim) = len(anchor_reps), target.shape
    dtype = np.result_type(*anchor_reps, target)
    turned = np.zeros((count, latent_dim, latent_dim), dtype)
    block_rows = _rows_at_a_time(latent_dim, dtype)

    def multiply(first: int, last: int) -> None:
        part = np.empty_like(turned[0])
        for start in range(0, rows, block_rows):
            block = slice(start, start + block_rows)
            for index in range(first, last):  # A_i.T @ Z itself took up to twice as long as Z.T @ A_i
                turned[index] += np.matmul(target[block].T, anchor_reps[index][block], out=part)

    with own_threads(float(rows) * latent_dim**2 * count) as threads:
        in_parts(multiply, count, threads)
    return np.ascontiguousarray(turned.transpose(0, 2, 1))


def _products_of_group(reps: AnchorReps, _own: None, target: Matrix) -> tuple[Matrix]:
    return (cross_products(reps, target),)


def orthogonal_changes(anchor_reps: AnchorReps, target: Matrix) -> Matrix:
    """Return the orthogonal ``G_i`` that minimises ``||A_i G_i - Z||_F``, for every party: (c, l, l)."""
    if isinstance(anchor_reps, SpreadReps):
        return joined(anchor_reps.by_group(_changes_of_group, target))
    return orthogonal_factor(cross_products(anchor_reps, target))


def _changes_of_group(reps: AnchorReps, _own: None, target: Matrix) -> tuple[Matrix]:
    return (orthogonal_changes(reps, target),)


def _rows_at_a_time(latent_dim: int, dtype: np.dtype[np.floating]) -> int:
    """Return how many rows at a time make products of order ``latent_dim`` fastest.

    Small products of doubles need no packing. Larger ones would pack the target again for each party: for
    l = 50 the small ones took 0.75 of the time. In single precision nothing was gained.
    """
    small = SMALL_PRODUCT // latent_dim**2
    if dtype == np.float64 and small >= MIN_BLOCK_ROWS and multiplies_unpacked():
        return min(small, BLOCK_ROWS)
    return BLOCK_ROWS


def mean_aligned(
    anchor_reps: AnchorReps, changes_of_basis: Sequence[Matrix], trusted: Sequence[int] | None = None
) -> Matrix:
    """Return the mean of ``A_i @ G_i`` over the trusted parties; ``2 a l**2`` flops per party."""
    chosen = range(len(anchor_reps)) if trusted is None else trusted
    if isinstance(anchor_reps, SpreadReps):
        own = [changes_of_basis[index] for index in chosen]
        return np.asarray(anchor_reps.added(_sum_of_group, own=own, of=chosen) / len(own))
    pairs = [(anchor_reps[index], changes_of_basis[index]) for index in chosen]
    rows, latent_dim = len(anchor_reps[0]), changes_of_basis[0].shape[1]
    mean = np.zeros((rows, latent_dim), np.result_type(*[matrix for pair in pairs for matrix in pair]))

    def add(first: int, last: int) -> None:
        aligned = np.empty((min(BLOCK_ROWS, last - first), latent_dim), mean.dtype)
        for start in range(first, last, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, last))
            for rep, change in pairs:
                mean[block] += np.matmul(rep[block], change, out=aligned[: block.stop - start])
            mean[block] /= len(pairs)

    with own_threads(float(rows) * latent_dim**2 * len(pairs)) as threads:
        in_parts(add, rows, threads)
    return mean


def _sum_of_group(reps: AnchorReps, own: Sequence[Matrix]) -> tuple[Matrix]:
    return (mean_aligned(reps, own) * len(own),)


def orthogonal_factor(cross_products: Matrix) -> Matrix:
    """Return the orthogonal ``G`` that maximises ``tr(G.T @ M)`` for each matrix ``M``.

    With ``M = U S V.T`` it is ``U V.T`` [1]_. Sign flips, and rotations among equal singular
    values, cancel in the product, so no sign convention is needed.

    Parameters
    ----------
    cross_products : (..., l, l) ndarray of float32 or float64
        For an alignment, ``A_i.T @ Z``. Not modified.

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
    """Draw from O(order) by the Haar measure: the Q of a Gaussian matrix, with diag(R) made positive."""
    q, r = np.linalg.qr(rng.standard_normal((order, order)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def polar_factors(matrices: Matrix) -> Matrix:
    """Return ``U V.T`` for each matrix ``U S V.T`` of a stack.

    A well-conditioned stack goes through the scaled Newton-Schulz iteration of [1]_, two products per
    step, and every result is checked. Matrices whose result is not orthogonal are computed again by a
    singular value decomposition. So is the whole stack, without iterating, if a sample of two matrices
    is badly conditioned.

    Parameters
    ----------
    matrices : (c, l, l) ndarray of float32 or float64
        Not modified.

    Returns
    -------
    (c, l, l) ndarray of the same type
        Orthogonal up to rounding. A singular matrix has several such factors; one of them is returned.

    References
    ----------
    .. [1] Chen, Chow, A stable scaling of Newton-Schulz for improving the sign function computation of a
       Hermitian matrix, Argonne ANL/MCS-P5059-0114 (2014), section 3.
    """
    count, order, _ = matrices.shape
    factors = np.empty_like(matrices)
    portion = max(1, PORTION_BYTES // matrices[:1].nbytes)
    with own_threads(CUBES * float(order) ** 3 * count) as threads:
        max_condition = _max_condition(matrices.dtype, order)
        condition = _expected_condition(matrices) if max_condition else np.inf
        is_good = condition <= max_condition

        def factor(first: int, last: int) -> None:
            for start in range(first, last, portion):
                chosen = slice(start, min(start + portion, last))
                part = matrices[chosen]
                factors[chosen] = _by_products(part, condition) if is_good else _by_singular_values(part)

        in_parts(factor, count, threads)
    return factors


def _max_condition(dtype: np.dtype[np.floating], order: int) -> float:
    """Return the condition number up to which the iteration is faster than a decomposition.

    numpy decomposes stacks in double precision whatever their type.
    """
    if order > LARGE_ORDER:
        return 1e3 if dtype == np.float32 else 0.0
    return 1e4 if dtype == np.float32 else 2e3


def _by_products(matrices: Matrix, condition: float) -> Matrix:
    factors, failed = _newton_schulz(matrices, 1 / condition)
    if failed.any():
        factors[failed] = _by_singular_values(matrices[failed])
    return factors


def _newton_schulz(matrices: Matrix, lower: float) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the iterates, and a mask of those that did not become orthogonal.

    A step ``x <- r x (3 - r**2 x**2) / 2`` brings singular values in [lower, 1] as close to 1 as a cubic
    can. Smaller ones converge as well, but need more steps.
    """
    nearly = np.sqrt(np.finfo(matrices.dtype).eps)  # one step squares the distance to orthogonality
    iterate, gram, spread = _normalised(matrices)
    if spread < 0.5:  # nearly orthogonal already, like the products of one span under a Haar anchor
        lower = np.sqrt((1 - spread) / (1 + spread))
    other, extra = np.empty_like(iterate), 0
    while True:
        is_due = 1 - lower <= nearly / 2
        if is_due:
            distance = np.abs(gram - np.eye(gram.shape[-1], dtype=gram.dtype)).max(axis=(1, 2))
            extra += 1
        is_last = is_due and (extra > EXTRA_STEPS or bool(distance.max() <= nearly))
        scale = 1.0 if is_due else float(np.sqrt(3 / (1 + lower + lower**2)))
        gram *= -(scale**3) / 2
        np.einsum("kii->ki", gram)[:] += 1.5 * scale
        iterate, other = np.matmul(iterate, gram, out=other), iterate
        if is_last:
            return iterate, ~(distance <= nearly)
        lower = min(1.0, scale * lower * (3 - scale**2 * lower**2) / 2)
        np.matmul(iterate.transpose(0, 2, 1), iterate, out=gram)


def _normalised(matrices: Matrix) -> tuple[Matrix, Matrix, float]:
    """Return the matrices divided by a bound of their norm, their Gram matrices, and a distance.

    It is the largest distance of a Gram matrix, divided by its mean eigenvalue, from the identity.
    """
    peak = np.abs(matrices).max(axis=(1, 2), keepdims=True)
    iterate = matrices / np.where(peak > 0, peak, 1)  # no square of an entry overflows or vanishes
    gram = iterate.transpose(0, 2, 1) @ iterate
    order = gram.shape[-1]
    size = np.trace(gram, axis1=1, axis2=2)[:, None, None] / order
    size = np.where(size > 0, size, 1)
    norm = np.sqrt(np.square(gram).sum(axis=(1, 2), keepdims=True))
    # equal to ||M.T M / s||**2 - l, in which rounding errors would cancel everything
    spread = np.sqrt(np.square(gram / size - np.eye(order, dtype=gram.dtype)).sum(axis=(1, 2), keepdims=True))
    bound = np.where(spread < 0.5, size * (1 + spread), np.where(norm > 0, norm, 1))
    iterate /= np.sqrt(bound)
    gram /= bound
    return iterate, gram, float(spread.max())


def _by_singular_values(matrices: Matrix) -> Matrix:
    left, _, right = np.linalg.svd(matrices)
    return np.asarray(left @ right)


def _expected_condition(matrices: Matrix) -> float:
    """Estimate from two matrices of a stack a bound of the condition number of most of them.

    Cross-products of parties of one span all have the same singular values. With different spans they
    differ, but few are conditioned much worse than the others.
    """
    values = np.linalg.svd(matrices[[len(matrices) // 3, -1]], compute_uv=False)
    if not values[:, -1].all():
        return np.inf
    one, another = sorted((values[:, 0] / values[:, -1]).tolist())
    return float(another * (1.2 if another < 1.1 * one else 5.0))
