"""What to train, in plain numbers: it travels to the compute process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelSpec:
    """What to train.

    Attributes
    ----------
    kind : {"mlp", "logistic", "svm", "random-feature-svm"}
        "svm" carries training rows; no other does.
    hidden_units, learning_rate, seed : int, float, int
        Of the MLP: one hidden layer of ReLU units trained by Adam (arXiv:2403.02780, section V-B).
    inverse_penalty : float
        C: of the L2 penalty of logistic regression, or of the slack of the SVM.
    gamma : float, optional
        Of the SVM's kernel ``exp(-gamma ||x - y||^2)`` on scaled rows; None is 1 / l.
    random_features : int
        How many cosines stand for the kernel in a random-feature SVM.
    epochs : int
        Upper bound of passes or iterations; training stops earlier when the loss no longer falls.
    """

    kind: Literal["mlp", "logistic", "svm", "random-feature-svm"]
    hidden_units: int = 256
    learning_rate: float = 0.002
    inverse_penalty: float = 1.0
    gamma: float | None = None
    random_features: int = 512
    epochs: int = 200
    seed: int = 0
