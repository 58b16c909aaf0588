"""Least squares with an L2 penalty."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.linear_model import Ridge as SklearnRidge

from analyst_server.training.models import Model
from analyst_server.training.tasks import Estimator


@dataclass(frozen=True)
class Ridge(Model):
    """Ridge regression; of numbers only.

    Attributes
    ----------
    inverse_penalty : float
        C; the penalty is ``1 / (2 C)`` times the squared norm of the weights, beside half the squared errors.
    """

    inverse_penalty: float = 1.0

    def regressor(self) -> Estimator:
        return SklearnRidge(alpha=1 / self.inverse_penalty)

    def parameters(self, fitted: Estimator) -> int:
        return int(fitted.coef_.size + 1)
