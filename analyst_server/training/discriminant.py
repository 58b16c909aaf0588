"""Quadratic discriminant: a normal distribution of each class, from sums by class.

The covariance of a class, of which there may be few rows, is drawn towards that of all classes [1]_. Against
a covariance without spread in some direction, the penalty of the ridge regression of the same sums is added
to its diagonal.

References
----------
.. [1] Friedman, Regularized Discriminant Analysis, J. Am. Stat. Assoc. 84 (1989) 165-175,
   doi:10.1080/01621459.1989.10478752.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline

from analyst_server.training import in_double
from analyst_server.training.from_sums import Matrix64, Moments, SumsRidge
from analyst_server.training.models import FittedModel, Labels, Model, unscaled
from analyst_server.training.tasks import Classes, Estimator, Matrix, MissingClassError

MOST_PENALTY: Final = 0.1
"""Of the mean variance of a feature, at most: generalised cross-validation judges a linear model, and would
choose an endless penalty where the classes differ in their spread alone."""
_NO_SPREAD: Final = 1e-12
"""A variance below this, relative to the largest, is what rounding leaves of none."""


class NormalClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator of scikit-learn that knows the normal distribution of each class.

    The parameters are those of `SumsDiscriminant`.
    """

    def __init__(self, pooled_share: float = 0.9, penalty: float | None = None) -> None:
        self.pooled_share = pooled_share
        self.penalty = penalty

    def fit(self, sums: Matrix64) -> NormalClasses:
        """Fit it on no rows, but on the sums of ``z z^T`` by class, ``z = (1, x)``, (k, 1 + d, 1 + d)."""
        counts, features = sums[:, 0, 0], sums.shape[1] - 1
        means = sums[:, 0, 1:] / counts[:, None]
        grams = sums[:, 1:, 1:] - counts[:, None, None] * means[:, :, None] * means[:, None, :]
        moments = Moments.of(of_all_classes(sums), features)
        penalty = moments.ridge(SumsRidge(penalty=self.penalty)).penalty
        if self.penalty is None:
            penalty = min(penalty, MOST_PENALTY * float(np.trace(moments.gram)) / features)
        pooled = (grams.sum(axis=0) + penalty * np.eye(features)) / counts.sum()
        own = grams / counts[:, None, None] + penalty / counts.sum() * np.eye(features)
        values, vectors = np.linalg.eigh((1 - self.pooled_share) * own + self.pooled_share * pooled)
        values = values.clip(_NO_SPREAD * values.max())
        self.classes_, self.n_features_in_ = np.arange(len(sums)), features
        self.means_ = means
        self.factors_ = vectors / np.sqrt(values)[:, None, :]
        self.offsets_ = np.log(counts / counts.sum()) - 0.5 * np.log(values).sum(axis=1)
        return self

    def predict_proba(self, rows: Matrix) -> Matrix64:
        """Return the probabilities of the classes, (n, k)."""
        logits = np.stack(
            [
                offset - 0.5 * np.square((rows - mean) @ factors).sum(axis=1)
                for mean, factors, offset in zip(self.means_, self.factors_, self.offsets_, strict=True)
            ],
            axis=1,
        )
        return np.asarray(softmax(logits, axis=1))

    def predict(self, rows: Matrix) -> Labels:
        """Return the likelier class of each row."""
        return np.asarray(self.predict_proba(rows).argmax(axis=1))


@dataclass(frozen=True)
class SumsDiscriminant(Model):
    """A normal distribution of the rows of each class, from their sums.

    Attributes
    ----------
    pooled_share : float
        How far the covariance of each class is drawn towards that of all; at 1 the model is linear.
    penalty : float, optional
        Of the ridge regression, as of `from_sums.SumsRidge`.
    """

    pooled_share: float = 0.9
    penalty: float | None = None

    def parameters(self, fitted: Estimator) -> int:
        """Return the numbers of all means, covariances and shares."""
        classes, features = np.shape(fitted.means_)
        return int(classes * (features * (features + 1) // 2 + features + 1))

    def prepare_export(self) -> None:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

        update_registered_converter(
            NormalClasses,
            "OdcNormalClasses",
            calculate_linear_classifier_output_shapes,
            _as_onnx,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )


def fit_by_class(model: SumsDiscriminant, sums: Matrix64) -> FittedModel:
    """Fit the model of the sums of ``z z^T`` by class, ``z = (1, phi)``, (k, 1 + d, 1 + d).

    Raises
    ------
    ValueError
        If a class has no row, or all rows are the same.
    """
    counts = sums[:, 0, 0]
    if missing := np.flatnonzero(counts < 0.5).tolist():
        raise MissingClassError(missing[0])
    estimator = NormalClasses(model.pooled_share, model.penalty).fit(sums)
    scaler = unscaled(np.zeros((1, sums.shape[1] - 1)))
    return FittedModel(
        model,
        (Pipeline([("scale", scaler), ("classify", estimator)]),),
        parameters=model.parameters(estimator),
        converged=True,
        task=Classes(len(sums)),
    )


def of_all_classes(sums: Matrix64) -> Matrix64:
    """Return the total of ``(1, phi, y) (1, phi, y)^T``, (p, p), that sums by class add up to."""
    classes, order = sums.shape[:2]
    total = np.zeros((order + classes, order + classes))
    total[:order, :order] = sums.sum(axis=0)
    total[order:, :order] = sums[:, 0]
    total[:order, order:] = sums[:, 0].T
    total[order:, order:] = np.diag(sums[:, 0, 0])
    return total


def _as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Convert `NormalClasses`; in 64-bit floats, because narrow distributions divide by small numbers."""
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxMatMul,
        OnnxMul,
        OnnxReduceSum,
        OnnxSub,
        OnnxTranspose,
        OnnxUnsqueeze,
    )

    fitted, version = operator.raw_operator, container.target_opset
    each = OnnxUnsqueeze(in_double.rows_in_double(operator, version), np.array([0]), op_version=version)
    moved = OnnxSub(each, fitted.means_[:, None, :], op_version=version)  # (k, n, d)
    scaled = OnnxMatMul(moved, fitted.factors_, op_version=version)
    squares = OnnxMul(scaled, scaled, op_version=version)
    lengths = OnnxReduceSum(squares, np.array([2]), keepdims=0, op_version=version)
    halves = OnnxMul(
        OnnxTranspose(lengths, perm=[1, 0], op_version=version), np.array([-0.5]), op_version=version
    )
    logits = OnnxAdd(halves, fitted.offsets_[None, :], op_version=version)
    in_double.answer_classes(logits, scope, operator, container)
