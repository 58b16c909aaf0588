"""How much of what a party's rows say about the label survives the projection, from its own rows alone.

The measure is a ridge regression of the classes on the rows, before and after: it needs no analyst and no
other institution, and a few passes over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.scores import roc_auc
from user_client.secret.basis import principal_axes
from user_client.secret.expansion import Matrix64

PENALTIES: Final = np.geomspace(1e-4, 1e3, 15)
"""Multiples of the mean variance of a feature, among which generalised cross-validation chooses."""
FEWEST_OF_A_CLASS: Final = 5
"""With fewer rows of each of two classes, a score says nothing."""
FAINT_AUC: Final = 0.55
"""A score below this ROC-AUC has nothing that a projection could keep."""


@dataclass(frozen=True)
class Signal:
    """What a party's own score of its rows keeps of itself in the projection.

    Attributes
    ----------
    kept : float
        R^2 of the score of ``X_i F_i F_i^T`` for the same score of ``X_i``, over all classes together: 1 if
        nothing is lost.
    auc, projected_auc : float
        ROC-AUC of scores fitted on ``X_i`` and on ``X_i F_i``, each row scored without itself; the mean over
        the classes.
    """

    kept: float
    auc: float
    projected_auc: float


@dataclass(frozen=True)
class _Ridge:
    """A ridge regression of centred targets on centred rows: ``G w = c`` with the Gram matrix of the rows."""

    gram: Matrix64
    cross: Matrix64
    target_energy: float
    rows: int

    def within(self, basis: Matrix64) -> _Ridge:
        """Return the regression on the rows' coordinates in a basis."""
        return _Ridge(basis.T @ self.gram @ basis, basis.T @ self.cross, self.target_energy, self.rows)

    def solve(self) -> tuple[Matrix64, Matrix64]:
        """Return the weights, and ``(G + penalty I)^-1``; generalised cross-validation finds the penalty."""
        values, vectors = np.linalg.eigh(self.gram)
        values = values.clip(0)
        turned = vectors.T @ self.cross
        unit = float(values.mean()) or 1.0
        chosen, least = float(PENALTIES[-1] * unit), np.inf
        for penalty in PENALTIES * unit:
            weights = turned / (values + penalty)[:, None]
            error = self.target_energy - 2 * np.sum(weights * turned) + np.sum(values[:, None] * weights**2)
            freedom = self.rows - 1 - np.sum(values / (values + penalty))
            if freedom > 0 and (criterion := error / freedom**2) < least:
                chosen, least = float(penalty), criterion
        inverse = (vectors / (values + chosen)) @ vectors.T
        return inverse @ self.cross, inverse

    def energy(self, weights: Matrix64) -> float:
        """Return the sum of squares of the scores that weights give."""
        return float(np.sum(weights * (self.gram @ weights)))

    def kept(self, weights: Matrix64, others: Matrix64) -> float:
        """Return R^2 of the scores of other weights for those of the weights."""
        energy = self.energy(weights)
        return 1.0 if energy == 0 else 1 - self.energy(weights - others) / energy


@dataclass(frozen=True)
class _Score:
    """A party's own score of its rows: ``X w``, centred."""

    ridge: _Ridge
    weights: Matrix64
    targets: Matrix64
    auc: float


def signal_kept(rows: Matrix64, labels: NDArray[Any], basis: Matrix64) -> Signal | None:
    """Return what the projection on a basis keeps of the party's own score.

    Measured with the leading principal axes, it also says how much of the score the other institutions are
    likely to share: what lies along axes of little variance is kept by those alone who ask for it.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
    labels : (n,) ndarray of int
    basis : (m, l) ndarray of float64
        With orthonormal columns.

    Returns
    -------
    Signal or None
        None if the rows are of one class, or too few, or say too little about the label.
    """
    score = _own_score(rows, labels)
    if score is None:
        return None
    within = score.ridge.within(basis)
    projected, inverse = within.solve()
    return Signal(
        score.ridge.kept(score.weights, basis @ (basis.T @ score.weights)),
        score.auc,
        _mean_auc((rows - rows.mean(axis=0)) @ basis, score.targets, projected, inverse),
    )


def dimensions_for(rows: Matrix64, labels: NDArray[Any], least: float) -> int | None:
    """Return the fewest leading principal axes of the rows that keep ``least`` of the party's own score.

    None if the rows are of one class, or too few, or say too little about the label.
    """
    singular_values, axes = principal_axes(rows)
    axes = axes[:, : int(np.sum(singular_values > 1e-7 * singular_values[0]))] if len(rows) else axes
    score = _own_score(rows @ axes, labels)
    if score is None:
        return None
    for count in range(1, len(score.weights)):
        leading = np.where(np.arange(len(score.weights))[:, None] < count, score.weights, 0)
        if score.ridge.kept(score.weights, leading) >= least:
            return count
    return len(score.weights)


def dimensions_of_variance(rows: Matrix64, share: float) -> int:
    """Return the fewest leading principal axes that hold a share of the rows' squares.

    For a table that cannot tell what its label needs. Where it can, the label is the better guide: it may
    follow what varies least.
    """
    energies = principal_axes(rows)[0] ** 2
    held = np.cumsum(energies) / max(float(energies.sum()), np.finfo(np.float64).tiny)
    return min(int(np.searchsorted(held, share)) + 1, int(rows.shape[1]))


def score_directions(rows: Matrix64, labels: NDArray[Any], most: int) -> Matrix64:
    """Return an orthonormal basis of the directions along which the party's own score changes.

    A basis F_i that contains them keeps the score, whatever the variance of the rows along them.

    Parameters
    ----------
    most : int
        Largest number of directions; the first are those that the score depends on most.

    Returns
    -------
    (m, d) ndarray of float64
        d is one less than the number of classes with enough rows, or ``most``; 0 if there is no such score.
    """
    score = _own_score(rows, labels)
    if score is None:
        return np.zeros((rows.shape[1], 0))
    directions, sizes, _ = np.linalg.svd(score.weights, full_matrices=False)
    count = int(np.sum(sizes > 1e-6 * sizes[0]))
    return np.asarray(directions[:, : min(count, most)])


def _own_score(rows: Matrix64, labels: NDArray[Any]) -> _Score | None:
    """Return the regression of the classes on the rows; None if the rows cannot tell a score from chance."""
    targets = _targets(labels)
    if targets is None:
        return None
    rows = rows - rows.mean(axis=0)
    targets -= targets.mean(axis=0)
    ridge = _Ridge(rows.T @ rows, rows.T @ targets, float(np.square(targets).sum()), len(rows))
    weights, inverse = ridge.solve()
    auc = _mean_auc(rows, targets, weights, inverse)
    return None if auc < FAINT_AUC else _Score(ridge, weights, targets, auc)


def _targets(labels: NDArray[Any]) -> Matrix64 | None:
    """Return one 0/1 column for each class that has enough rows; None if these are not two."""
    classes, counts = np.unique(labels, return_counts=True)
    kept = classes[counts >= FEWEST_OF_A_CLASS]
    return None if len(kept) < 2 else (labels[:, None] == kept).astype(np.float64)


def _mean_auc(rows: Matrix64, targets: Matrix64, weights: Matrix64, inverse: Matrix64) -> float:
    """Return the ROC-AUC of the scores that each row gets from a fit without it, with the same penalty."""
    # without the share of the mean: a row left out of the mean would be told apart by that alone
    leverage = np.einsum("ij,ij->i", rows @ inverse, rows)
    scores = rows @ weights
    left_out = targets - (targets - scores) / np.maximum(1 - leverage, 1e-9)[:, None]
    found = [roc_auc(score, target > 0) for score, target in zip(left_out.T, targets.T, strict=True)]
    return float(np.mean([auc for auc in found if auc is not None]))
