"""Sums as integers modulo 2^64: masks hide them, and totals are exact (docs/protocol.md, "Sums")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def to_fixed_point(matrices: NDArray[np.float64], exponent: int) -> NDArray[np.uint64]:
    """Return the upper triangle of a symmetric (p, p) matrix, row by row, as integers modulo 2^64.

    Of a stack of them, (k, p, p), it is one triangle after the other.
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles = matrices[..., rows, columns].ravel()
    return np.rint(np.ldexp(triangles, exponent)).astype(np.int64).view(np.uint64)


def from_fixed_point(total: NDArray[np.uint64], order: int, exponent: int) -> NDArray[np.float64]:
    """Return the symmetric (p, p) matrix of a total; the inverse of `to_fixed_point`, up to rounding."""
    matrix = np.zeros((order, order))
    matrix[np.triu_indices(order)] = np.ldexp(total.view(np.int64).astype(np.float64), -exponent)
    return np.asarray(matrix + np.triu(matrix, 1).T)


def by_class_from_fixed_point(
    total: NDArray[np.uint64], classes: int, order: int, exponent: int
) -> NDArray[np.float64]:
    """Return the stack of matrices of a total by class, (k, p, p)."""
    return np.stack([from_fixed_point(part, order, exponent) for part in total.reshape(classes, -1)])
