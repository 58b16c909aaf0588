"""How much of each row a projection hides: the risk if the analyst and one member collude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class ReductionRisk:
    """Quantiles over the rows of the share of a row that its projection loses (0 = nothing hidden)."""

    minimum: float
    first_percent: float
    median: float


def hidden_share(rows: Matrix64, secret_basis: Matrix64) -> Matrix64:
    """Return ``||x - x F F^+|| / ||x||`` for each row: the epsilon of epsilon-DR privacy.

    Analyst and one member together know ``F_i = A^+ A_i`` and with it ``x F F^+`` [1]_, but nothing
    of the rest.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    secret_basis : (m, l) ndarray of float64
        With orthonormal columns, so that ``F^+ = F.T``.

    Returns
    -------
    (n,) ndarray of float64
        Between 0 and 1; a zero row counts as 0, it hides nothing.

    References
    ----------
    .. [1] Nosaka and Yoshise, Data Collaboration Analysis Over Matrix Manifolds, Definition 2.6.
    """
    lengths = np.linalg.norm(rows, axis=1)
    lost = np.linalg.norm(rows - (rows @ secret_basis) @ secret_basis.T, axis=1)
    return np.asarray(np.divide(lost, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def reduction_risk(rows: Matrix64, secret_basis: Matrix64) -> ReductionRisk | None:
    """Return the quantiles of `hidden_share`, or None if there are no rows."""
    if len(rows) == 0:
        return None
    shares = hidden_share(rows, secret_basis)
    low, middle = np.quantile(shares, [0.01, 0.5])
    return ReductionRisk(float(shares.min()), float(low), float(middle))
