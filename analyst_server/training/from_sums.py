"""Ridge regression from sums over rows that nobody has: exactly what the rows in one place would give.

Of classes, the regression is of one-hot labels. A Gaussian discriminant on its scores makes probabilities of
them: means and covariance of the scores follow from the same sums (penalised discriminant analysis [1]_).

A total with noise is no sum over any rows. The nearest one that could be takes its place, and a penalty as
large as the noise keeps the model away from the directions that noise has made (compare [2]_).

References
----------
.. [1] Hastie, Buja and Tibshirani, Penalized Discriminant Analysis, Annals of Statistics 23 (1995) 73-102,
   doi:10.1214/aos/1176324456.
.. [2] Wang, Revisiting differentially private linear regression, arXiv:1803.02596, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from analyst_server.training import in_double
from analyst_server.training.models import FittedModel, Model, unscaled
from analyst_server.training.tasks import Classes, Estimator, Matrix, MissingClassError, Task

PENALTIES: Final = np.geomspace(1e-6, 1e3, 37)
"""Multiples of the mean variance of a feature, among which generalised cross-validation chooses."""
LARGEST_LEVERAGE: Final = 0.95
LEAST_FREEDOM: Final = 0.5
"""Of the rows: so much freedom a chosen penalty leaves, because generalised cross-validation cannot tell
between fits that interpolate the rows."""
_NO_SPREAD: Final = 1e-10
"""Scores that vary by less than this, relative to the most, do not vary: totals are rounded."""
Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class SumsRidge(Model):
    """Ridge regression of a total.

    Attributes
    ----------
    penalty : float, optional
        As a multiple of the mean variance of a feature; None: generalised cross-validation chooses it, or the
        noise does.
    noise : float
        Standard deviation of the noise in each number of the total.
    clip : float
        The features of the total are those of rows divided by it.
    """

    penalty: float | None = None
    noise: float = 0.0
    clip: float = 1.0

    def parameters(self, fitted: Estimator) -> int:
        return int(np.size(fitted.coef_) + np.size(fitted.intercept_))

    def prepare_export(self) -> None:
        in_double.register()


@dataclass(frozen=True)
class Ridge:
    """A ridge regression.

    Attributes
    ----------
    weights : (d, k) ndarray
    penalty : float
        What was added to the diagonal of the Gram matrix.
    freedom : float
        Degrees of freedom of the weights.
    """

    weights: Matrix64
    penalty: float
    freedom: float


@dataclass(frozen=True)
class Moments:
    """A total, taken apart.

    Attributes
    ----------
    rows : int
    mean, gram : (d,) and (d, d) ndarray
        Of the features; ``gram`` is of the centred ones.
    target_means : (k,) ndarray
        Shares of the classes, or the mean of the numbers.
    cross, target_gram : (d, k) and (k, k) ndarray
        Of centred features and targets.
    """

    rows: int
    mean: Matrix64
    gram: Matrix64
    target_means: Matrix64
    cross: Matrix64
    target_gram: Matrix64

    @classmethod
    def of(cls, total: Matrix64, features: int) -> Moments:
        """Take apart the sum of ``z z^T``, ``z = (1, phi, y)``, of ``features`` features."""
        rows = total[0, 0]
        means = total[0, 1:] / rows
        centred = total[1:, 1:] - rows * np.outer(means, means)
        return cls(
            round(rows),
            means[:features],
            centred[:features, :features],
            means[features:],
            centred[:features, features:],
            centred[features:, features:],
        )

    def ridge(self, model: SumsRidge) -> Ridge:
        """Return the weights, and what they came from.

        Raises
        ------
        ValueError
            If all rows are the same.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values = values.clip(0)
        if not (unit := float(values.mean())):
            raise ValueError("training needs rows with different features")
        turned = vectors.T @ self.cross
        if model.penalty is not None:
            penalty = model.penalty * unit
        elif model.noise:  # half of what the largest eigenvalue of such noise alone comes to
            penalty = model.noise * np.sqrt(len(values))
        else:
            penalty = self._chosen_penalty(values, turned) * unit
        weights = vectors @ (turned / (values + penalty)[:, None])
        return Ridge(weights, float(penalty), float(np.sum(values / (values + penalty))))

    def _chosen_penalty(self, values: Matrix64, turned: Matrix64) -> float:
        """Return the penalty that generalised cross-validation prefers [1]_.

        References
        ----------
        .. [1] Golub, Heath and Wahba, Technometrics 21 (1979) 215-223, doi:10.1080/00401706.1979.10489751.
        """
        unit, energy = float(values.mean()), float(np.trace(self.target_gram))
        best, least = float(PENALTIES[-1]), np.inf
        for penalty in PENALTIES:
            weights = turned / (values + penalty * unit)[:, None]
            error = energy - 2 * np.sum(weights * turned) + np.sum(values[:, None] * weights**2)
            freedom = self.rows - 1 - np.sum(values / (values + penalty * unit))
            if freedom >= LEAST_FREEDOM * self.rows and (criterion := max(error, 0.0) / freedom**2) < least:
                best, least = float(penalty), criterion
        return best


def fit_total(model: SumsRidge, total: Matrix64, features: int, task: Task) -> FittedModel:
    """Fit the model of a total.

    Parameters
    ----------
    total : (p, p) ndarray
        The sum of ``z z^T`` over all rows, ``z = (1, phi, y)``.
    features : int
        d, the length of phi.
    task : Task
        Classes or numbers.

    Raises
    ------
    ValueError
        If a class has no row, or rows or labels are all the same.
    """
    moments = Moments.of(_without_noise(total) if model.noise else total, features)
    if not np.trace(moments.target_gram) > 0:
        raise ValueError("training needs rows with different labels")
    ridge = moments.ridge(model)
    if isinstance(task, Classes):
        estimator = _discriminant(moments, ridge, noise=model.noise)
    else:
        estimator = in_double.LinearNumbers()
        estimator.coef_ = ridge.weights[:, 0]
        estimator.intercept_ = float(moments.target_means[0] - moments.mean @ ridge.weights[:, 0])
    estimator.coef_ = estimator.coef_ / model.clip
    estimator.n_features_in_ = features
    scaler = unscaled(np.zeros((1, features)))
    return FittedModel(
        model,
        (Pipeline([("scale", scaler), ("classify", estimator)]),),
        parameters=model.parameters(estimator),
        converged=True,
        task=task,
    )


def _without_noise(total: Matrix64) -> Matrix64:
    """Return the nearest total that has no negative eigenvalue, as sums over rows have none.

    Raises
    ------
    ValueError
        If there is more noise than rows.
    """
    values, vectors = np.linalg.eigh(total)
    nearest = np.asarray((vectors * values.clip(0)) @ vectors.T)
    if nearest[0, 0] < 1:
        raise ValueError("the total is noise alone: it takes more rows, or a larger epsilon")
    return nearest


def _discriminant(moments: Moments, ridge: Ridge, *, noise: float) -> Estimator:
    """Return a Gaussian discriminant on the scores, whose logits are linear in the features.

    A row that trains has a hand in its own score. Without it the score would be ``(s - h y) / (1 - h)``, with
    the row's leverage h; as in generalised cross-validation the mean leverage stands for it. That of the
    intercept does not count: it would tell classes apart by 1 / n, which a large penalty, under which the
    scores vary by less, makes a certainty. Noise has a hand in all scores, along directions in which rows may
    have no spread; there the penalty stands for it.
    """
    classes, weights = len(moments.target_means), ridge.weights
    counts = moments.target_means * moments.rows
    if noise:
        counts = counts.clip(1)
    elif missing := np.flatnonzero(counts < 0.5).tolist():
        raise MissingClassError(missing[0])
    shares = counts / counts.sum()
    gram = moments.gram + (ridge.penalty if noise else 0.0) * np.eye(len(moments.gram))
    means = weights.T @ (moments.cross / counts)  # (k, classes): of the scores, by class
    spread = weights.T @ gram @ weights / moments.rows - (means * shares) @ means.T
    leverage = min(ridge.freedom / moments.rows, LARGEST_LEVERAGE)
    means = (means - leverage * (np.eye(classes) - shares[:, None])) / (1 - leverage)
    # the scores of a row add up to a constant, so that one direction of them has no spread
    free = _contrasts(classes)
    inside = free.T @ (spread / (1 - leverage) ** 2) @ free
    directions = free @ np.linalg.pinv(inside, rcond=_NO_SPREAD, hermitian=True) @ free.T @ means
    estimator = in_double.LinearClasses()
    estimator.classes_ = np.arange(classes)
    logits = weights @ directions
    offsets = np.log(shares) - 0.5 * np.sum(means * directions, axis=0) - moments.mean @ logits
    if classes == 2:  # scikit-learn has one logit then
        logits, offsets = logits[:, 1:] - logits[:, :1], offsets[1:] - offsets[:1]
    estimator.coef_, estimator.intercept_ = logits.T, offsets
    return estimator


def _contrasts(classes: int) -> Matrix64:
    """Return an orthonormal basis of the vectors that add up to 0, (classes, classes - 1)."""
    return np.linalg.svd(np.ones((1, classes)), full_matrices=True)[2][1:].T


def probe_rows(total: Matrix64, features: int) -> Matrix:
    """Return made-up rows for which the ONNX file has to say what the model says.

    They have the mean and the covariance of the real ones: far from these a linear model says anything.
    """
    moments = Moments.of(total, features)
    values, vectors = np.linalg.eigh(moments.gram / moments.rows)
    deviations = vectors * np.sqrt(values.clip(0))
    drawn = np.random.default_rng(0).standard_normal((256, features))
    return np.asarray(moments.mean + drawn @ deviations.T)
