"""The party's own model t_i of NRI-DC: it learns to predict what h predicts for the anchor's rows.

Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", Algorithm 1, steps 14 to 16. t_i
predicts from encoded rows, so that neither F_i nor G_i is needed any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from user_client.secret.expansion import Matrix64
from user_client.secret.network import Layer, forward, improved, log_softmax, probabilities

HIDDEN_UNITS: Final = 64
HELD_OUT: Final = 0.2
"""Share of the anchor's rows on which the candidates are compared and the better one is measured."""
_CANDIDATES: Final[tuple[tuple[int, float], ...]] = ((0, 1e-6), (HIDDEN_UNITS, 1e-4))
"""Hidden units and L2 penalty of each candidate; docs/nri.md has their accuracy."""
_CHOSEN_ON_ROWS: Final = 5000
"""Largest number of anchor rows used to choose between the candidates."""
_ITERATIONS: Final = 150


@dataclass(frozen=True)
class OwnModel:
    """A network of one or two layers, with ReLU between them and softmax at the end.

    Attributes
    ----------
    layers : sequence of (weights, shifts)
    held_out_agreement : float
        Share of the held-out anchor rows for which t_i and h predict the same class.
    """

    layers: Sequence[Layer]
    held_out_agreement: float

    def __repr__(self) -> str:
        return f"<OwnModel of {len(self.layers)} layers>"

    def probabilities(self, rows: Matrix64) -> Matrix64:
        """Return the probabilities, (n, classes), for encoded rows, (n, m)."""
        return np.asarray(probabilities(self.layers, rows), dtype=np.float64)


def train_own_model(anchor: Matrix64, predictions: NDArray[np.floating]) -> OwnModel:
    """Return the better of multinomial logistic regression and a small network, fitted on all rows.

    Both minimise the cross entropy to h's probabilities by L-BFGS. They are compared on a fifth of the
    rows, which neither has seen; the better one is then trained further on all rows. The same input gives
    the same model.

    Parameters
    ----------
    anchor : (a, m) ndarray of float64
        Not modified.
    predictions : (a, k) ndarray
        h's probability of each class for each row.

    Returns
    -------
    OwnModel

    Raises
    ------
    ValueError
        If the numbers of rows differ, there are fewer than two rows, or a row of predictions is not a
        probability distribution.
    """
    targets = _distributions(anchor, predictions)
    rng = np.random.default_rng(0)  # not secret: which rows are held out, and where a fit starts
    order = rng.permutation(len(anchor))[:_CHOSEN_ON_ROWS]
    aside, seen = np.split(order, [max(1, round(HELD_OUT * len(order)))])
    tried = []
    for hidden_units, penalty in _CANDIDATES:
        sizes = [anchor.shape[1], *([hidden_units] if hidden_units else []), targets.shape[1]]
        start: list[Layer] = [
            (rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs), np.zeros(outputs))
            for inputs, outputs in itertools.pairwise(sizes)
        ]
        layers = improved(start, anchor[seen], targets[seen], penalty, iterations=_ITERATIONS)
        outputs = forward(layers, anchor[aside])[-1]
        tried.append(
            (
                -np.mean(np.sum(targets[aside] * log_softmax(outputs), axis=1)),
                np.mean(outputs.argmax(axis=1) == targets[aside].argmax(axis=1)),
                penalty,
                layers,
            )
        )
    _, agreement, penalty, layers = min(tried, key=lambda each: each[0])
    return OwnModel(improved(layers, anchor, targets, penalty, iterations=_ITERATIONS), float(agreement))


def _distributions(anchor: Matrix64, predictions: NDArray[np.floating]) -> Matrix64:
    targets = np.asarray(predictions, dtype=np.float64)
    if len(anchor) != len(targets) or len(anchor) < 2:
        raise ValueError(f"expected predictions for {len(anchor)} rows, at least two, got {len(targets)}")
    total = targets.sum(axis=1, keepdims=True)
    # float32 probabilities of many classes do not add up to exactly 1
    if not (np.all(targets >= 0) and np.all(np.abs(total - 1) < 1e-2)):
        raise ValueError("the predictions of a row must be probabilities that add up to 1")
    return np.asarray(targets / total)
