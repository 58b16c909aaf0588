"""The classes of the nearest training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from analyst_server.training.models import Classifier, Labels, Model


@dataclass(frozen=True)
class NearestNeighbours(Model):
    """The shares of the classes among the nearest rows; it is all of these rows.

    Attributes
    ----------
    neighbours : int
        How many; all rows, if there are fewer.
    """

    carried_rows: ClassVar[str] = "it is its training rows"

    neighbours: int = 15

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # distances need no more
        return KNeighborsClassifier(min(self.neighbours, len(labels)))

    def parameters(self, fitted: Classifier) -> int:
        return int(np.prod(fitted.n_samples_fit_ * (fitted.n_features_in_ + 1)))
