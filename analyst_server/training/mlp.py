"""A small neural network, as in arXiv:2403.02780, section V-B."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sklearn.neural_network import MLPClassifier, MLPRegressor

from analyst_server.training.models import Classifier, Labels, Weighable
from analyst_server.training.progress import following
from analyst_server.training.tasks import Estimator


@dataclass(frozen=True)
class Mlp(Weighable):
    """One hidden layer of ReLU units, trained by Adam.

    Attributes
    ----------
    hidden_units, learning_rate : int, float
    epochs : int
        Upper bound of passes over the rows; training stops earlier when the loss no longer falls.
    weight_penalty : float
        L2 penalty: this times the squared norm of the weights, divided by twice the rows of a batch. A batch
        has 200 rows, or all of them if there are fewer.
    """

    hidden_units: int = 256
    learning_rate: float = 0.002
    epochs: int = 200
    weight_penalty: float = 1e-4

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return MLPClassifier(**self._options())

    def regressor(self) -> Estimator:
        return MLPRegressor(**self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "hidden_layer_sizes": (self.hidden_units,),
            "activation": "relu",
            "solver": "adam",
            "learning_rate_init": self.learning_rate,
            "max_iter": self.epochs,
            "alpha": self.weight_penalty,
            "random_state": self.seed,
        }

    def followed(self, estimator: Estimator) -> AbstractContextManager[None]:
        return following(lambda: int(getattr(estimator, "n_iter_", 0)), self.epochs, "epochs")

    def parameters(self, fitted: Classifier) -> int:
        return sum(array.size for array in (*fitted.coefs_, *fitted.intercepts_))
