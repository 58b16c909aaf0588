"""The mean of a regularised logistic regression and a short, regularised network: the default model."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.ensemble import VotingClassifier

from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Classifier, Labels, Model


@dataclass(frozen=True)
class Averaged(Model):
    """Both are fitted on all rows, and their probabilities are averaged.

    Attributes
    ----------
    inverse_penalty : float
        C of the logistic regression.
    hidden_units, learning_rate, epochs : int, float, int
        Of the network.
    weight_penalty : float
        Its L2 penalty.
    """

    inverse_penalty: float = 0.1
    hidden_units: int = 256
    learning_rate: float = 0.002
    epochs: int = 20
    weight_penalty: float = 1.0

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:
        parts = [("logistic", self._logistic), ("network", self._network)]
        return VotingClassifier(
            [(name, part.classifier(labels, latent_dim)) for name, part in parts],
            voting="soft",
            flatten_transform=False,  # the converter to ONNX knows no other form
        )

    def parameters(self, fitted: Classifier) -> int:
        logistic, network = fitted.estimators_
        return self._logistic.parameters(logistic) + self._network.parameters(network)

    def has_converged(self, fitted: Classifier, *, warned: bool) -> bool:  # noqa: ARG002  # the network always warns
        """Return whether the logistic regression did; that the network ends after its epochs is intended."""
        logistic, _ = fitted.estimators_
        return bool(logistic.n_iter_.max() < logistic.max_iter)

    @property
    def _logistic(self) -> Logistic:
        return Logistic(inverse_penalty=self.inverse_penalty, seed=self.seed)

    @property
    def _network(self) -> Mlp:
        return Mlp(
            hidden_units=self.hidden_units,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            weight_penalty=self.weight_penalty,
            seed=self.seed,
        )
