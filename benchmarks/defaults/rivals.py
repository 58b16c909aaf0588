"""Other ways to learn from the rows of all institutions, tuned no less than ours.

Each returns the probabilities of the classes for test rows. All get the encoded rows, which boosting does not
mind: it is the same for every monotone encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

from benchmarks.data import Labels, Matrix
from protocol.model_terms import AveragedTerms
from user_client.secret.signal import Ridge

Part = tuple[Matrix, Labels]
"""Rows and labels of one institution."""
ROUNDS: Final = 30
"""Most rounds of federated averaging, each an epoch at every institution."""
HIDDEN_UNITS: Final = AveragedTerms().hidden_units
BATCH_ROWS: Final = 200
"""Of scikit-learn, or all rows if there are fewer."""
RATES, PENALTIES = (0.002, 0.01), (0.1, 1.0)
TUNED_ON: Final = 0.2
"""Share of each institution's rows on which options are chosen, before all are used."""


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
    """FedAvg of a network as wide as that of the terms; rate, penalty and rounds chosen on kept rows."""
    fitted, (kept, truth) = divided(parts, seed)
    best = (np.inf, 0.0, 0.0, 0)
    for rate in RATES:
        for penalty in PENALTIES:
            for number, model in enumerate(_averaged(fitted, classes, rate, penalty, seed), 1):
                of_truth = model.predict_proba(kept)[np.arange(len(truth)), truth]
                best = min(best, (-float(np.mean(np.log(of_truth.clip(1e-6)))), rate, penalty, number))
    _, rate, penalty, rounds = best
    for number, model in enumerate(_averaged(parts, classes, rate, penalty, seed), 1):
        if number == rounds:
            return np.asarray(model.predict_proba(test))
    raise AssertionError("one of the rounds is the best")


def divided(parts: Sequence[Part], seed: int) -> tuple[list[Part], Part]:
    """Return the parts without a fifth of their rows, and these fifths together."""
    rng = np.random.default_rng([seed, 4])
    fitted, kept = [], []
    for rows, labels in parts:
        order = rng.permutation(len(rows))
        count = round(TUNED_ON * len(rows))
        kept.append((rows[order[:count]], labels[order[:count]]))
        fitted.append((rows[order[count:]], labels[order[count:]]))
    return fitted, _pooled(kept)


def _averaged(
    parts: Sequence[Part], classes: int, rate: float, penalty: float, seed: int
) -> Iterator[MLPClassifier]:
    """Yield the network after each of `ROUNDS` rounds; each institution keeps the moments of its own Adam.

    scikit-learn divides the penalty by the rows of a batch. A small institution has smaller batches than all
    rows together would, and its penalty is made smaller by as much.
    """
    whole = min(BATCH_ROWS, sum(len(rows) for rows, _ in parts))
    own = [_network(rate, penalty * min(len(rows), whole) / whole, seed) for rows, _ in parts]
    start = _network(1e-12, penalty, seed)  # weights that nobody has trained
    for model, part in zip([start, *own], [parts[0], *parts], strict=True):
        model.partial_fit(*part, classes=np.arange(classes))  # before it there are none
    weights = [array.copy() for array in (*start.coefs_, *start.intercepts_)]
    share = np.array([len(rows) for rows, _ in parts], dtype=float)
    share /= share.sum()
    for _ in range(ROUNDS):
        sums = [np.zeros_like(array) for array in weights]
        for model, (rows, labels), own_share in zip(own, parts, share, strict=True):
            put_weights(model, weights)
            model.partial_fit(rows, labels)
            for total, array in zip(sums, (*model.coefs_, *model.intercepts_), strict=True):
                total += own_share * array
        weights = sums
        put_weights(start, weights)
        yield start


def _network(rate: float, penalty: float, seed: int) -> MLPClassifier:
    return MLPClassifier((HIDDEN_UNITS,), learning_rate_init=rate, alpha=penalty, random_state=seed)


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
