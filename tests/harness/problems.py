"""Numeric problems: parties to align, classes to tell apart, and key streams that can be repeated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from analyst_server.compute.model_registry import model_of
from analyst_server.training.knn import Knn
from analyst_server.training.logistic import Logistic
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import Model, Weighable
from analyst_server.training.svm import RandomFeatureSvm, Svm
from analyst_server.training.trees import GradientBoosting, RandomForest
from protocol.model_terms import CandidateTerms
from user_client.secret.expansion import ByteSource

Matrix = NDArray[Any]
SEEDS = range(20)
TERMS: Final = {terms.model_fields["kind"].default: terms for terms in get_args(CandidateTerms)}
"""The terms of every kind of model, without `auto`, which trains one of these."""
SMALL: Final[dict[str, Model]] = {
    "mlp": Mlp(hidden_units=12, learning_rate=0.01, epochs=40, seed=3),
    "logistic": Logistic(epochs=500),
    "svm": Svm(seed=3),
    "random-feature-svm": RandomFeatureSvm(random_features=60, epochs=500, seed=3),
    "knn": Knn(neighbours=9),
    "random-forest": RandomForest(trees=30, seed=3),
    "gradient-boosting": GradientBoosting(trees=30, learning_rate=0.2, seed=3),
}
ALL_MODELS: Final = {kind: SMALL.get(kind) or model_of(terms()) for kind, terms in TERMS.items()}
"""Every kind, small where a test needs it to be quick."""
MODELS: Final = {kind: model for kind, model in ALL_MODELS.items() if "classes" in TERMS[kind].tasks}
"""Every kind that predicts classes."""
WEIGHTED: Final[dict[str, Model]] = {
    kind: replace(model, class_weight="balanced")
    for kind, model in MODELS.items()
    if isinstance(model, Weighable)
}
"""Every kind that can be trained with class weights, with them."""
MODELS_OF_NUMBERS: Final = {
    kind: model for kind, model in ALL_MODELS.items() if "number" in TERMS[kind].tasks
}
"""Every kind that predicts numbers."""
MODELS_OF_SURVIVAL: Final = {
    kind: model for kind, model in ALL_MODELS.items() if "survival" in TERMS[kind].tasks
}
"""Every kind that predicts survival."""


MODELS_OF_LABELS: Final = {
    kind: model for kind, model in ALL_MODELS.items() if "multilabel" in TERMS[kind].tasks
}
"""Every kind that predicts several labels."""


def haar(order: int, rng: np.random.Generator) -> Matrix:
    q, r = np.linalg.qr(rng.standard_normal((order, order)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def anchor(kind: str, features: int, rng: np.random.Generator) -> Matrix:
    """A Haar anchor (a = m), or the paper's uniform one with ten times as many rows as features."""
    return haar(features, rng) if kind == "haar" else rng.random((10 * features, features))


def shared_span(
    rng: np.random.Generator, parties: int = 5, features: int = 30, latent_dim: int = 8
) -> tuple[list[Matrix], list[Matrix]]:
    """Return F_i = F E_i and the E_i: the premises of Theorem IV.3."""
    basis = haar(features, rng)[:, :latent_dim]
    turns = [haar(latent_dim, rng) for _ in range(parties)]
    return [basis @ turn for turn in turns], turns


def own_span(rng: np.random.Generator, parties: int = 6, rows: int = 60, latent_dim: int = 5) -> list[Matrix]:
    """Return bases of the digits' rows, each party with five classes of ten, so that no span is shared."""
    data, target = digits()
    bases = []
    for _ in range(parties):
        classes = rng.choice(10, 5, replace=False)
        own = data[rng.choice(np.flatnonzero(np.isin(target, classes)), rows, replace=False)]
        _, vectors = np.linalg.eigh(own.T @ own)
        bases.append(vectors[:, -latent_dim:] @ haar(latent_dim, rng))
    return bases


def unlike_the_first(
    seed: int, parties: int = 5, rows: int = 80
) -> tuple[list[Matrix], list[Matrix], list[Matrix]]:
    """Return bases (60, 10), rows and labels of parties, of which the first has nothing of what labels need.

    All have four directions in common, and all but the first five more: the label is the sign of the sum
    along these. The first has the most rows, so that a method may align all others to it.
    """
    rng = np.random.default_rng(seed)
    axes, own = haar(60, rng), iter(range(9, 60))
    bases, tables, labels = [], [], []
    for party in range(parties):
        shared = list(range(4 if party == 0 else 9))
        span = axes[:, [*shared, *(next(own) for _ in range(10 - len(shared)))]]
        # a little off, or how `odc` turns what the first does not have would be a matter of rounding
        tilted = np.linalg.qr(span + 0.04 * rng.standard_normal((60, 10)))[0]
        bases.append(np.asarray(tilted @ haar(10, rng)))
        tables.append(rng.standard_normal((rows + 20 * (party == 0), 60)))
        labels.append(((tables[-1] @ axes[:, 4:9]).sum(axis=1) > 0).astype(np.int64))
    return bases, tables, labels


@cache
def digits() -> tuple[Matrix, Matrix]:
    """The bundled digits, scaled to [-1, 1]."""
    found = load_digits()
    return found.data / 8 - 1, found.target


def worst_disagreement(bases: list[Matrix], changes: list[Matrix]) -> float:
    """Return max_ij ||F_i G_i - F_j G_j||_F / ||F_i G_i||_F, the plain definition of concordance."""
    mapped = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    return max(float(np.linalg.norm(one - other) / np.linalg.norm(one)) for one in mapped for other in mapped)


def mean_disagreement(bases: list[Matrix], changes: list[Matrix]) -> float:
    """Return the mean of ||F_i G_i - F_j G_j||_F over all pairs."""
    mapped = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    return float(
        np.mean([np.linalg.norm(one - other) for i, one in enumerate(mapped) for other in mapped[:i]])
    )


def survivals(rows: int = 200, latent_dim: int = 5, seed: int = 0) -> tuple[Matrix, Matrix]:
    """Return rows, and exponential times that depend on them, on the wire; about half without the event."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((rows, latent_dim)).astype(np.float32)
    until = rng.exponential(0.4 * np.exp(-drawn[:, 0] + 0.5 * drawn[:, 1]))
    end = rng.uniform(0.1, 1.0, rows)
    return drawn, np.where(until <= end, np.minimum(until, 1.0), -end).astype(np.float32)


def numbers(rows: int = 150, latent_dim: int = 5, seed: int = 0) -> tuple[Matrix, Matrix]:
    """Return rows, and numbers from -1 to 1 that depend on them, mostly linearly, and on chance."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((rows, latent_dim)).astype(np.float32)
    found = drawn[:, 0] - 0.5 * drawn[:, 1] + 0.3 * drawn[:, 2] ** 2 + 0.2 * rng.standard_normal(rows)
    return drawn, 0.2 + 0.5 * found / np.abs(found).max()


def blobs(
    classes: int, rows: int = 150, latent_dim: int = 5, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows around one centre for each class, overlapping a little, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centres = 2 * rng.standard_normal((classes, latent_dim))
    return (centres[labels] + rng.standard_normal((rows, latent_dim))).astype(np.float32), labels


def sets_of_labels(
    rows: int = 200, latent_dim: int = 5, seed: int = 0, noise: float = 0.5
) -> tuple[Matrix, Matrix]:
    """Return rows, and of each a bit for each of three labels that depend on them; the last is rare."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((rows, latent_dim)).astype(np.float32)
    weights = np.random.default_rng(9).standard_normal((latent_dim, 3))
    found = drawn @ weights + noise * rng.standard_normal((rows, 3))
    return drawn, ((found > [0.0, 0.5, 1.5]) * [1, 2, 4]).sum(axis=1).astype(np.int64)


def stream(seed: int) -> ByteSource:
    """Return a key stream of repeatable bytes; nothing about it is secret."""
    return np.random.default_rng(seed).bytes
