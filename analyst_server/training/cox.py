"""Cox's proportional hazards, for survival.

Kept libraries do not fit: scikit-survival is under the GPL, which a program that has to have it would take
on, and lifelines brings pandas and matplotlib to a server. Neither leaves as ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin

from analyst_server.training.models import Model
from analyst_server.training.tasks import AnyLabels, Estimator, Matrix

HIGHEST: Final = 80.0
"""Of a row's score, either way: beyond it the exponential is no 32-bit float, and the answer no number."""


class CoxRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator of scikit-learn whose predictions are survival probabilities at some times, (n, k).

    The weights w maximise the partial likelihood [1]_ of Breslow, less ``norm(w)^2 / (2 C)``; the baseline is
    Breslow's [2]_.

    References
    ----------
    .. [1] Cox, Regression models and life-tables, J. R. Stat. Soc. B 34 (1972) 187-220.
    .. [2] Breslow, in the discussion of [1]_.
    """

    def __init__(self, inverse_penalty: float = 1.0, times: Sequence[float] = (1.0,)) -> None:
        self.inverse_penalty = inverse_penalty
        self.times = times

    def fit(self, rows: Matrix, labels: AnyLabels) -> CoxRegression:
        """Fit it on scaled rows and times, which are negative without the event."""
        order = np.argsort(-np.abs(labels), kind="stable")
        ordered, times = np.asarray(rows[order], np.float64), np.abs(labels[order])
        event = labels[order] > 0
        # rows at risk when a row ends: all up to the last with its time
        last = np.searchsorted(-times, -times, side="right") - 1
        penalty = 1 / self.inverse_penalty

        def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            scores = ordered @ weights
            highest = float(scores.max(initial=0.0))  # keeps the exponentials finite
            hazards = np.exp(scores - highest)
            at_risk = np.cumsum(hazards)[last]
            value = np.sum(np.log(at_risk[event]) + highest - scores[event])
            slope = (hazards * _cumulative(event / at_risk, last) - event) @ ordered
            return float(value + penalty * (weights @ weights) / 2), slope + penalty * weights

        found = minimize(
            loss, np.zeros(ordered.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000}
        )
        self.coef_, self.converged_ = found.x, bool(found.success)
        steps = event / np.cumsum(np.exp(ordered @ self.coef_))[last]
        self.hazard_ = np.array([steps[times <= time].sum() for time in self.times])
        return self

    def predict(self, rows: Matrix) -> Matrix:
        """Return the probability that the event comes after each time, (n, k)."""
        risks = np.exp(np.clip(rows @ self.coef_, -HIGHEST, HIGHEST))
        return np.asarray(np.exp(-risks[:, None] * self.hazard_))


def _cumulative(steps: NDArray[np.float64], last: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each row the sum of the steps at its own time and at earlier ones; the latest come first."""
    first_of_its_time = np.searchsorted(last, last, side="left")
    return np.asarray(np.cumsum(steps[::-1])[::-1][first_of_its_time])


@dataclass(frozen=True)
class Cox(Model):
    """Proportional hazards with an L2 penalty.

    Attributes
    ----------
    inverse_penalty : float
        C.
    """

    inverse_penalty: float = 0.1

    def fitted_on_survival(self, rows: Matrix, labels: AnyLabels, times: Sequence[float]) -> Estimator:
        return CoxRegression(self.inverse_penalty, tuple(times)).fit(rows, labels)

    def parameters(self, fitted: Estimator) -> int:
        return int(fitted.coef_.size + fitted.hazard_.size)

    def has_converged(self, fitted: Estimator, *, warned: bool) -> bool:  # noqa: ARG002  # SciPy says it itself
        return bool(fitted.converged_)

    def prepare_export(self) -> None:
        from skl2onnx import update_registered_converter

        update_registered_converter(CoxRegression, "OdcCox", _shape_of, _as_onnx)


def _shape_of(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType

    operator.outputs[0].type = FloatTensorType([None, len(operator.raw_operator.times)])


def _as_onnx(scope: Any, operator: Any, container: Any) -> None:
    """Add exp(-hazard exp(X w))."""
    fitted, (out,) = operator.raw_operator, operator.outputs
    new = ("weights", "hazard", "lowest", "highest", "scores", "inside", "risks", "sums")
    names = {name: scope.get_unique_variable_name(name) for name in new}
    for name, values in (
        ("weights", fitted.coef_[:, None]),
        ("hazard", -fitted.hazard_[None, :]),
        ("lowest", np.array(-HIGHEST)),
        ("highest", np.array(HIGHEST)),
    ):
        container.add_initializer(names[name], 1, values.shape, values.ravel().tolist())  # 1: 32-bit floats
    for kind, inputs, output in (
        ("MatMul", [operator.inputs[0].full_name, names["weights"]], names["scores"]),
        ("Clip", [names["scores"], names["lowest"], names["highest"]], names["inside"]),
        ("Exp", [names["inside"]], names["risks"]),
        ("Mul", [names["risks"], names["hazard"]], names["sums"]),
        ("Exp", [names["sums"]], out.full_name),
    ):
        container.add_node(
            kind, inputs, output, name=scope.get_unique_operator_name(kind), op_version=container.target_opset
        )
