"""The secret basis F_i of one institution."""

from __future__ import annotations

import numpy as np

from user_client.rows import Rows
from user_client.secret.expansion import ByteSource, Matrix64, haar, uniform


def principal_axes(rows: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return the singular values of the rows in descending order, and all their right singular vectors.

    For many rows they come from the m x m Gram matrix, which gives orthonormal vectors whatever the rank.
    Singular values below 1e-8 of the largest are then meaningless, because they are square roots of its
    eigenvalues.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Not centred. Not modified.

    Returns
    -------
    singular_values : (m,) ndarray of float64
    axes : (m, m) ndarray of float64
        The right singular vectors as columns.
    """
    count, features = rows.shape
    if 0 < 2 * count < features:  # several times faster than the Gram matrix, and more accurate
        _, few, vectors = np.linalg.svd(rows, full_matrices=True)
        return np.concatenate([few, np.zeros(features - count)]), vectors.T
    return axes_of(rows.T @ rows)


def axes_of(gram: Matrix64) -> tuple[Matrix64, Matrix64]:
    """Return what `principal_axes` does, from the sums ``X.T @ X`` over the rows, (m, m)."""
    energies, vectors = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(energies[::-1], 0)), vectors[:, ::-1]


def perturbed(rows: Matrix64, strength: float, source: ByteSource) -> Matrix64:
    """Return ``X + delta E`` with the entries of E uniform in [-1, 1], to draw a basis from [1]_.

    E is stored nowhere, so nobody can compute the basis again from the rows.

    References
    ----------
    .. [1] Nosaka and Yoshise, Data Collaboration Analysis Over Matrix Manifolds, Algorithm 1, steps 3 and 4.
    """
    return np.asarray(rows + strength * (2 * uniform(source, rows.size).reshape(rows.shape) - 1))


def draw_secret_basis(
    rows: Matrix64 | Rows,
    latent_dim: int,
    source: ByteSource,
    *,
    axes: Matrix64 | None = None,
    include: Matrix64 | None = None,
) -> Matrix64:
    """Return a randomly rotated orthonormal basis of the space that fits the party's rows best.

    ``F_i = V_i E_i`` with the top-l right singular vectors ``V_i`` of the encoded rows and a Haar
    orthogonal ``E_i`` [1]_. Directions to include take the place of the last singular vectors. The columns
    are orthonormal even if the party has fewer rows than l. A party without rows gets random directions.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        The encoded table X_i. Not modified; not read if the axes are given.
    latent_dim : int
        l, at most m.
    source : callable
        Returns secret bytes, from a fresh key stream that is stored nowhere.
    axes : (m, m) ndarray of float64, optional
        The `principal_axes` of the rows, if the caller has computed them already.
    include : (m, d) ndarray of float64, optional
        Directions with orthonormal columns that the basis contains; d is at most l.

    Returns
    -------
    (m, l) ndarray of float64
        With ``F.T @ F = I`` up to rounding.

    Raises
    ------
    ValueError
        If l is not between 1 and m.

    References
    ----------
    .. [1] Nosaka, Takano, Yoshise, arXiv:2403.02780v5, Eq. (1).
    """
    features = rows.shape[1]
    if not 1 <= latent_dim <= features:
        raise ValueError(f"latent dimension must lie between 1 and {features}, got {latent_dim}")
    turn = haar(source, latent_dim)
    if len(rows) == 0:
        return haar(source, features)[:, :latent_dim]
    if axes is None:
        _, axes = principal_axes(np.asarray(rows))
    chosen = axes[:, :latent_dim]
    if include is not None and include.shape[1]:
        chosen = np.linalg.qr(np.hstack([include, chosen]))[0][:, :latent_dim]
    return np.asarray(chosen @ turn)
