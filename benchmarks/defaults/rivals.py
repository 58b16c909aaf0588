"""Other ways to learn from the rows of all institutions, tuned no less than ours.

Each returns the probabilities of the classes for test rows. All get the encoded rows, which boosting does not
mind: it is the same for every monotone encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

from benchmarks.data import Labels, Matrix
from user_client.secret.signal import Ridge

Part = tuple[Matrix, Labels]
"""Rows and labels of one institution."""
ROUNDS: Final = 30
"""Rounds of federated averaging, each an epoch at every institution; more did not help where it was tried."""


def closed_form(parts: Sequence[Part], classes: int, test: Matrix) -> NDArray[Any]:
    """Ridge regression of the classes from the institutions' sums: ``X^T X``, ``X^T Y`` and the means.

    The same for every way to divide the rows. The penalty is chosen by generalised cross-validation, which
    needs the sums alone.
    """
    rows, labels = _pooled(parts)
    targets = np.eye(classes)[labels]
    mean, rates = rows.mean(axis=0), targets.mean(axis=0)
    gram = rows.T @ rows - len(rows) * np.outer(mean, mean)
    cross = rows.T @ targets - len(rows) * np.outer(mean, rates)
    energy = float(np.square(targets - rates).sum())
    weights, _ = Ridge(gram, cross, energy, len(rows)).solve()
    scores = (test - mean) @ weights + rates
    scores = scores.clip(1e-6)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def central_boosting(parts: Sequence[Part], classes: int, test: Matrix, *, seed: int) -> NDArray[Any]:
    """Histogram gradient boosting on all raw rows in one place, the number of leaves chosen on a fold."""
    rows, labels = _pooled(parts)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    fit_on, judge_on = next(iter(folds.split(rows, labels)))
    candidates = [_boosting(leaves, seed) for leaves in (7, 31)]
    losses = [
        -np.mean(np.log(_of_all(c.fit(rows[fit_on], labels[fit_on]), rows[judge_on], classes)[
            np.arange(len(judge_on)), labels[judge_on]
        ].clip(1e-6)))
        for c in candidates
    ]  # fmt: skip
    return _of_all(candidates[int(np.argmin(losses))].fit(rows, labels), test, classes)


def bagged_boosting(parts: Sequence[Part], classes: int, test: Matrix, *, seed: int) -> NDArray[Any]:
    """One boosted model for each institution, their probabilities averaged by rows: federated bagging."""
    found, weights = [], []
    for rows, labels in parts:
        if len(np.unique(labels)) > 1:
            found.append(_of_all(_boosting(31, seed).fit(rows, labels), test, classes))
            weights.append(len(rows))
    if not found:
        return np.full((len(test), classes), 1 / classes)
    return np.asarray(np.average(found, axis=0, weights=weights))


def federated_averaging(parts: Sequence[Part], classes: int, test: Matrix, *, seed: int) -> NDArray[Any]:
    """FedAvg of the network of the terms: `ROUNDS` rounds, the better of two learning rates."""
    rows, labels = _pooled(parts)
    models = [_averaged(parts, classes, rate, seed) for rate in (0.002, 0.01)]

    def loss(model: MLPClassifier) -> float:
        of_truth = model.predict_proba(rows)[np.arange(len(rows)), labels]
        return -float(np.mean(np.log(of_truth.clip(1e-6))))

    return np.asarray(min(models, key=loss).predict_proba(test))


def _averaged(parts: Sequence[Part], classes: int, rate: float, seed: int) -> MLPClassifier:
    model = MLPClassifier((64,), learning_rate_init=rate, alpha=1.0, random_state=seed)
    model.partial_fit(*parts[0], classes=np.arange(classes))
    weights = np.array([len(rows) for rows, _ in parts], dtype=float)
    for _ in range(ROUNDS):
        start = [array.copy() for array in (*model.coefs_, *model.intercepts_)]
        sums = [np.zeros_like(array) for array in start]
        for (rows, labels), weight in zip(parts, weights / weights.sum(), strict=True):
            put_weights(model, start)
            model.partial_fit(rows, labels)
            for total, array in zip(sums, (*model.coefs_, *model.intercepts_), strict=True):
                total += weight * array
        put_weights(model, sums)
    return model


def put_weights(model: MLPClassifier, arrays: Sequence[NDArray[Any]]) -> None:
    """Write weights into a model in place, because its optimiser keeps references to its arrays."""
    for target, array in zip((*model.coefs_, *model.intercepts_), arrays, strict=True):
        target[...] = array


def tuned_logistic(part: Part, classes: int, test: Matrix, *, seed: int) -> NDArray[Any]:
    """An institution's own logistic regression, its penalty chosen by cross-validation if it has the rows."""
    rows, labels = part
    best, least = 1.0, np.inf
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    if smallest >= 3:
        for strength in (0.01, 0.1, 1.0, 10.0):
            losses = []
            for fit_on, judge_on in StratifiedKFold(3, shuffle=True, random_state=seed).split(rows, labels):
                model = LogisticRegression(C=strength, max_iter=500).fit(rows[fit_on], labels[fit_on])
                found = _of_all(model, rows[judge_on], classes)[np.arange(len(judge_on)), labels[judge_on]]
                losses.append(-np.mean(np.log(found.clip(1e-6))))
            if np.mean(losses) < least:
                best, least = strength, float(np.mean(losses))
    return _of_all(LogisticRegression(C=best, max_iter=500).fit(rows, labels), test, classes)


def _boosting(leaves: int, seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_leaf_nodes=leaves, learning_rate=0.1, max_iter=100, min_samples_leaf=10, random_state=seed
    )


def _of_all(model: Any, test: Matrix, classes: int) -> NDArray[Any]:
    """Return probabilities with a column for every class, also for one that the model has not seen."""
    found = np.zeros((len(test), classes))
    found[:, model.classes_] = model.predict_proba(test)
    return found


def _pooled(parts: Sequence[Part]) -> Part:
    return np.vstack([rows for rows, _ in parts]), np.concatenate([labels for _, labels in parts])
