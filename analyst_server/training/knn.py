"""The nearest training rows, for classes and for numbers: a fitted model is those rows with their labels.

The neighbours of scikit-learn do not leave as ONNX with the same answers: where columns have few values, many
rows are equally far, any of them may be the k-th, and the answer jumps. Here the weight of a row falls to
nothing at the distance of the row after the k-th, so that it does not matter which of them comes in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from analyst_server.training.models import Classifier, Labels, Model
from analyst_server.training.tasks import Estimator, Matrix

GRID_BITS: Final = 16
"""Of the largest number. Rows that are no further apart count as one, or their distance would be rounding."""
LEAST_WEIGHT: Final = 1e-6
"""Of a neighbour, where the nearest has at most 1: no row is without neighbours."""
LEAST_REACH: Final = 1e-30
"""Square of the distance at which a weight ends, where there is only one row."""
BATCH_ROWS: Final = 512
"""Rows whose distances are in memory at once."""
SHARED_ROWS: Final = "shared_rows"
SHARED_TARGETS: Final = "shared_targets"
"""The names of the rows and of the sums of their targets in a file, so that a member can train on them."""


class _Neighbours(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What both have in common: the distinct training rows, with the sums of their targets.

    The answer for a row x is the mean of the targets with the weights ``1 - d^2 / D^2``, where d is the
    distance of a training row, and D that of the one after the k nearest [1]_.

    References
    ----------
    .. [1] Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 2nd edition,
           Eqs. (6.3) to (6.5).
    """

    def __init__(self, neighbours: int = 25) -> None:
        self.neighbours = neighbours

    def _keep(self, rows: Matrix, targets: Matrix) -> None:
        """Keep the distinct rows (u, l), the sums of their targets (u, k), and how often each came."""
        wide = np.asarray(rows, np.float64)
        _, exponent = math.frexp(max(float(np.abs(wide).max(initial=0)), 1e-30))
        step = 2.0 ** (exponent - GRID_BITS)
        distinct, place = np.unique(np.round(wide / step) * step, axis=0, return_inverse=True)
        sums = np.zeros((len(distinct), targets.shape[1] + 1))
        np.add.at(sums, place.ravel(), np.column_stack([targets, np.ones(len(targets))]))
        # 32-bit floats hold the grid exactly
        self.rows_, self.sums_ = distinct.astype(np.float32), sums.astype(np.float32)

    @property
    def taken(self) -> int:
        """Return how many rows are looked for: the neighbours, and the one after them if there is one."""
        return min(self.neighbours + 1, len(self.rows_))

    def _means(self, rows: Matrix) -> Matrix:
        """Return the weighted means of the targets, (n, k)."""
        parts = (rows[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS))
        return np.concatenate([self._means_of_few(np.asarray(part, np.float64)) for part in parts])

    def _means_of_few(self, rows: NDArray[np.float64]) -> Matrix:
        kept, sums = self.rows_.astype(np.float64), self.sums_.astype(np.float64)
        squares = (rows**2).sum(axis=1)[:, None] + (kept**2).sum(axis=1) - 2 * rows @ kept.T
        squares = np.maximum(squares, 0)
        nearest = np.argpartition(squares, self.taken - 1, axis=1)[:, : self.taken]
        found = np.take_along_axis(squares, nearest, axis=1)
        reach = np.maximum(found.max(axis=1, keepdims=True), LEAST_REACH)
        weights = np.maximum(1 - found / reach, LEAST_WEIGHT)
        weighed = (weights[:, :, None] * sums[nearest]).sum(axis=1)
        return np.asarray(weighed[:, :-1] / weighed[:, -1:])


class NeighboursClassifier(ClassifierMixin, _Neighbours):  # type: ignore[misc]  # scikit-learn ships no types
    """Shares of the classes among the neighbours, as an estimator of scikit-learn."""

    def fit(self, rows: Matrix, labels: Labels) -> NeighboursClassifier:
        """Fit it on rows that have every class from 0."""
        self.classes_ = np.unique(labels)
        self._keep(rows, np.eye(len(self.classes_))[labels])
        return self

    def predict_proba(self, rows: Matrix) -> Matrix:
        """Return the shares of the classes, (n, classes)."""
        return self._means(rows)

    def predict(self, rows: Matrix) -> Labels:
        """Return the class with the largest share."""
        return np.asarray(self.predict_proba(rows).argmax(axis=1))


class NeighboursRegressor(RegressorMixin, _Neighbours):  # type: ignore[misc]  # scikit-learn ships no types
    """The mean of the neighbours' numbers, as an estimator of scikit-learn."""

    def fit(self, rows: Matrix, numbers: Matrix) -> NeighboursRegressor:
        """Fit it on rows and numbers."""
        self._keep(rows, np.asarray(numbers, np.float64)[:, None])
        return self

    def predict(self, rows: Matrix) -> Matrix:
        """Return the numbers, (n,)."""
        return self._means(rows)[:, 0]


@dataclass(frozen=True)
class Knn(Model):
    """The nearest rows, with weights that fall with the distance.

    Attributes
    ----------
    neighbours : int
        How many rows an answer is the mean of: those nearer than the one after them.
    """

    carried_rows: ClassVar[str] = "it is its training rows, with their labels"

    neighbours: int = 25

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return NeighboursClassifier(self.neighbours)

    def regressor(self) -> Estimator:
        return NeighboursRegressor(self.neighbours)

    def parameters(self, fitted: Estimator) -> int:
        return int(fitted.rows_.size + fitted.sums_.size)

    def prepare_export(self) -> None:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import (
            calculate_linear_classifier_output_shapes,
            calculate_linear_regressor_output_shapes,
        )

        update_registered_converter(
            NeighboursClassifier,
            "OdcNeighbours",
            calculate_linear_classifier_output_shapes,
            _as_onnx,
            options={"zipmap": [True, False, "columns"], "nocl": [True, False]},
        )
        update_registered_converter(
            NeighboursRegressor,
            "OdcNeighboursOfNumbers",
            calculate_linear_regressor_output_shapes,
            _as_onnx,
        )


def _as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Convert what `_Neighbours` computes; in 64-bit floats, because it subtracts large squares."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import OnnxArgMax, OnnxCast, OnnxDiv, OnnxGather

    version = container.target_opset
    fitted = operator.raw_operator
    for name, values in ((SHARED_ROWS, fitted.rows_), (SHARED_TARGETS, fitted.sums_)):
        container.add_initializer(name, TensorProto.FLOAT, values.shape, values.ravel())
    weighed = _weighed_as_onnx(fitted, operator.inputs[0], version)
    targets = fitted.sums_.shape[1] - 1
    means = OnnxDiv(
        OnnxGather(weighed, np.arange(targets), axis=1, op_version=version),
        OnnxGather(weighed, np.array([targets]), axis=1, op_version=version),
        op_version=version,
    )
    *labels, answer = operator.outputs
    OnnxCast(means, to=TensorProto.FLOAT, op_version=version, output_names=[answer]).add_to(scope, container)
    if labels:
        found = OnnxArgMax(means, axis=1, keepdims=0, op_version=version, output_names=labels)
        found.add_to(scope, container)


def _weighed_as_onnx(fitted: _Neighbours, rows: Any, version: int) -> Any:
    """Return the node of the weighted sums of the targets and, last, of the weights, (n, k + 1)."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxCast,
        OnnxDiv,
        OnnxGather,
        OnnxMatMul,
        OnnxMax,
        OnnxMul,
        OnnxReduceMax,
        OnnxReduceSum,
        OnnxSub,
        OnnxTopK,
        OnnxTranspose,
        OnnxUnsqueeze,
    )

    def wide(given: Any) -> Any:
        return OnnxCast(given, to=TensorProto.DOUBLE, op_version=version)

    def at_least(given: Any, least: float) -> Any:
        return OnnxMax(given, np.array([least]), op_version=version)

    last, own, kept = np.array([1]), wide(rows), fitted.rows_.astype(np.float64)
    length = OnnxReduceSum(OnnxMul(own, own, op_version=version), last, op_version=version)
    across = OnnxTranspose(wide(SHARED_ROWS), perm=[1, 0], op_version=version)
    product = OnnxMatMul(OnnxMul(own, np.array([-2.0]), op_version=version), across, op_version=version)
    lengths = OnnxAdd(length, (kept**2).sum(axis=1)[None, :], op_version=version)
    squares = at_least(OnnxAdd(lengths, product, op_version=version), 0.0)
    nearest = OnnxTopK(squares, np.array([fitted.taken]), largest=0, op_version=version)
    farthest = OnnxReduceMax(nearest[0], last, op_version=version)
    share = OnnxDiv(nearest[0], at_least(farthest, LEAST_REACH), op_version=version)
    weights = at_least(OnnxSub(np.array([1.0]), share, op_version=version), LEAST_WEIGHT)
    sums = OnnxGather(wide(SHARED_TARGETS), nearest[1], axis=0, op_version=version)
    weighed = OnnxMul(OnnxUnsqueeze(weights, np.array([2]), op_version=version), sums, op_version=version)
    return OnnxReduceSum(weighed, last, keepdims=0, op_version=version)
