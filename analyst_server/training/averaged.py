"""The mean of a regularised linear model and a short, regularised network: the default model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import VotingClassifier, VotingRegressor

from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Classifier, Labels, Weighable
from analyst_server.training.ridge import Ridge
from analyst_server.training.tasks import Estimator


@dataclass(frozen=True)
class Averaged(Weighable):
    """Both are fitted on all rows, with the same weights if there are any, and what they say is averaged.

    The linear one is a logistic regression for classes, and a ridge regression for numbers.

    Attributes
    ----------
    inverse_penalty : float
        C of the linear model.
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

    def regressor(self) -> Estimator:
        return VotingRegressor(
            [("ridge", self._ridge.regressor()), ("network", self._network.regressor())],
        )

    @contextmanager
    def followed(self, estimator: Estimator) -> Iterator[None]:
        """Tell the epochs of the network, which comes last and takes longest."""
        network = dict(estimator.estimators)["network"]
        # fitted itself in the place of a clone, which nobody outside of the fit could look at
        network.__sklearn_clone__ = lambda: network
        try:
            with self._network.followed(network):
                yield
        finally:
            del network.__sklearn_clone__

    def parameters(self, fitted: Estimator) -> int:
        linear, network = fitted.estimators_
        return int(linear.coef_.size + np.size(linear.intercept_)) + self._network.parameters(network)

    def has_converged(self, fitted: Estimator, *, warned: bool) -> bool:  # noqa: ARG002  # the network always warns
        """Return whether the linear model did; that the network ends after its epochs is intended."""
        linear, _ = fitted.estimators_
        return linear.n_iter_ is None or bool(linear.n_iter_.max() < linear.max_iter)

    @property
    def _logistic(self) -> Logistic:
        return Logistic(inverse_penalty=self.inverse_penalty, seed=self.seed)

    @property
    def _ridge(self) -> Ridge:
        return Ridge(inverse_penalty=self.inverse_penalty, seed=self.seed)

    @property
    def _network(self) -> Mlp:
        return Mlp(
            hidden_units=self.hidden_units,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            weight_penalty=self.weight_penalty,
            seed=self.seed,
        )
