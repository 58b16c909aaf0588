"""The leading directions of all anchor representations together, and the span of a single one.

Products are made in float64 and block by block: the a x (c l) matrix of all parties never exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from analyst_server.alignment._contract import AnchorReps, Matrix

Matrix64 = NDArray[np.float64]
Svd = Literal["exact", "randomized"]

BLOCK_BYTES = 2**24
"""Enough columns or rows at a time for the product to run at full speed, little enough to stay near."""
SAFE_GAP = 1e-5
"""A Gram matrix of float64 finds a space to some 1e-16 over its relative gap: here to 1e-11."""
SAFE_RCOND = 1e-6
"""Cholesky factors of a Gram matrix orthonormalise to some 1e-16 over its reciprocal condition."""
OVERSAMPLING = 10


@dataclass(frozen=True)
class Stack:
    """``[A_1 W_1 .. A_c W_c]``, or ``[A_1 .. A_c]`` without weights; never formed as a whole."""

    reps: AnchorReps
    weights: Sequence[Matrix64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        columns = self.reps if self.weights is None else self.weights
        return self.reps[0].shape[0], sum(matrix.shape[1] for matrix in columns)

    def by_columns(self) -> Iterator[Matrix64]:
        """Yield all columns, some parties at a time."""
        width = max(1, BLOCK_BYTES // (8 * self.shape[0]))
        block: list[Matrix64] = []
        for index in range(len(self.reps)):
            block.append(self._columns_of(index, slice(None)))
            if sum(part.shape[1] for part in block) >= width:
                yield np.hstack(block)
                block = []
        if block:
            yield np.hstack(block)

    def by_rows(self) -> Iterator[Matrix64]:
        """Yield all rows, some at a time."""
        rows, columns = self.shape
        height = max(1, BLOCK_BYTES // (8 * columns))
        for start in range(0, rows, height):
            chosen = slice(start, start + height)
            yield np.hstack([self._columns_of(index, chosen) for index in range(len(self.reps))])

    def _columns_of(self, index: int, rows: slice) -> Matrix64:
        rep = self.reps[index][rows].astype(np.float64, copy=False)
        return rep if self.weights is None else rep @ self.weights[index]


def leading_directions(
    stack: Stack, count: int, svd: Svd = "exact", rng: np.random.Generator | None = None
) -> tuple[Matrix64, Matrix64]:
    """Return the ``count`` leading left singular vectors of a stack and their singular values.

    "exact" takes them from the smaller Gram matrix, ``min(a n**2, a**2 n)`` flops for ``n`` columns in
    all, if the gap behind the last of them is wide enough for that, and otherwise from a QR
    factorisation, which does not square the condition. "randomized" is the subspace iteration of [1]_
    with the defaults of scikit-learn: ten more columns than asked for and four sweeps, or seven for less
    than a tenth of all directions.

    Parameters
    ----------
    stack : Stack
        (a, n), with a and n at least ``count``.
    count : int
    svd : {"exact", "randomized"}
    rng : numpy.random.Generator, optional
        For "randomized"; a generator seeded with 0 if not given.

    Returns
    -------
    (a, count) ndarray of float64
        Orthonormal columns; the entry of largest size in each is positive. They span the same space
        for every order of the parties if singular value ``count`` is larger than the next.
    (count,) ndarray of float64
        Falling.

    References
    ----------
    .. [1] Halko, Martinsson, Tropp, SIAM Review 53 (2011) 217-288, doi:10.1137/090771806, Algorithm 4.4.
    """
    if svd == "randomized":
        left, values = _from_sketch(stack, count, rng or np.random.default_rng(0))
    else:
        left, values = _from_gram(stack, count) or _from_qr(stack, count)
    largest = np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0)
    return left * np.where(largest < 0, -1.0, 1.0), values


def _from_gram(stack: Stack, count: int) -> tuple[Matrix64, Matrix64] | None:
    """Return None where the Gram matrix cannot tell the leading directions from the others."""
    is_wide = stack.shape[0] <= stack.shape[1]
    order = min(stack.shape)
    gram = np.zeros((order, order))
    for block in stack.by_columns() if is_wide else stack.by_rows():
        gram += block @ block.T if is_wide else block.T @ block
    first = max(0, order - count - 1)
    squares, vectors = linalg.eigh(gram, subset_by_index=[first, order - 1])
    squares, vectors = squares[::-1], vectors[:, ::-1]
    rest = squares[count] if order > count else 0.0
    if not squares[count - 1] - rest > SAFE_GAP * squares[0]:
        return None
    values = np.sqrt(squares[:count])
    if is_wide:
        return vectors[:, :count], values
    return _times(stack, vectors[:, :count] / values), values


def _from_qr(stack: Stack, count: int) -> tuple[Matrix64, Matrix64]:
    """Return the singular vectors of the triangular factor, which is updated block by block."""
    is_wide = stack.shape[0] <= stack.shape[1]
    triangle = np.zeros((0, min(stack.shape)))
    for block in stack.by_columns() if is_wide else stack.by_rows():
        (triangle,) = linalg.qr(np.vstack([triangle, block.T if is_wide else block]), mode="r")
        triangle = triangle[: triangle.shape[1]]
    _, values, right = linalg.svd(triangle)
    if is_wide:
        return right[:count].T, values[:count]
    # directions that nobody has get orthonormal vectors from the QR factorisation all the same
    directions, corner = linalg.qr(_times(stack, right[:count].T), mode="economic")
    return directions * np.where(np.diagonal(corner) < 0, -1.0, 1.0), values[:count]


def _from_sketch(stack: Stack, count: int, rng: np.random.Generator) -> tuple[Matrix64, Matrix64]:
    size = min(count + OVERSAMPLING, *stack.shape)
    sweeps = 7 if count < 0.1 * min(stack.shape) else 4
    sketch = _times(stack, rng.standard_normal((stack.shape[1], size)))
    for _ in range(sweeps):
        sketch, _ = linalg.lu(sketch, permute_l=True)
        projected, _ = linalg.lu(_transposed_times(stack, sketch), permute_l=True)
        sketch = _times(stack, projected)
    basis, _ = linalg.qr(sketch, mode="economic")
    right, values, left = linalg.svd(_transposed_times(stack, basis), full_matrices=False)
    del right
    return basis @ left[:count].T, values[:count]


def _times(stack: Stack, right: Matrix64) -> Matrix64:
    """Return ``M @ right`` for the stack ``M``."""
    total, start = np.zeros((stack.shape[0], right.shape[1])), 0
    for block in stack.by_columns():
        total += block @ right[start : start + block.shape[1]]
        start += block.shape[1]
    return total


def _transposed_times(stack: Stack, left: Matrix64) -> Matrix64:
    """Return ``M.T @ left`` for the stack ``M``."""
    return np.vstack([block.T @ left for block in stack.by_columns()])


def whiten(rep: Matrix) -> Matrix64:
    """Return ``W`` with ``A_i @ W`` an orthonormal basis of the span of ``A_i``; ``W @ (A_i @ W).T = A_i^+``.

    The inverse triangular factor of ``A_i`` where its Gram matrix is conditioned well enough to give it,
    ``a l**2`` flops; otherwise from the singular values, without those that rounding alone explains.

    Parameters
    ----------
    rep : (a, l_i) ndarray
        Not zero.

    Returns
    -------
    (l_i, r) ndarray of float64
        ``r`` is the rank of ``A_i`` to the precision of its type: l_i unless the party lost a direction.
    """
    matrix = rep.astype(np.float64, copy=False)
    factor, failed = linalg.lapack.dpotrf(matrix.T @ matrix)
    if not failed and linalg.lapack.dtrcon(factor, norm="1")[0] ** 2 > SAFE_RCOND:
        return np.asarray(linalg.lapack.dtrtri(factor)[0])
    (triangle,) = linalg.qr(matrix, mode="r")
    _, values, right = linalg.svd(triangle[: rep.shape[1]], full_matrices=False)
    # storing a matrix moves its singular values by at most eps / 2 of its Frobenius norm
    kept = values > np.finfo(rep.dtype).eps * max(rep.shape[1], 8) * values[0]
    return np.asarray(right[kept].T / values[kept])
