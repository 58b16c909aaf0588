"""The MLP of the terms in numpy: one hidden layer of ReLU units, Adam, as in scikit-learn's classifier.

Two classes use one logistic output, more use softmax. The initial weights are those of Glorot and Bengio,
the L2 penalty is 1e-4, and a batch has 200 rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Weights = list[Matrix]

HIDDEN_UNITS = 256
LEARNING_RATE = 0.002
PENALTY = 1e-4
BATCH_ROWS = 200
_DECAYS = (0.9, 0.999)
_EPSILON = 1e-8


def initial_weights(features: int, classes: int, seed: int = 0) -> Weights:
    """Return W_1 (m, 256), b_1, W_2 (256, outputs), b_2 as float32."""
    rng = np.random.default_rng(seed)
    outputs = 1 if classes == 2 else classes
    weights: Weights = []
    for fan_in, fan_out, gain in (
        (features, HIDDEN_UNITS, 6.0),
        (HIDDEN_UNITS, outputs, _output_gain(classes)),
    ):
        bound = float(np.sqrt(gain / (fan_in + fan_out)))
        weights.append(rng.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32))
        weights.append(rng.uniform(-bound, bound, fan_out).astype(np.float32))
    return weights


def _output_gain(classes: int) -> float:
    """Return the factor of the initial range; a logistic output starts with smaller weights."""
    return 2.0 if classes == 2 else 6.0


def train(weights: Weights, rows: Matrix, labels: NDArray[np.int64], *, epochs: int, seed: int) -> Weights:
    """Return the weights after some epochs of Adam, with new state, on one party's rows."""
    rng = np.random.default_rng(seed)
    weights = [array.copy() for array in weights]
    first = [np.zeros_like(array) for array in weights]
    second = [np.zeros_like(array) for array in weights]
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), BATCH_ROWS):
            batch = order[start : start + BATCH_ROWS]
            step += 1
            rate = LEARNING_RATE * np.sqrt(1 - _DECAYS[1] ** step) / (1 - _DECAYS[0] ** step)
            for index, slope in enumerate(gradient(weights, rows[batch], labels[batch])):
                first[index] += (1 - _DECAYS[0]) * (slope - first[index])
                second[index] += (1 - _DECAYS[1]) * (slope**2 - second[index])
                weights[index] -= (rate * first[index] / (np.sqrt(second[index]) + _EPSILON)).astype(
                    np.float32
                )
    return weights


def probabilities(weights: Weights, rows: Matrix) -> Matrix:
    """Return (n, k) class probabilities."""
    hidden = np.maximum(rows @ weights[0] + weights[1], 0)
    found = _activate(hidden @ weights[2] + weights[3])
    return np.hstack([1 - found, found]) if found.shape[1] == 1 else found


def _activate(scores: Matrix) -> Matrix:
    if scores.shape[1] == 1:
        return (1 / (1 + np.exp(-np.clip(scores, -60, 60)))).astype(np.float32)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


def gradient(weights: Weights, rows: Matrix, labels: NDArray[np.int64]) -> Weights:
    """Return the gradient of the mean log loss plus penalty, in the order of the weights."""
    hidden = np.maximum(rows @ weights[0] + weights[1], 0)
    found = _activate(hidden @ weights[2] + weights[3])
    outputs = found.shape[1]
    truth = labels[:, None] if outputs == 1 else np.eye(outputs, dtype=np.float32)[labels]
    error = ((found - truth) / len(rows)).astype(np.float32)
    back = (error @ weights[2].T) * (hidden > 0)
    penalty = np.float32(PENALTY / len(rows))
    return [
        rows.T @ back + penalty * weights[0],
        back.sum(axis=0),
        hidden.T @ error + penalty * weights[2],
        error.sum(axis=0),
    ]
