"""Layers with ReLU between them, for classes with softmax at the end: outputs, loss and its gradient.

A logistic regression is a network of one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import Matrix64
from user_client.secret.minimise import minimise

Floats = NDArray[np.floating]
Layer = tuple[Floats, Floats]
"""Weights (inputs, outputs) and shifts (outputs,)."""
ONE_THREAD: Final = 2**18
"""OpenBLAS divides a product of more multiplications among threads."""
SMALL: Final = 16 * ONE_THREAD
"""Up to so many multiplications, threads may wait for one another longer than they compute."""


def probabilities(layers: Sequence[Layer], rows: Floats) -> Floats:
    """Return the probability of each class, (n, classes), for rows, (n, inputs)."""
    return np.exp(log_softmax(forward(layers, rows)[-1]))


def forward(layers: Sequence[Layer], rows: Floats) -> list[Floats]:
    """Return the rows, the output of each layer, and last the outputs before the softmax."""
    reached = [rows]
    for weights, shifts in layers[:-1]:
        reached.append(np.maximum(_product(reached[-1], weights) + shifts, 0))
    weights, shifts = layers[-1]
    return [*reached, _product(reached[-1], weights) + shifts]


def _product(left: Floats, right: Floats) -> Floats:
    """Return ``left @ right``; a small product is computed by one thread, some rows at a time.

    A fit has thousands of small products. On a machine whose cores are busy, threads that wait for one
    another at each of them took 160 times as long.
    """
    at_once = max(1, ONE_THREAD // max(right.size, 1))
    if len(left) <= at_once or len(left) * right.size > SMALL:
        whole: Floats = left @ right
        return whole
    found = np.empty((len(left), right.shape[1]), np.result_type(left, right))
    for start in range(0, len(left), at_once):
        np.matmul(left[start : start + at_once], right, out=found[start : start + at_once])
    return found


def log_softmax(outputs: Floats) -> Floats:
    """Return the logarithms of the probabilities that outputs stand for."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def loss_and_gradients(
    layers: Sequence[Layer],
    rows: Floats,
    targets: Floats,
    penalty: float,
    *,
    of_numbers: bool = False,
    weights_of_rows: Floats | None = None,
) -> tuple[float, list[Layer]]:
    """Return the mean loss with its L2 penalty, and its gradient by each layer.

    The loss is the cross entropy, of which ``weights_of_rows``, (n,), make a weighted mean; ``of_numbers``,
    half the squared error of the outputs.
    """
    reached = forward(layers, rows)
    if weights_of_rows is not None:
        log_probabilities = log_softmax(reached[-1])
        share = (weights_of_rows / weights_of_rows.sum())[:, None]
        loss = -np.sum(share * targets * log_probabilities)
        slope = share * (np.exp(log_probabilities) - targets)
    elif of_numbers:
        slope = (reached[-1] - targets) / len(rows)
        loss = np.sum(np.square(slope)) * len(rows) / 2
    else:
        log_probabilities = log_softmax(reached[-1])
        loss = -np.mean(np.sum(targets * log_probabilities, axis=1))
        slope = (np.exp(log_probabilities) - targets) / len(rows)
    gradients: list[Layer] = []
    for index in reversed(range(len(layers))):
        weights, _ = layers[index]
        loss += penalty / 2 * np.sum(weights**2)
        gradients.append((_product(reached[index].T, slope) + penalty * weights, slope.sum(axis=0)))
        if index:
            slope = _product(slope, weights.T) * (reached[index] > 0)
    return float(loss), gradients[::-1]


def improved(
    start: Sequence[Layer],
    rows: Matrix64,
    targets: Matrix64,
    penalty: float,
    *,
    iterations: int,
    weights_of_rows: Floats | None = None,
) -> list[Layer]:
    """Return the layers that L-BFGS arrives at."""

    def of_vector(flat: Matrix64) -> tuple[float, Matrix64]:
        layers = _layers(flat, start)
        loss, gradients = loss_and_gradients(layers, rows, targets, penalty, weights_of_rows=weights_of_rows)
        return loss, _flat(gradients)

    return _layers(minimise(of_vector, _flat(start), iterations=iterations), start)


def _flat(layers: Sequence[Layer]) -> Matrix64:
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def _layers(flat: Matrix64, like: Sequence[Layer]) -> list[Layer]:
    """Cut a vector into layers that have the shapes of ``like``."""
    layers: list[Layer] = []
    start = 0
    for weights, shifts in like:
        middle, end = start + weights.size, start + weights.size + shifts.size
        layers.append((flat[start:middle].reshape(weights.shape), flat[middle:end]))
        start = end
    return layers
