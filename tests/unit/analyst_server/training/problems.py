"""Small classification problems and the models that are trained on them."""

from __future__ import annotations

from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from analyst_server.compute.model_registry import model_of
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Model
from analyst_server.training.svm import RandomFeatureSvm, Svm
from protocol.terms import ModelTerms

TERMS: Final = {terms.model_fields["kind"].default: terms for terms in get_args(get_args(ModelTerms)[0])}
"""The terms of every kind of model."""
SMALL: Final[dict[str, Model]] = {
    "mlp": Mlp(hidden_units=12, learning_rate=0.01, epochs=40, seed=3),
    "logistic": Logistic(epochs=500),
    "svm": Svm(seed=3),
    "random-feature-svm": RandomFeatureSvm(random_features=60, epochs=500, seed=3),
}
MODELS: Final = {kind: SMALL.get(kind) or model_of(terms()) for kind, terms in TERMS.items()}
"""Every kind that terms can name, small where a test needs it to be quick."""


def blobs(
    classes: int, rows: int = 150, latent_dim: int = 5, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows around one centre for each class, overlapping a little."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centres = 2 * rng.standard_normal((classes, latent_dim))
    return (centres[labels] + rng.standard_normal((rows, latent_dim))).astype(np.float32), labels
