"""Trees that institutions grow on their own raw rows and put together: the published federated recipes.

Both get rows without encoding, in which an empty field is NaN, and both are tuned on a fifth of every
institution's rows, by the log loss on all of these together; then all rows are used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from benchmarks.data import Labels, Matrix
from benchmarks.defaults.rivals import Part, divided

DEPTHS: Final = (3, 8)
"""8 is that of Flower's example."""
RATE: Final = 0.1
"""Of Flower's example; its other setting, tried as well, divides it by the number of institutions."""
MOST_ROUNDS: Final = 100
PATIENCE: Final = 15
"""Rounds without a better loss after which the search for their number ends."""
TREES: Final = 500
"""Of a federated forest, in all."""
LEAVES: Final = (1, 5)
"""Fewest rows in a leaf."""


class MissingLibraryError(ImportError):
    """A library that only a benchmark needs is not installed."""


def federated_boosting(parts: Sequence[Part], test: Matrix, *, seed: int) -> NDArray[Any]:
    """Federated XGBoost by bagging, with depth, learning rate and number of rounds chosen on kept rows.

    The recipe of Flower [1]_: in every round each institution grows one tree on its own rows, for the
    margins that the model of all has so far, and the server appends all these trees to the model.

    Parameters
    ----------
    parts : sequence of (rows, labels)
        Labels 0 and 1.
    test : (n, m) ndarray

    Returns
    -------
    (n, 2) ndarray
        The probabilities of both classes.

    Raises
    ------
    MissingLibraryError
        xgboost is not installed.

    References
    ----------
    .. [1] Flower, FedXgbBagging and the example xgboost-comprehensive, https://flower.ai/docs.
    """
    fitted, kept = divided(parts, seed)
    best = (np.inf, 0, 0.0, 0)
    for depth in DEPTHS:
        for rate in (RATE, RATE / len(parts)):
            least, chosen = np.inf, 0
            for number, margins in enumerate(_boosted(fitted, kept[0], depth, rate, seed), 1):
                loss = _log_loss(_probability(margins), kept[1])
                if loss < least:
                    least, chosen = loss, number
                if number - chosen >= PATIENCE or number == MOST_ROUNDS:
                    break
            best = min(best, (least, depth, rate, chosen))
    _, depth, rate, rounds = best
    *_, margins = itertools.islice(_boosted(parts, test, depth, rate, seed), rounds)
    positive = _probability(margins)
    return np.stack([1 - positive, positive], axis=1)


def federated_forest(parts: Sequence[Part], classes: int, test: Matrix, *, seed: int) -> NDArray[Any]:
    """Federated random forest: the union of the forests of all institutions.

    The recipe of Hauschild et al. (2022, doi:10.1093/bioinformatics/btac065): each institution grows its
    share of the trees on its own rows, and the forest of all is the union. The fewest rows in a leaf are
    chosen on kept rows.
    """
    fitted, (kept, truth) = divided(parts, seed)
    losses = []
    for leaf in LEAVES:
        found = _forest(fitted, classes, kept, leaf, seed)
        losses.append(-float(np.mean(np.log(found[np.arange(len(truth)), truth].clip(1e-6)))))
    return _forest(parts, classes, test, LEAVES[int(np.argmin(losses))], seed)


def _boosted(
    parts: Sequence[Part], test: Matrix, depth: int, rate: float, seed: int
) -> Iterator[NDArray[Any]]:
    """Yield the margins of ``test`` after each round; a margin is the sum of all trees so far."""
    xgboost = _library()
    options = {
        "objective": "binary:logistic",
        "eta": rate,
        "max_depth": depth,
        "num_parallel_tree": 1,
        "tree_method": "hist",
        "nthread": 1,
        "seed": seed,
        "verbosity": 0,
    }
    own = [xgboost.DMatrix(rows, label=labels) for rows, labels in parts]
    everything = xgboost.DMatrix(np.vstack([*(rows for rows, _ in parts), test]))
    everything.set_base_margin(np.zeros(everything.num_row()))  # trees alone, without a starting point
    ends = np.cumsum([len(rows) for rows, _ in parts])
    margins = np.zeros(everything.num_row())
    while True:
        trees = []
        for rows, margin in zip(own, np.split(margins, ends), strict=False):
            rows.set_base_margin(margin)
            trees.append(xgboost.train(options, rows, num_boost_round=1))
        margins = margins + sum(tree.predict(everything, output_margin=True) for tree in trees)
        yield margins[ends[-1] :]


def _forest(parts: Sequence[Part], classes: int, test: Matrix, leaf: int, seed: int) -> NDArray[Any]:
    rows_of_all = sum(len(rows) for rows, _ in parts)
    total, trees = np.zeros((len(test), classes)), 0
    for index, (rows, labels) in enumerate(parts):
        share = max(1, round(TREES * len(rows) / rows_of_all))
        forest = RandomForestClassifier(share, min_samples_leaf=leaf, random_state=seed + 1000 * index)
        forest.fit(rows, labels)
        total[:, forest.classes_] += share * forest.predict_proba(test)
        trees += share
    return total / trees


def _probability(margins: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(1 / (1 + np.exp(-margins)))


def _log_loss(positive: NDArray[Any], labels: Labels) -> float:
    of_truth = np.where(labels == 1, positive, 1 - positive)
    return -float(np.mean(np.log(of_truth.clip(1e-6))))


def _library() -> Any:
    try:
        import xgboost
    except ImportError:
        raise MissingLibraryError(
            "expected the library xgboost, and it is not installed;"
            " pip install 'orthonormal-data-collaboration[bench]'"
        ) from None
    return xgboost
