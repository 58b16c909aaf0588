"""Small classification problems and the models that are trained on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.training import ModelSpec

SPECS = {
    "mlp": ModelSpec("mlp", hidden_units=12, learning_rate=0.01, epochs=40, seed=3),
    "logistic": ModelSpec("logistic", epochs=500),
    "svm": ModelSpec("svm", seed=3),
    "random-feature-svm": ModelSpec("random-feature-svm", random_features=60, epochs=500, seed=3),
}


def blobs(
    classes: int, rows: int = 150, latent_dim: int = 5, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows around one centre for each class, overlapping a little."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centres = 2 * rng.standard_normal((classes, latent_dim))
    return (centres[labels] + rng.standard_normal((rows, latent_dim))).astype(np.float32), labels
