"""What one party does, the same for both of Flower's transports."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .mlp import Matrix, Weights, probabilities, train


def data_dir() -> Path:
    """Return the directory with the arrays: ``party-I.npz`` and ``hold-out.npz``."""
    return Path(os.environ["FEDAVG_DATA"])


def load(name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """Return rows and labels of a party, or of the hold-out."""
    with np.load(data_dir() / f"{name}.npz", allow_pickle=False) as stored:
        return stored["rows"].astype(np.float32), stored["labels"].astype(np.int64)


def fit(index: int, weights: Weights, *, epochs: int, federated_round: int) -> tuple[Weights, int]:
    """Train on the rows of party ``index``; return the weights and the number of rows."""
    rows, labels = load(f"party-{index}")
    seed = seed_of(federated_round, index)
    return train(weights, rows, labels, epochs=epochs, seed=seed), len(rows)


def seed_of(federated_round: int, index: int) -> int:
    """Return the seed of the order of a party's rows in one round."""
    return 1000 * federated_round + index


def keep(index: int, weights: Weights) -> tuple[float, int]:
    """Store the final model and its predictions for the hold-out; return accuracy and number of rows."""
    rows, labels = load("hold-out")
    found = probabilities(weights, rows)
    np.savez(data_dir() / f"model-{index}.npz", *weights)
    np.save(data_dir() / f"predictions-{index}.npy", found, allow_pickle=False)
    return float((found.argmax(axis=1) == labels).mean()), len(rows)


def shape() -> tuple[int, int]:
    """Return the numbers of encoded features and classes."""
    about = json.loads((data_dir() / "about.json").read_text())
    return about["features"], about["classes"]
