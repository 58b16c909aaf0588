"""How much of each row lies along the axes that are projected away (epsilon-DR).

It says how large the difference is between a row and what a colluding analyst and member get from the basis
alone. It does not bound what they find out: `information` does, and attacks on one's own rows show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.rows import Matrix64, Rows, blocks_of, sample_of

ROWS_AT_ONCE = 4096
_FEW_DIGITS: Final = 1e-4
"""Of a row's square, a difference of squares that is smaller has lost digits."""
MEASURED_ROWS: Final = 2**17
"""Of more rows, the quantiles are those of so many, drawn at random; the minimum is that of all rows. The
median is then off by no more than three thousandths of the rows, in 19 of 20 cases."""


@dataclass(frozen=True)
class ReductionRisk:
    """Quantiles, over the rows, of the share of a row that the projection drops (0: nothing)."""

    minimum: float
    first_percent: float
    median: float


@dataclass(frozen=True)
class ThresholdRisk:
    """Rows of which less than a chosen share is dropped, and the latent dimensions that would drop it."""

    threshold: float
    rows_below: int
    """Number of rows of which the present basis drops less than the threshold."""
    largest_latent_dim: int
    """Largest latent dimension at which at least the threshold of every row lies along the axes that are
    projected away; 0 if there is none."""
    largest_latent_dim_for_99_percent: int
    """The same for 99 of 100 rows."""


def hidden_share(rows: Matrix64, secret_basis: Matrix64, *, rep: Matrix64 | None = None) -> Matrix64:
    """Return ``||x - x F F^+|| / ||x||`` for each row: the epsilon of epsilon-DR privacy.

    The analyst and one member together know ``F_i = A^+ A_i``, and with it ``x F F^+`` [1]_. The rest
    is not safe from them: columns have few values, and often one row alone has this projection.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    secret_basis : (m, l) ndarray of float64
        With orthonormal columns, so that ``F^+ = F.T``.
    rep : (n, l) ndarray of float64, optional
        The projected rows x~ as they leave, if there is noise in them. The share is then
        ``||x - x~ F^+|| / ||x||``.

    Returns
    -------
    (n,) ndarray of float64
        Between 0 and 1, or above 1 with noise. It is 0 for a zero row, of which nothing can be dropped.

    References
    ----------
    .. [1] Nosaka and Yoshise, Data Collaboration Analysis Over Matrix Manifolds, Definition 2.6.
    """
    projected = rows @ secret_basis
    return hidden_shares(rows, projected, [projected if rep is None else rep], secret_basis)[0]


def _lost_share(
    rows: Matrix64, energy: Matrix64, projected: Matrix64, told: Matrix64, secret_basis: Matrix64
) -> Matrix64:
    """Return ``||x - x~ F^+|| / ||x||``; ``energy`` is ``||x||**2``, ``projected`` x F, and ``told`` x~."""
    # of x - x~ F^+ without a matrix as large as the rows
    lost = energy - 2 * np.einsum("ij,ij->i", projected, told) + _squared_lengths(told)
    few_digits = lost < _FEW_DIGITS * energy
    if few_digits.any():
        lost[few_digits] = np.square(rows[few_digits] - told[few_digits] @ secret_basis.T).sum(axis=1)
    return np.asarray(np.sqrt(np.divide(lost, energy, out=np.zeros_like(lost), where=energy > 0)))


def _squared_lengths(rows: Matrix64) -> Matrix64:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def reduction_risk(
    rows: Rows | Matrix64, secret_basis: Matrix64, *, rep: Rows | Matrix64 | None = None
) -> ReductionRisk | None:
    """Return the quantiles of `hidden_share`, or None if there are no rows.

    Of more than `MEASURED_ROWS` rows, those of a part of them. Rows and ``rep`` have the same blocks.
    """
    found = Shares(len(rows))
    projected = repeat(None) if rep is None else blocks_of(rep)
    for block, sent in zip(blocks_of(rows), projected, strict=False):
        found.add(hidden_share(block, secret_basis, rep=sent))
    return found.risk()


def hidden_shares(
    rows: Matrix64, projected: Matrix64, reps: Sequence[Matrix64], secret_basis: Matrix64
) -> list[Matrix64]:
    """Return `hidden_share` for each of several x~ of the same rows; ``projected`` is ``x F``."""
    energy = _squared_lengths(rows)
    return [_lost_share(rows, energy, projected, rep, secret_basis) for rep in reps]


class Shares:
    """What a projection drops of rows that come block by block."""

    def __init__(self, rows: int) -> None:
        """Take the shares of so many rows."""
        self._measured = sample_of(rows, MEASURED_ROWS, np.random.default_rng(0))
        self._kept = np.empty(len(self._measured))
        self._least, self._start = np.inf, 0

    def add(self, shares: Matrix64) -> None:
        self._least = min(self._least, float(shares.min()))
        first, last = np.searchsorted(self._measured, [self._start, self._start + len(shares)])
        self._kept[first:last] = shares[self._measured[first:last] - self._start]
        self._start += len(shares)

    def risk(self) -> ReductionRisk | None:
        """Return their quantiles, or None if there are none."""
        if not self._start:
            return None
        low, middle = np.quantile(self._kept, [0.01, 0.5], overwrite_input=True)
        return ReductionRisk(self._least, float(low), float(middle))


def rows_below(rows: Rows | Matrix64, axes: Matrix64, threshold: float) -> NDArray[np.int64]:
    """Return, for each latent dimension 1 to m, of how many rows less than ``threshold`` is dropped.

    A basis spans the first l axes, so it drops a row's components along all other axes. One product with
    the axes and a cumulative sum from the last one give every l at once, in ``2 n m**2`` flops.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    axes : (m, m) ndarray of float64
        Orthonormal columns, in the order in which a larger basis includes them.
    threshold : float
        Between 0 and 1, compared with `hidden_share`.

    Returns
    -------
    (m,) ndarray of int64
        Never decreasing.
    """
    counts = np.zeros(len(axes), dtype=np.int64)
    for part in _small_blocks(rows):
        energy = np.square(part @ axes)
        left = np.cumsum(energy[:, ::-1], axis=1)[:, ::-1]  # column k: energy along axis k and all later ones
        dropped = np.concatenate([left[:, 1:], np.zeros((len(left), 1))], axis=1)
        counts += (dropped < threshold**2 * left[:, :1]).sum(axis=0)
        if threshold > 0:
            counts += (left[:, 0] == 0).sum()  # of a zero row nothing is dropped
    return counts


def _small_blocks(rows: Rows | Matrix64) -> Iterator[Matrix64]:
    for block in blocks_of(rows):
        for start in range(0, len(block), ROWS_AT_ONCE):
            yield block[start : start + ROWS_AT_ONCE]


def threshold_risk(
    rows: Rows | Matrix64, secret_basis: Matrix64, axes: Matrix64, threshold: float
) -> ThresholdRisk | None:
    """Return the risk at a threshold of epsilon-DR privacy, or None if there are no rows."""
    if len(rows) == 0:
        return None
    below = rows_below(rows, axes, threshold)
    return ThresholdRisk(
        threshold=threshold,
        rows_below=sum(
            int((hidden_share(block, secret_basis) < threshold).sum()) for block in blocks_of(rows)
        ),
        largest_latent_dim=int(np.searchsorted(below, 0, side="right")),
        largest_latent_dim_for_99_percent=int(np.searchsorted(below, len(rows) // 100, side="right")),
    )
