"""What to train, in plain numbers: it travels to the compute process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelSpec:
    """What to train.

    Attributes
    ----------
    kind : {"mlp", "logistic"}
    hidden_units, learning_rate, seed : int, float, int
        Of the MLP: one hidden layer of ReLU units trained by Adam (arXiv:2403.02780, section V-B).
    inverse_penalty : float
        Of logistic regression: C of the L2 penalty.
    epochs : int
        Upper bound of passes or iterations; training stops earlier when the loss no longer falls.
    """

    kind: Literal["mlp", "logistic"]
    hidden_units: int = 256
    learning_rate: float = 0.002
    inverse_penalty: float = 1.0
    epochs: int = 200
    seed: int = 0
