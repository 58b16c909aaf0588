"""What a party's own rows say about the label, and how much of that lies along their leading axes.

The measure is a ridge regression of the classes, labels or numbers on the rows, and where these curve, on
squares and products along a few directions as well. It needs neither the analyst nor anybody else's rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from user_client.rows import Rows, blocks_of
from user_client.scores import c_index, concordance, roc_auc
from user_client.secret.expansion import Matrix64
from user_client.secret.hessian import curved_weights, hessian_directions, products
from user_client.secret.targets import Targets

PENALTIES: Final = np.geomspace(1e-4, 1e3, 15)
"""Multiples of the mean variance of a feature, among which generalised cross-validation chooses."""
FAINT_AUC: Final = 0.55
"""A score below this ROC-AUC, or concordance, cannot be told from chance."""
CHANCE_DEVIATIONS: Final = 3.0
"""Nor can one of survival that is less than so many standard deviations above a half.

With d events among many more rows, the concordance of scores that owe nothing to the rows has a standard
deviation of 1 / sqrt(12 d) (Mann and Whitney). Left-out scores owe something to each other, and vary up to
twice as much: of tables of noise with 200 to 1000 rows, 5 to 50 % of them with the event, 2 % pass this.
"""


CLEAR_AUC: Final = 0.97
"""A regression with such a score leaves too little of the label to look for curves in."""


@dataclass(frozen=True)
class Signal:
    """How much of a party's own score lies along some axes.

    Attributes
    ----------
    kept : float
        R^2 of the score of the rows projected on the axes for the same score of the rows, over all classes
        together: 1 if nothing is lost.
    auc, projected_auc : float
        ROC-AUC of a score fitted on the rows and of one fitted on their coordinates along the axes, each row
        scored without itself; the mean over the classes. For numbers, the concordance in its place, and for
        survival Harrell's.
    measure : {"roc_auc", "concordance"}
        Which of them these are.
    curves : int
        Along how many directions the label curves, whose squares and products are part of the score.
    """

    kept: float
    auc: float
    projected_auc: float
    measure: Literal["roc_auc", "concordance"] = "roc_auc"
    curves: int = 0


@dataclass(frozen=True)
class Moments:
    """Sums over rows, and over what a score of them is to tell.

    Attributes
    ----------
    rows : int
    row_sum : (m,) ndarray
    target_sum : (k,) ndarray
    gram : (m, m) ndarray
        ``X.T @ X``, neither centred.
    cross : (m, k) ndarray
        ``X.T @ Y``.
    target_energy : float
        Sum of the squares of Y.
    """

    rows: int
    row_sum: Matrix64
    target_sum: Matrix64
    gram: Matrix64
    cross: Matrix64
    target_energy: float

    @classmethod
    def of(cls, rows: Rows | Matrix64, targets: Targets | None) -> Moments:
        """Return the sums over rows, (n, m), read once, in blocks; without targets k is 0."""
        features, outputs = rows.shape[1], targets.count if targets else 0
        row_sum, target_sum = np.zeros(features), np.zeros(outputs)
        gram, cross, energy = np.zeros((features, features)), np.zeros((features, outputs)), 0.0
        start = 0
        for block in blocks_of(rows):
            row_sum += block.sum(axis=0)
            gram += block.T @ block
            if targets:
                told = targets.between(start, start + len(block))
                target_sum += told.sum(axis=0)
                cross += block.T @ told
                energy += float(np.square(told).sum())
            start += len(block)
        return cls(start, row_sum, target_sum, gram, cross, energy)

    def ridge(self) -> Ridge:
        """Return the regression of the targets on the rows, both centred."""
        row_mean, target_mean = self.row_sum / self.rows, self.target_sum / self.rows
        return Ridge(
            self.gram - self.rows * np.outer(row_mean, row_mean),
            self.cross - self.rows * np.outer(row_mean, target_mean),
            self.target_energy - self.rows * float(np.square(target_mean).sum()),
            self.rows,
        )


@dataclass(frozen=True)
class Ridge:
    """A ridge regression of centred targets on centred rows, from their sums.

    Attributes
    ----------
    gram : (m, m) ndarray
        ``X.T @ X``.
    cross : (m, k) ndarray
        ``X.T @ Y``.
    target_energy : float
        Sum of the squares of Y.
    rows : int
    """

    gram: Matrix64
    cross: Matrix64
    target_energy: float
    rows: int

    def solve(self) -> tuple[Matrix64, Matrix64]:
        """Return the weights, (m, k), and ``(X.T @ X + penalty I)^-1``, (m, m).

        The penalty is the one of `PENALTIES` that generalised cross-validation [1]_ prefers.

        References
        ----------
        .. [1] Golub, Heath and Wahba, Technometrics 21 (1979) 215-223, doi:10.1080/00401706.1979.10489751.
        """
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


@dataclass(frozen=True, repr=False)
class OwnScore:
    """A party's own score of its rows: ``X w``, by a ridge regression of the classes, or of the numbers.

    Where the label curves along some directions, squares and products along these are part of the score.

    Attributes
    ----------
    regression : Ridge
        Of all rows, in the coordinates of ``frame``.
    frame : (m, r) ndarray, optional
        An orthonormal basis of the rows' span, where there are fewer rows than features; otherwise the
        coordinates are the features.
    weights : (r, k) or (r, k + q) ndarray
        Of the regression, and behind these what varies as the score of squares and products does.
    curves : (r, q) ndarray
        The directions of these; q is 0 where the label does not curve.
    rows : (s, r) ndarray
        The centred rows on which the score is measured: all, or some of them.
    targets : (s, k) ndarray
        Of these rows; centred.
    times : (s,) ndarray, optional
        Of survival, as in `Targets`.
    auc, measure : float, str
        As in `Signal`.
    """

    regression: Ridge
    frame: Matrix64 | None
    weights: Matrix64
    curves: Matrix64
    rows: Matrix64
    targets: Matrix64
    times: NDArray[Any] | None
    auc: float
    measure: Literal["roc_auc", "concordance"]

    def __repr__(self) -> str:
        return f"<OwnScore of {self.regression.rows} rows>"

    def missing_from(self, axes: Matrix64, latent_dim: int, least: float) -> Matrix64:
        """Return the directions that a basis of leading axes needs to keep the score.

        Each direction takes the place of one axis: the basis of l dimensions holds d directions and the first
        l - d axes. The directions are those along which what these axes lose of the score varies most over
        the rows. There is one at least, and no more than are needed.

        Parameters
        ----------
        axes : (m, m) ndarray of float64
            Orthonormal columns, the leading ones first.
        latent_dim : int
            l, at most m.
        least : float
            R^2 of the score in that basis for the score of the rows, over all classes together.

        Returns
        -------
        (m, d) ndarray of float64
            Orthonormal columns. d is at most the number of directions along which the score changes at all,
            which is one less than the classes with enough rows, or as many as such labels. With curves it is
            at most half of l: by what the spans of the institutions share, they are known to be honest.
        """
        weights = self._in_features(self.weights)
        most = min(self._changing(), latent_dim)
        if self.curves.shape[
            1
        ]:  # institutions with few rows may not find them: their bases are of axes alone
            most = min(most, max(latent_dim // 2, 1))
        for count in range(1, most + 1):
            leading = axes[:, : latent_dim - count]
            lost = weights - leading @ (leading.T @ weights)
            energies, mixes = np.linalg.eigh(self._products(self._in_frame(lost)))
            still_lost = float(np.abs(energies[::-1][count:]).sum())
            if count == most or still_lost <= (1 - least) * float(np.trace(self._products(self.weights))):
                break
        return np.linalg.qr(lost @ mixes[:, ::-1][:, :count])[0]

    def _changing(self) -> int:
        """Return along how many directions the score changes."""
        sizes = np.linalg.svd(self.weights, compute_uv=False)
        return int(np.sum(sizes > 1e-6 * sizes[0]))

    def along(self, axes: Matrix64) -> Signal:
        """Return how much of the score lies along some axes: orthonormal columns, (m, l)."""
        inside = self._in_frame(axes)
        lost = self.weights - inside @ (axes.T @ self._in_features(self.weights))
        return Signal(
            1 - float(np.trace(self._products(lost)) / np.trace(self._products(self.weights))),
            self.auc,
            self._quality_along(inside),
            self.measure,
            self.curves.shape[1],
        )

    def _quality_along(self, inside: Matrix64) -> float:
        """Return how good a score of the rows' coordinates along some axes is."""
        coordinates = self.rows @ inside
        if self.curves.shape[1]:
            features = np.hstack([coordinates, products(coordinates, inside.T @ self.curves)])
            return _fitted(features, self.targets, self.measure, self.times)[0]
        whole = self.regression
        along = Ridge(inside.T @ whole.gram @ inside, inside.T @ whole.cross, whole.target_energy, whole.rows)
        return _quality(coordinates, self.targets, *along.solve(), self.measure, self.times)

    def dimensions(self, axes: Matrix64, least: float) -> int:
        """Return how many of the first axes, orthonormal columns (m, m), keep ``least`` of the score."""
        shares = axes.T @ self._in_features(self.weights)
        # the score is the sum over the axes of their shares in it; [j, k] is the product of two of these sums
        products = self._products(self._in_frame(axes)) * (shares @ shares.T)
        lost = products[::-1, ::-1].cumsum(axis=0).cumsum(axis=1).diagonal()[::-1]  # without the first j axes
        enough = lost[1:] <= (1 - least) * lost[0]
        return int(enough.argmax()) + 1 if enough.any() else axes.shape[1]

    def _products(self, columns: Matrix64) -> Matrix64:
        """Return the products, over all rows, of what they are along some columns in coordinates, (r, d)."""
        return columns.T @ self.regression.gram @ columns

    def _in_frame(self, columns: Matrix64) -> Matrix64:
        return columns if self.frame is None else self.frame.T @ columns

    def _in_features(self, columns: Matrix64) -> Matrix64:
        return columns if self.frame is None else self.frame @ columns


def score_of(rows: Matrix64, targets: Targets | None) -> OwnScore | None:
    """Fit a party's own score to rows that are in memory.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Not modified.
    targets : Targets, optional
        Of these rows.

    Returns
    -------
    OwnScore or None
        None if the rows are of one class, or too few, or cannot tell the score from chance.
    """
    if targets is None:
        return None
    if len(rows) < rows.shape[1]:
        return _of_few(rows, targets)
    return score_from(Moments.of(rows, targets), targets, rows, np.arange(len(rows)))


def score_from(
    moments: Moments, targets: Targets, rows: Matrix64, numbers: NDArray[np.int64]
) -> OwnScore | None:
    """Fit a party's own score to sums over all rows, no fewer than features, and measure it on some of them.

    Parameters
    ----------
    rows : (s, m) ndarray of float64
        Not modified.
    numbers : (s,) ndarray of int
        Which these are, in the order of the targets.

    Returns
    -------
    OwnScore or None
        As `score_of`.
    """
    centred = rows - moments.row_sum / moments.rows
    told = targets.take(numbers) - moments.target_sum / moments.rows
    return _solved(moments.ridge(), None, centred, told, targets, numbers)


def _of_few(rows: Matrix64, targets: Targets) -> OwnScore | None:
    """Fit the score of fewer rows than features, in coordinates of their span: fewer numbers than (m, m)."""
    told = targets.between(0, len(rows))
    told -= told.mean(axis=0)
    centred = rows - rows.mean(axis=0)
    frame = np.linalg.svd(centred, full_matrices=False)[2].T
    centred = centred @ frame
    energy = float(np.square(told).sum())
    regression = Ridge(centred.T @ centred, centred.T @ told, energy, len(rows))
    return _solved(regression, frame, centred, told, targets, np.arange(len(rows)))


def _solved(
    regression: Ridge,
    frame: Matrix64 | None,
    centred: Matrix64,
    told: Matrix64,
    targets: Targets,
    numbers: NDArray[np.int64],
) -> OwnScore | None:
    """Return the score of a regression, measured on centred rows; None if that cannot be told from chance."""
    is_number = targets.labels.dtype.kind == "f"
    times = None if targets.times is None else targets.times[numbers]
    measure: Literal["roc_auc", "concordance"] = "concordance" if is_number else "roc_auc"
    weights, inverse = regression.solve()
    auc = _quality(centred, told, weights, inverse, measure, times)
    curves = _curves(centred, told, told - centred @ weights, measure, times) if auc < CLEAR_AUC else None
    if curves is None:
        curves = np.zeros((centred.shape[1], 0))
    else:
        features = np.hstack([centred, products(centred, curves)])
        auc, of_both = _fitted(features, told, measure, times)
        curved = curved_weights(centred, curves, of_both[centred.shape[1] :])
        weights = np.hstack([weights, curved])
    if auc < _least_auc(times):
        return None
    return OwnScore(regression, frame, weights, curves, centred, told, times, auc, measure)


def _curves(
    centred: Matrix64,
    told: Matrix64,
    residuals: Matrix64,
    measure: Literal["roc_auc", "concordance"],
    times: NDArray[Any] | None,
) -> Matrix64 | None:
    """Return the directions along which the label curves, if a score is better with them."""

    def quality(features: Matrix64, numbers: NDArray[np.int64]) -> float:
        return _fitted(features, told[numbers], measure, None if times is None else times[numbers])[0]

    return hessian_directions(centred, residuals, quality)


def _fitted(
    features: Matrix64,
    told: Matrix64,
    measure: Literal["roc_auc", "concordance"],
    times: NDArray[Any] | None,
) -> tuple[float, Matrix64]:
    """Return how good a regression on features is, each row scored without itself, and its weights."""
    features, targets = features - features.mean(axis=0), told - told.mean(axis=0)
    energy = float(np.square(targets).sum())
    weights, inverse = Ridge(features.T @ features, features.T @ targets, energy, len(features)).solve()
    return _quality(features, targets, weights, inverse, measure, times), weights


def _least_auc(times: NDArray[Any] | None) -> float:
    """Return the score from which on chance is ruled out."""
    if times is None:
        return FAINT_AUC
    events = max(int(np.count_nonzero(times > 0)), 1)
    return max(FAINT_AUC, 0.5 + CHANCE_DEVIATIONS / math.sqrt(12 * events))


def dimensions_of_variance(singular_values: Matrix64, share: float) -> int:
    """Return how many of the leading principal axes hold a share of the rows' squares.

    For a table that cannot tell what its label needs. Where it can, the label is the better guide: it may
    follow what varies least.
    """
    energies = singular_values**2
    held = np.cumsum(energies) / max(float(energies.sum()), np.finfo(np.float64).tiny)
    return min(int(np.searchsorted(held, share)) + 1, len(held))


def _quality(
    rows: Matrix64,
    targets: Matrix64,
    weights: Matrix64,
    inverse: Matrix64,
    measure: Literal["roc_auc", "concordance"],
    times: NDArray[Any] | None,
) -> float:
    """Return how good the scores are that each row gets from a fit without it, with the same penalty."""
    # without the share of the mean: a row left out of the mean would be told apart by that alone
    leverage = np.einsum("ij,ij->i", rows @ inverse, rows)
    scores = rows @ weights
    left_out = targets - (targets - scores) / np.maximum(1 - leverage, 1e-9)[:, None]
    pairs = zip(left_out.T, targets.T, strict=True)
    if times is not None:
        found = [
            c_index(times, -score) for score in left_out.T
        ]  # a residual is large where the event is early
    elif measure == "concordance":
        found = [concordance(score, target) for score, target in pairs]
    else:
        found = [roc_auc(score, target > 0) for score, target in pairs]
    known = [auc for auc in found if auc is not None]
    return float(np.mean(known)) if known else 0.5
