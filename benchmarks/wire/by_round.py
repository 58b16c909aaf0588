"""Flower's score after each round: its clients' numpy code and its mean of the weights, without the network.

No party evaluates before the last round, because that would cost Flower bytes. What it would have found is
computed from the same rows, seeds and weights; the report compares the last round with Flower's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.flower.fedavg.mlp import Weights, initial_weights, probabilities, train
from benchmarks.flower.fedavg.party import seed_of
from benchmarks.wire.flower import EPOCHS, ROUNDS


def accuracies(folder: Path, parties: int, classes: int, *, rounds: int = ROUNDS) -> list[float]:
    """Return the accuracy on the hold-out after each round.

    Parameters
    ----------
    folder : path
        Where `flower.supported` or `flower.grpc_api` has laid out the rows of its clients.
    """
    with np.load(folder / "hold-out.npz") as stored:
        rows, labels = stored["rows"].astype(np.float32), stored["labels"].astype(np.int64)
    found = []
    for number, weights in enumerate(_weights_by_round(folder, parties, classes), 1):
        found.append(float((probabilities(weights, rows).argmax(axis=1) == labels).mean()))
        if number == rounds:
            break
    return found


def first_round(by_round: Sequence[float], accuracy: float) -> int | None:
    """Return the number of the first round, from 1 on, whose accuracy is no less; None if there is none."""
    return next((number for number, reached in enumerate(by_round, 1) if reached >= accuracy), None)


def _weights_by_round(folder: Path, parties: int, classes: int) -> Iterator[Weights]:
    """Yield the weights that the server has after each round."""
    parts = []
    for index in range(parties):
        with np.load(folder / f"party-{index}.npz") as stored:
            parts.append((stored["rows"].astype(np.float32), stored["labels"].astype(np.int64)))
    share = np.array([len(rows) for rows, _ in parts], dtype=np.float64)
    share /= share.sum()
    weights = initial_weights(parts[0][0].shape[1], classes)
    number = 0
    while True:
        number += 1
        sent = [
            train(weights, rows, labels, epochs=EPOCHS, seed=seed_of(number, index))
            for index, (rows, labels) in enumerate(parts)
        ]
        weights = [
            np.tensordot(share, np.stack(of_all), axes=1).astype(np.float32)
            for of_all in zip(*sent, strict=True)
        ]
        yield weights
