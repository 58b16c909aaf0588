"""The leading directions of all anchor representations together, and the span of a single one.

Products are computed block by block: the a x (c l) matrix of all parties is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from analyst_server.alignment._contract import AnchorReps, Matrix

Matrix64 = NDArray[np.float64]

BLOCK_BYTES = 2**24
"""Bytes of columns or rows per block: enough for products to run at full speed, few enough for a cache."""
SAFE_GAP = 1e-7
"""Relative gap above which a Gram matrix is used: it finds a space to about 1e-16 over the gap, here 1e-9."""
_ROUNDED_AWAY = 4
"""A singular value of at most so many roundings of an entry, relative to the largest, is no direction."""
SAFE_CONDITION = 1e3
"""Condition number up to which a Cholesky factor is used: it orthonormalises to about 1e-16 times its square,
here 1e-10."""


@dataclass(frozen=True)
class Stack:
    """``M = [A_1 W_1 .. A_c W_c]``, or ``[A_1 .. A_c]`` without weights; never formed as a whole."""

    reps: AnchorReps
    weights: Sequence[Matrix64] | None = None

    @property
    def widths(self) -> list[int]:
        """Number of columns of each party."""
        return [matrix.shape[1] for matrix in (self.reps if self.weights is None else self.weights)]

    @property
    def shape(self) -> tuple[int, int]:
        return self.reps[0].shape[0], sum(self.widths)

    def by_columns(self, at_least: int = 1) -> Iterator[Matrix64]:
        """Yield all columns in blocks of whole parties, each but the last of ``at_least`` columns or more."""
        enough = max(at_least, BLOCK_BYTES // (8 * self.shape[0]))
        block: list[Matrix64] = []
        for index in range(len(self.reps)):
            block.append(self._columns_of(index, slice(None)))
            if sum(part.shape[1] for part in block) >= enough:
                yield np.hstack(block)
                block = []
        if block:
            yield np.hstack(block)

    def by_rows(self, at_least: int = 1) -> Iterator[Matrix64]:
        """Yield all rows in blocks, each but the last of ``at_least`` rows or more."""
        rows, columns = self.shape
        height = max(at_least, BLOCK_BYTES // (8 * columns))
        for start in range(0, rows, height):
            chosen = slice(start, start + height)
            yield np.hstack([self._columns_of(index, chosen) for index in range(len(self.reps))])

    def times(self, right: Matrix) -> Matrix64:
        """Return ``M @ right``: products in the wider type of their factors, their sum in float64."""
        total, start = np.zeros((self.shape[0], right.shape[1])), 0
        for index, (rep, width) in enumerate(zip(self.reps, self.widths, strict=True)):
            part = right[start : start + width]
            if self.weights is not None:
                part = (self.weights[index] @ part).astype(right.dtype, copy=False)
            total += rep @ part
            start += width
        return total

    def _columns_of(self, index: int, rows: slice) -> Matrix64:
        rep = self.reps[index][rows].astype(np.float64, copy=False)
        return rep if self.weights is None else rep @ self.weights[index]


def common_directions(stack: Stack, count: int, rounding: float) -> tuple[Matrix64, Matrix64]:
    """Return `leading_directions`, with columns of zeros where the stack has no more than rounding.

    Parameters
    ----------
    stack : Stack
        (a, n).
    count : int
        There may be fewer directions.
    rounding : float
        How far the entries may be off, relative to the largest of their column.

    Returns
    -------
    (a, count) ndarray of float64
    (count,) ndarray of float64
        Singular values, 0 for the columns of zeros.
    """
    found, values = leading_directions(stack, min(count, *stack.shape))
    computed = float(np.finfo(stack.reps[0].dtype).eps) * max(count, 8)
    there = values > max(computed, _ROUNDED_AWAY * rounding) * values[0]
    directions, lengths = np.zeros((stack.shape[0], count)), np.zeros(count)
    directions[:, : len(values)], lengths[: len(values)] = found * there, values * there
    return directions, lengths


def leading_directions(stack: Stack, count: int) -> tuple[Matrix64, Matrix64]:
    """Return the ``count`` leading left singular vectors of a stack and their singular values.

    They come from the smaller Gram matrix, ``min(a n**2, a**2 n)`` flops for ``n`` columns in all, if the gap
    after the last singular value is wide enough. Otherwise they come from a QR factorisation, which does not
    square the condition number.

    Parameters
    ----------
    stack : Stack
        (a, n).
    count : int

    Returns
    -------
    (a, count) ndarray of float64
        Orthonormal columns; the entry of largest size in each is positive. They span the same space
        for every order of the parties if singular value ``count`` is larger than the next.
    (count,) ndarray of float64
        In descending order.

    Raises
    ------
    ValueError
        If more directions are asked for than the stack has rows or columns.
    """
    if count > min(stack.shape):
        raise ValueError(f"{count} directions asked for, there are {min(stack.shape)} at most")
    left, values = _from_gram(stack, count) or _from_qr(stack, count)
    largest = np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0)
    return left * np.where(largest < 0, -1.0, 1.0), values


def _from_gram(stack: Stack, count: int) -> tuple[Matrix64, Matrix64] | None:
    """Return the directions from the smaller Gram matrix, or None if it cannot tell them from the others."""
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
    return stack.times(vectors[:, :count] / values), values


def _from_qr(stack: Stack, count: int) -> tuple[Matrix64, Matrix64]:
    """Return the directions from a triangular factor, which is updated block by block."""
    is_wide = stack.shape[0] <= stack.shape[1]
    order = min(stack.shape)
    triangle = np.zeros((0, order))
    # every block factorises the triangle again, so blocks are few: each has twice its size
    for block in stack.by_columns(2 * order) if is_wide else stack.by_rows(2 * order):
        (triangle,) = linalg.qr(np.vstack([triangle, block.T if is_wide else block]), mode="r")
        triangle = triangle[:order]
    _, values, right = linalg.svd(triangle)
    if is_wide:
        return right[:count].T, values[:count]
    # the QR factorisation gives orthonormal vectors even for directions that nobody has
    directions, _ = linalg.qr(stack.times(right[:count].T), mode="economic")
    return directions, values[:count]


def fit_by_least_squares(anchor_rep: Matrix, target: Matrix) -> Matrix64:
    """Return ``G = A_i^+ Z``, the matrix of least norm that minimises ``||A_i G - Z||_F``.

    Parameters
    ----------
    anchor_rep : (a, l_i) ndarray
        float32 or float64. Not modified.
    target : (a, l) ndarray

    Returns
    -------
    (l_i, l) ndarray of float64
    """
    weights = whiten(anchor_rep)
    return np.asarray(weights @ ((anchor_rep @ weights).T @ target))


def whiten(rep: Matrix) -> Matrix64:
    """Return ``W`` such that ``A_i @ W`` is an orthonormal basis of the span of ``A_i``.

    Then ``W @ (A_i @ W).T = A_i^+``. If the Gram matrix of ``A_i`` is conditioned well enough, ``W`` is its
    inverse Cholesky factor, ``a l**2`` flops. Otherwise it comes from a singular value decomposition,
    without the singular values that may be rounding alone.

    Parameters
    ----------
    rep : (a, l_i) ndarray
        float32 or float64. Not modified.

    Returns
    -------
    (l_i, r) ndarray of float64
        ``r`` is the rank of ``A_i`` in the precision of its type: l_i unless the party lost a direction.
    """
    matrix = rep.astype(np.float64, copy=False)
    factor, failed = linalg.lapack.dpotrf(matrix.T @ matrix)
    if not failed:
        inverse, _ = linalg.lapack.dtrtri(factor)
        if np.linalg.norm(factor, 1) * np.linalg.norm(inverse, 1) < SAFE_CONDITION:
            return np.asarray(inverse)
    (triangle,) = linalg.qr(matrix, mode="r")
    _, values, right = linalg.svd(triangle[: rep.shape[1]], full_matrices=False)
    # rounding the entries moves singular values by at most eps / 2 of the Frobenius norm
    kept = values > np.finfo(rep.dtype).eps * max(rep.shape[1], 8) * values[0]
    return np.asarray(right[kept].T / values[kept])
