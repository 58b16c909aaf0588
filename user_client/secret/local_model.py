"""A model of a party's own rows alone, of the same kind as the analyst's model for all rows.

An institution compares the two, to see whether the collaboration has helped it. The objectives are those of
the analyst's models, which are scikit-learn's; an institution does not need scikit-learn for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from user_client.rows import Rows, are_alike
from user_client.secret.cox import Hazards, fit_hazards
from user_client.secret.expansion import Matrix64
from user_client.secret.network import Floats, Layer, forward, improved, loss_and_gradients, probabilities

FITTED_ROWS: Final = 50_000
"""Largest number of rows that a model is fitted on; of more rows so many are chosen at random."""
BATCH_ROWS: Final = 200
MOMENTUM, SPEED_MOMENTUM, TINY = 0.9, 0.999, 1e-8
"""Adam's decay of the gradient and of its square, and what keeps its quotient finite [1]_."""
ENOUGH: Final = 1e-4
"""An epoch in which the loss falls by less than this does not count as progress."""
PATIENCE: Final = 10
"""So many epochs in a row without progress do not end the training; one more does."""


@dataclass(frozen=True)
class LogisticOptions:
    """Multinomial logistic regression with an L2 penalty of 1 / (2 C)."""

    inverse_penalty: float
    """C."""
    epochs: int
    """Upper bound of iterations."""


@dataclass(frozen=True)
class RidgeOptions:
    """Least squares with an L2 penalty of 1 / (2 C), for numbers."""

    inverse_penalty: float
    """C."""


@dataclass(frozen=True)
class NetworkOptions:
    """One hidden layer of ReLU units, trained by Adam."""

    hidden_units: int
    learning_rate: float
    epochs: int
    """Upper bound of passes over the rows."""
    weight_penalty: float
    """L2 penalty: this times the squared norm of the weights, divided by twice the rows of a batch."""


Options = LogisticOptions | RidgeOptions | NetworkOptions


@dataclass(frozen=True, repr=False)
class LocalModel:
    """The mean of what some networks say, on rows shifted and scaled alike.

    Attributes
    ----------
    shift : (m,) ndarray
    scale : float
        One number for all features, as at the analyst.
    networks : sequence of sequences of (weights, shifts)
    present : (k,) ndarray of int
        The numbers of the classes that it was fitted on; empty if it predicts a number.
    classes : int
        How many classes there are. Those it was not fitted on have probability zero. 0 if it predicts a
        number or survival.
    fitted_rows : int
    label_shift, label_scale : float
        What is added to the outputs of numbers after they are multiplied.
    hazards : Hazards, optional
        In the place of the networks, if it predicts survival.
    of_labels : tuple of LocalModel
        In the place of the networks, if it predicts several labels: a model of two classes for each.
    """

    shift: Matrix64
    scale: float
    networks: Sequence[Sequence[Layer]]
    present: NDArray[np.int64]
    classes: int
    fitted_rows: int
    label_shift: float = 0.0
    label_scale: float = 1.0
    hazards: Hazards | None = None
    of_labels: tuple[LocalModel, ...] = ()

    def __repr__(self) -> str:
        return f"<LocalModel of {len(self.networks)} networks>"

    def predictions(self, rows: Matrix64) -> Matrix64:
        """Return probabilities of classes or labels, numbers, or survival, (n, k), of rows (n, m)."""
        if self.of_labels:
            return np.column_stack([each.predictions(rows)[:, 1] for each in self.of_labels])
        scaled = (rows - self.shift) / self.scale
        if self.hazards is not None:
            return self.hazards.survival(scaled)
        if not self.classes:
            mean = np.mean([forward(each, scaled)[-1] for each in self.networks], axis=0)
            return np.asarray(mean * self.label_scale + self.label_shift)
        found = np.zeros((len(rows), self.classes))
        if not self.networks:  # of one class
            found[:, self.present] = 1
            return found
        found[:, self.present] = np.mean([probabilities(each, scaled) for each in self.networks], axis=0)
        return found


def fit_local_model(
    options: Sequence[Options],
    rows: Rows | Matrix64,
    labels: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    balanced: bool = False,
) -> LocalModel | None:
    """Fit a model on a party's own rows.

    Parameters
    ----------
    options : sequence of LogisticOptions, RidgeOptions or NetworkOptions
        Each is fitted by itself, and what they say is averaged.
    rows : (n, m) Rows, or ndarray of float64
        Not modified. Of more than `FITTED_ROWS` rows so many are chosen.
    labels : (n,) ndarray
        Class numbers, or numbers as floats.
    classes : int
        How many classes the terms name; 0 for numbers.
    rng : Generator
        Chooses the rows, where a network starts, and the order of its batches.
    balanced : bool
        Whether the rows of every class that there is count as much as those of any other; not for numbers.

    Returns
    -------
    LocalModel or None
        None if the rows have fewer than two different labels.
    """
    are_ours = len(rows) > FITTED_ROWS
    if are_ours:
        chosen = np.sort(rng.choice(len(rows), FITTED_ROWS, replace=False))
        rows, labels = _taken(rows, chosen), labels[chosen]
    present, numbers = np.unique(labels, return_inverse=True)
    if len(present) < 2:
        return None
    scaled, shift, scale = _scaled(np.asarray(rows), in_place=are_ours)
    targets = np.eye(len(present))[numbers]
    label_shift, label_scale = 0.0, 1.0
    if not classes:
        present = np.empty(0)
        # as at the analyst: on numbers of mean 0 and variance 1
        label_shift, label_scale = float(labels.mean(dtype=np.float64)), float(labels.std(dtype=np.float64))
        targets = ((labels - label_shift) / label_scale)[:, None]
    problem = _Problem(scaled, targets, _balance(numbers) if balanced else None, of_numbers=not classes)
    networks = [_fitted(each, problem, rng) for each in options]
    return LocalModel(
        shift, scale, networks, present.astype(np.int64), classes, len(scaled), label_shift, label_scale
    )


def of_several_labels(models: Sequence[LocalModel | None], labels: NDArray[Any]) -> LocalModel | None:
    """Return one model of several labels, from those of each; None if there is none of any.

    Where there is none of a label, because all rows that it was fitted on have it or none, the model says of
    every row what most of these labels say.

    Parameters
    ----------
    models : sequence of LocalModel or None
        Of two classes: without the label, and with it.
    labels : (n,) ndarray of int
        One bit for each label.
    """
    some = next((model for model in models if model is not None), None)
    if some is None:
        return None
    all_alike = replace(some, networks=())
    found = (
        model or replace(all_alike, present=np.array([_of_most(labels >> number & 1)]))
        for number, model in enumerate(models)
    )
    return replace(all_alike, present=np.empty(0, np.int64), classes=0, of_labels=tuple(found))


def _of_most(having: NDArray[Any]) -> int:
    return int(2 * np.count_nonzero(having) > len(having))


def fit_local_survival(
    rows: Rows | Matrix64, labels: NDArray[Any], times: Sequence[float], inverse_penalty: float
) -> LocalModel | None:
    """Fit proportional hazards on a party's own rows; None if the event was never seen, or always at once.

    Parameters
    ----------
    labels : (n,) ndarray
        Times on the wire, negative without the event.
    times : sequence of float
        On the wire: those that it predicts for.
    """
    if not (labels > 0).any() or are_alike(labels):
        return None
    are_ours = len(rows) > FITTED_ROWS
    if are_ours:
        chosen = np.linspace(0, len(rows) - 1, FITTED_ROWS).astype(np.int64)
        rows, labels = _taken(rows, chosen), labels[chosen]
    scaled, shift, scale = _scaled(np.asarray(rows), in_place=are_ours)
    hazards = fit_hazards(scaled, labels.astype(np.float64), times, inverse_penalty)
    return LocalModel(shift, scale, (), np.empty(0, np.int64), 0, len(scaled), hazards=hazards)


def _taken(rows: Rows | Matrix64, numbers: NDArray[np.int64]) -> Matrix64:
    return rows.take(numbers) if isinstance(rows, Rows) else rows[numbers]


def _scaled(rows: Matrix64, *, in_place: bool) -> tuple[Matrix64, Matrix64, float]:
    """Return rows shifted to the mean 0 and scaled to the mean variance 1, the shift, (m,), and the scale."""
    shift = rows.mean(axis=0)
    found = np.subtract(rows, shift, out=rows if in_place else None)
    scale = float(np.linalg.norm(found)) / max(found.size, 1) ** 0.5 or 1.0
    found /= scale
    return found, shift, scale


@dataclass(frozen=True, repr=False)
class _Problem:
    """What a model is fitted on: scaled rows, their targets, and how much each row counts if not the same."""

    rows: Matrix64
    targets: Matrix64
    weights: Matrix64 | None
    of_numbers: bool


def _balance(numbers: NDArray[np.intp]) -> Matrix64:
    """Return how much each row counts, for the rows of every class to count the same: n in all."""
    counts = np.bincount(numbers)
    return np.asarray(len(numbers) / (len(counts) * counts[numbers]))


def _fitted(options: Options, problem: _Problem, rng: np.random.Generator) -> list[Layer]:
    if isinstance(options, LogisticOptions):
        return _logistic(options, problem)
    if isinstance(options, RidgeOptions):
        return _ridge(options, problem)
    return _network(options, problem, rng)


def _ridge(options: RidgeOptions, problem: _Problem) -> list[Layer]:
    """Return the layer for rows and targets that have the mean 0."""
    rows = problem.rows
    penalty = np.eye(rows.shape[1]) / options.inverse_penalty
    return [(np.linalg.solve(rows.T @ rows + penalty, rows.T @ problem.targets), np.zeros(1))]


def _logistic(options: LogisticOptions, problem: _Problem) -> list[Layer]:
    rows, classes = problem.rows, problem.targets.shape[1]
    # scikit-learn has one weight vector w for two classes: here it is the difference of two, -w/2 and w/2,
    # whose squared norms add up to half of that of w
    halved = 2 if classes == 2 else 1
    penalty = halved / (options.inverse_penalty * len(rows))
    start = [(np.zeros((rows.shape[1], classes)), np.zeros(classes))]
    return improved(
        start, rows, problem.targets, penalty, iterations=options.epochs, weights_of_rows=problem.weights
    )


def _network(options: NetworkOptions, problem: _Problem, rng: np.random.Generator) -> list[Layer]:
    """Return the layers that Adam [1]_ arrives at, from the uniform start of Glorot and Bengio.

    References
    ----------
    .. [1] Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, Algorithm 1.
    """
    # half the time of float64
    single, aims = problem.rows.astype(np.float32), problem.targets.astype(np.float32)
    weights = None if problem.weights is None else problem.weights.astype(np.float32)
    sizes = (single.shape[1], options.hidden_units, aims.shape[1])
    layers = [_start(inputs, outputs, rng) for inputs, outputs in itertools.pairwise(sizes)]
    adam = _Adam(layers, options.learning_rate)
    batch_rows = min(BATCH_ROWS, len(single))
    least, without_progress = np.inf, 0
    for _ in range(options.epochs):
        order, summed = rng.permutation(len(single)), 0.0
        for first in range(0, len(single), batch_rows):
            batch = order[first : first + batch_rows]
            counted = None if weights is None else weights[batch]
            # as at the analyst, where the penalty is divided by what the rows of a batch count together
            penalty = options.weight_penalty / (len(batch) if counted is None else float(counted.sum()))
            loss, gradients = loss_and_gradients(
                layers,
                single[batch],
                aims[batch],
                penalty,
                of_numbers=problem.of_numbers,
                weights_of_rows=counted,
            )
            adam.step(gradients)
            summed += loss * len(batch)
        mean = summed / len(single)
        without_progress = without_progress + 1 if mean > least - ENOUGH else 0
        least = min(least, mean)
        if without_progress > PATIENCE:
            break
    return layers


def _start(inputs: int, outputs: int, rng: np.random.Generator) -> Layer:
    bound = np.sqrt(6 / (inputs + outputs))
    weights, shifts = rng.uniform(-bound, bound, (inputs, outputs)), rng.uniform(-bound, bound, outputs)
    return weights.astype(np.float32), shifts.astype(np.float32)


class _Adam:
    """Changes the numbers of some layers in place."""

    def __init__(self, layers: Sequence[Layer], learning_rate: float) -> None:
        self._numbers = [part for layer in layers for part in layer]
        self._means: list[Floats] = [np.zeros_like(part) for part in self._numbers]
        self._squares: list[Floats] = [np.zeros_like(part) for part in self._numbers]
        self._learning_rate = learning_rate
        self._steps = 0

    def step(self, gradients: Sequence[Layer]) -> None:
        self._steps += 1
        rate = self._learning_rate * np.sqrt(1 - SPEED_MOMENTUM**self._steps) / (1 - MOMENTUM**self._steps)
        flat = (part for layer in gradients for part in layer)
        for numbers, mean, square, slope in zip(self._numbers, self._means, self._squares, flat, strict=True):
            mean += (1 - MOMENTUM) * (slope - mean)
            square += (1 - SPEED_MOMENTUM) * (slope * slope - square)
            numbers -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(TINY))
