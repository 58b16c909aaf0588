"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.linear_model import LogisticRegression

from analyst_server.training.models import Classifier, Labels, Weighable


@dataclass(frozen=True)
class Logistic(Weighable):
    """Multinomial logistic regression with an L2 penalty.

    Attributes
    ----------
    inverse_penalty : float
        C; the penalty is ``1 / (2 C)`` times the squared norm of the weights.
    epochs : int
        Upper bound of iterations.
    """

    inverse_penalty: float = 1.0
    epochs: int = 1000

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return LogisticRegression(C=self.inverse_penalty, max_iter=self.epochs)

    def parameters(self, fitted: Classifier) -> int:
        return int(fitted.coef_.size + fitted.intercept_.size)
