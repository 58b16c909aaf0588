"""How much of each row a projection hides: the risk if the analyst and one member collude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class ReductionRisk:
    """Quantiles over the rows of the share of a row that its projection loses (0 = nothing hidden)."""

    minimum: float
    first_percent: float
    median: float


@dataclass(frozen=True)
class ThresholdRisk:
    """Which latent dimensions would hide at least a chosen share of the rows."""

    threshold: float
    rows_below: int
    """How many rows keep less than the threshold hidden, as things are."""
    largest_latent_dim: int
    """With which every row keeps the threshold hidden; 0 if there is none. A smaller one hides more."""
    largest_latent_dim_for_99_percent: int
    """With which 99 of 100 rows do."""


def hidden_share(rows: Matrix64, secret_basis: Matrix64, *, seen: Matrix64 | None = None) -> Matrix64:
    """Return ``||x - x F F^+|| / ||x||`` for each row: the epsilon of epsilon-DR privacy.

    Analyst and one member together know ``F_i = A^+ A_i`` and with it ``x F F^+`` [1]_, but nothing
    of the rest.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    secret_basis : (m, l) ndarray of float64
        With orthonormal columns, so that ``F^+ = F.T``.
    seen : (n, m) ndarray of float64, optional
        The rows y as they were projected, where noise changed them: then ``||x - y F F^+|| / ||x||``.

    Returns
    -------
    (n,) ndarray of float64
        Between 0 and 1, with noise also above; a zero row counts as 0, it hides nothing.

    References
    ----------
    .. [1] Nosaka and Yoshise, Data Collaboration Analysis Over Matrix Manifolds, Definition 2.6.
    """
    lengths = np.linalg.norm(rows, axis=1)
    projected = (rows if seen is None else seen) @ secret_basis
    lost = np.linalg.norm(rows - projected @ secret_basis.T, axis=1)
    return np.asarray(np.divide(lost, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def reduction_risk(
    rows: Matrix64, secret_basis: Matrix64, *, seen: Matrix64 | None = None
) -> ReductionRisk | None:
    """Return the quantiles of `hidden_share`, or None if there are no rows."""
    if len(rows) == 0:
        return None
    shares = hidden_share(rows, secret_basis, seen=seen)
    low, middle = np.quantile(shares, [0.01, 0.5])
    return ReductionRisk(float(shares.min()), float(low), float(middle))


def rows_below(rows: Matrix64, axes: Matrix64, threshold: float) -> NDArray[np.int64]:
    """Return how many rows keep less than ``threshold`` hidden, for each latent dimension 1 to m.

    A basis spans the first l axes, so what it hides of a row is the length in all others: one product
    with the axes and a cumulative sum from the last, ``2 n m**2`` flops for all l together.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    axes : (m, m) ndarray of float64
        Orthonormal columns, in the order in which a larger basis takes them.
    threshold : float
        Between 0 and 1, compared with `hidden_share`.

    Returns
    -------
    (m,) ndarray of int64
        Never falling: every further dimension hides less.
    """
    counts = np.zeros(len(axes), dtype=np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        energy = np.square(rows[start : start + _ROWS_AT_ONCE] @ axes)
        left = np.cumsum(energy[:, ::-1], axis=1)[:, ::-1]  # column k: what the axes from k on hold
        hidden = np.concatenate([left[:, 1:], np.zeros((len(left), 1))], axis=1)
        counts += (hidden < threshold**2 * left[:, :1]).sum(axis=0)
        if threshold > 0:
            counts += (left[:, 0] == 0).sum()  # a zero row hides nothing
    return counts


def threshold_risk(
    rows: Matrix64, secret_basis: Matrix64, axes: Matrix64, threshold: float
) -> ThresholdRisk | None:
    """Return the risk at a threshold of epsilon-DR, or None if there are no rows."""
    if len(rows) == 0:
        return None
    below = rows_below(rows, axes, threshold)
    return ThresholdRisk(
        threshold=threshold,
        rows_below=int((hidden_share(rows, secret_basis) < threshold).sum()),
        largest_latent_dim=int(np.searchsorted(below, 0, side="right")),
        largest_latent_dim_for_99_percent=int(np.searchsorted(below, len(rows) // 100, side="right")),
    )
