"""Find 0/1 features in a party's own uplink as an analyst could: without any key, any anchor and any row.

A projection that is merely turned still has directions along which a 0/1 feature takes two values only. These
are found by independent component analysis and by a search for two-valued projections, and named by shares
that anybody can know. The analyst needs nothing but what it is sent.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
RIGHT: Final = 0.99
"""A feature is recovered if more than this share of the rows is told right."""
RARER_RIGHT: Final = 0.9
"""And so are more than this share of the rows with the rarer value; else a rare one is recovered by no."""
ABOVE_CHANCE: Final = 0.02
"""By how much the separation of a split must exceed the best that the same search finds in normal numbers."""
CHANCE_ROWS, CHANCE_STARTS = 600, 50
SAME: Final = 0.9
"""Splits of a larger correlation are one finding."""
LIKELY: Final = 30.0
"""Largest chi-squared distance between the shares of a split and those of the feature it is named after."""
MOST_ROWS: Final = 1500
"""More rows make the search slower and hardly better; the splits that it finds are told for all rows."""
SPLIT_AT_ONCE: Final = 2**19
"""Numbers that are split at a time, of all rows and some directions."""
RANDOM_STARTS: Final = 100
ROWS_PER_DIRECTION: Final = 2
"""With fewer rows, every direction can be bent until it splits them."""
UNCLEAR: Final = 30.0
"""Added to that distance for a split that explains nothing; one that explains all is named before others."""
DESCENT_STEPS: Final = 60
REFINEMENTS: Final = 8
FLAT: Final = 1e-4
"""Directions with a smaller share of the largest variance hold rounding errors."""
_ANALYSES: Final = (
    ("cube", "deflation"),
    ("logcosh", "deflation"),
    ("logcosh", "parallel"),
    ("cube", "parallel"),
    ("exp", "parallel"),
)


@dataclass(frozen=True)
class BlindFindings:
    """What a search without any key has found in one uplink.

    Attributes
    ----------
    features : int
        Features with two values, which could be found.
    recovered : tuple of int
        Those of which some split tells both values for nearly all rows.
    named : tuple of int
        Those of which the split that was named after them does.
    misnamed : int
        How many names were given wrongly.
    seconds : float
        Computing time.
    complete : bool
        False if the time was over before all was tried; more could then be found.
    """

    features: int
    recovered: tuple[int, ...]
    named: tuple[int, ...]
    misnamed: int
    seconds: float
    complete: bool


def can_search() -> bool:
    """Return whether scikit-learn is installed, which the search needs (the extra ``desk``)."""
    return importlib.util.find_spec("sklearn") is not None


def has_enough(rep: NDArray[Any]) -> bool:
    """Return whether an uplink, (n, l), has rows enough for the search to tell anything."""
    rows, directions = rep.shape
    return bool(rows >= ROWS_PER_DIRECTION * directions)


def two_valued(rows: Matrix64) -> tuple[NDArray[np.intp], Mask]:
    """Return which features take exactly two values, (k,), and where they take the larger one, (n, k)."""
    low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
    found = np.flatnonzero(((rows == low) | (rows == high)).all(axis=0) & (low < high))
    return found, rows[:, found] == high[found]


def shares_by_class(values: Mask, labels: NDArray[Any], classes: int) -> Matrix64:
    """Return the share of rows with the larger value in each class, (classes, k), as a register prints it.

    One is added to the rows with and to those without it, so that no share is 0 or 1.
    """
    counts = np.stack([values[labels == name].sum(axis=0) for name in range(classes)])
    totals = np.bincount(labels, minlength=classes)[:, None]
    return np.asarray((counts + 1) / (totals + 2))


def search_blindly(
    rep: Matrix64,
    rows: Matrix64,
    labels: NDArray[Any],
    published: Matrix64,
    *,
    rng: np.random.Generator,
    budget_s: float = 2.0,
) -> BlindFindings | None:
    """Attack an uplink from what is in it, and score the result with the rows.

    Parameters
    ----------
    rep : (n, l) ndarray of float64
        X~ as the analyst decodes it, with noise if there is any.
    rows : (n, m) ndarray of float64
        The encoded rows in the same order; used for scoring alone.
    labels : (n,) ndarray of int
        They are sent in the clear.
    published : (classes, k) ndarray of float64
        For the k features of `two_valued`, the share of rows with the larger value in each class, from any
        source: `shares_by_class` of these rows is an attacker's best case.
    rng : numpy.random.Generator
        Decides where the search starts.
    budget_s : float
        No new step of the search begins after so many seconds of computing time: a machine that is busy with
        something else must not make an uplink look safer than it is.

    Returns
    -------
    BlindFindings or None
        None if scikit-learn is missing, or there are too few rows to tell anything.
    """
    if not can_search() or not has_enough(rep):
        return None
    import sklearn.decomposition  # noqa: F401  # takes a second of its own, which is not the search's

    began = time.thread_time()
    features, truth = two_valued(rows)
    splits, separation = find_splits(rep, rng=rng, deadline=began + budget_s)
    is_complete = time.thread_time() <= began + budget_s
    agree = agreement(splits, truth)
    names = name_splits(splits, separation, labels, published)
    given = [(split, feature) for split, feature in names if agree[split, feature]]
    return BlindFindings(
        len(features),
        tuple(int(feature) for feature in features[agree.any(axis=0)]),
        tuple(sorted(int(features[feature]) for _, feature in given)),
        len(names) - len(given),
        time.thread_time() - began,
        is_complete,
    )


def find_splits(
    rep: Matrix64, *, rng: np.random.Generator, deadline: float = np.inf
) -> tuple[Mask, Matrix64]:
    """Return distinct splits of the rows in two clusters, (n, s), the best separated first, and separations.

    Independent components [1]_ and random directions are moved to where the projection looks most like two
    points: where kurtosis less squared skewness, which is at least 1, is 1 (Pearson's inequality) [2]_. Then
    each split is fitted by least squares and split again, until it stays as it is.

    Parameters
    ----------
    rep : (n, l) ndarray of float64
        Not modified.
    deadline : float
        No new analysis and no further descent begins when ``time.thread_time()`` is later.

    References
    ----------
    .. [1] Hyvarinen, IEEE Transactions on Neural Networks 10 (1999) 626-634, doi:10.1109/72.761722.
    .. [2] Pena and Prieto, JASA 96 (2001) 1433-1445 use the kurtosis alone, doi:10.1198/016214501753382345.
    """
    white = _whitened(rep)
    chosen = white[rng.permutation(len(white))[:MOST_ROWS]]
    chance = _best_by_chance(chosen.shape, rng)
    starts = _unit(rng.standard_normal((white.shape[1], RANDOM_STARTS)))
    for fun, algorithm in _ANALYSES:
        if time.thread_time() > deadline:
            break
        starts = np.hstack([starts, _independent(chosen, fun, algorithm, int(rng.integers(2**31)))])
    directions = _refined(chosen, np.hstack([starts, _two_pointed(chosen, starts, deadline)]))
    # some directions at a time: to split takes several times the memory of the projections
    at_once = max(1, SPLIT_AT_ONCE // len(white))
    parts = [
        best_splits(white @ directions[:, start : start + at_once])
        for start in range(0, directions.shape[1], at_once)
    ]
    splits, separation = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    return _distinct(splits, separation, chance + ABOVE_CHANCE)


def best_splits(projections: Matrix64) -> tuple[Mask, Matrix64]:
    """Return the split of each column in two clusters with the least variance inside, and the share between.

    Parameters
    ----------
    projections : (n, s) ndarray of float64

    Returns
    -------
    splits : (n, s) ndarray of bool
        True in the upper cluster.
    separation : (s,) ndarray of float64
        Variance between the clusters as a share of all variance.
    """
    count, columns = projections.shape[0], np.arange(projections.shape[1])
    ordered = np.sort(projections, axis=0)
    ordered_sums = np.cumsum(ordered, axis=0)
    below, lower = np.arange(1, count)[:, None], ordered_sums[:-1]
    gaps = lower / below - (ordered_sums[-1] - lower) / (count - below)
    between = gaps**2 * below * (count - below) / count
    cut = between.argmax(axis=0)
    thresholds = (ordered[cut, columns] + ordered[cut + 1, columns]) / 2
    total = count * projections.var(axis=0)
    return projections > thresholds, between[cut, columns] / np.where(total > 0, total, np.inf)


def name_splits(
    splits: Mask, separation: Matrix64, labels: NDArray[Any], published: Matrix64
) -> list[tuple[int, int]]:
    """Return pairs of split and feature whose shares in each class agree best, each at most once.

    A split does not tell which of its clusters has the larger value, so both are tried. Two features of which
    one is the other's complement are one question; the later is left out.
    """
    from scipy.optimize import linear_sum_assignment  # comes with scikit-learn

    asked = _without_complements(published)
    if not splits.shape[1] or not len(asked):
        return []
    classes = len(published)
    rows = np.bincount(labels, minlength=classes)[:, None, None]
    expected = published[:, None, asked]
    spread = expected * (1 - expected) / np.maximum(rows, 1)
    ones = np.stack([splits[labels == name].sum(axis=0) for name in range(classes)])[:, :, None]
    shares, known = ones / np.maximum(rows, 1), rows > 0
    distances = np.minimum(
        (known * (shares - expected) ** 2 / spread).sum(axis=0),
        (known * (1 - shares - expected) ** 2 / spread).sum(axis=0),
    )
    distances += UNCLEAR * (1 - separation[:, None])
    pairs = zip(*linear_sum_assignment(np.minimum(distances, LIKELY)), strict=True)
    return [(int(split), int(asked[place])) for split, place in pairs if distances[split, place] < LIKELY]


def _without_complements(published: Matrix64) -> NDArray[np.intp]:
    kept: list[int] = []
    for feature in range(published.shape[1]):
        complement = np.abs(published[:, kept] + published[:, [feature]] - 1)
        if not kept or complement.max(axis=0).min() > 1e-9:
            kept.append(feature)
    return np.array(kept, dtype=np.intp)


def agreement(splits: Mask, truth: Mask) -> Mask:
    """Return which splits recover which features, (s, k); a split and its complement are the same."""
    told, true = splits.astype(np.float64), truth.astype(np.float64)
    count = len(true)
    both = told.T @ true
    wrong = told.sum(axis=0)[:, None] + true.sum(axis=0) - 2 * both
    wrong = np.minimum(wrong, count - wrong)
    rarer = np.minimum(true.sum(axis=0), count - true.sum(axis=0))
    return np.asarray((wrong < (1 - RIGHT) * count) & (wrong < (1 - RARER_RIGHT) * rarer))


def _whitened(rep: Matrix64) -> Matrix64:
    left, values, _ = np.linalg.svd(rep - rep.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, values**2 > FLAT * values[0] ** 2] * np.sqrt(len(rep)))


def _unit(directions: Matrix64) -> Matrix64:
    lengths = np.linalg.norm(directions, axis=0)
    return np.asarray(directions / np.where(lengths > 0, lengths, 1))


def _independent(white: Matrix64, fun: str, algorithm: str, seed: int) -> Matrix64:
    from sklearn.decomposition import FastICA

    analysis = FastICA(whiten=False, fun=fun, algorithm=algorithm, random_state=seed, max_iter=200, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a component that has not converged is a start like any other
        return _unit(analysis.fit(white).components_.T)


def _two_pointed(white: Matrix64, directions: Matrix64, deadline: float) -> Matrix64:
    """Descend from each direction, (l, s), to a least value of kurtosis less squared skewness."""
    count = len(white)
    for _ in range(DESCENT_STEPS):
        if time.thread_time() > deadline:
            break
        projected = white @ directions
        squares = projected * projected
        cubes = squares * projected
        skewness, kurtosis = cubes.mean(axis=0), (squares * squares).mean(axis=0)
        gradient = white.T @ (4 * cubes - 6 * skewness * squares) / count
        gradient -= (gradient * directions).sum(axis=0) * directions
        directions = _unit(directions - gradient / (4 * kurtosis + 4))  # about one over the curvature
    return directions


def _refined(white: Matrix64, directions: Matrix64) -> Matrix64:
    """Return the directions that least squares fits to their own splits, again and again."""
    for _ in range(REFINEMENTS):
        splits, _ = best_splits(white @ directions)
        directions = _unit(white.T @ (splits - splits.mean(axis=0)))
    return directions


def _best_by_chance(shape: tuple[int, int], rng: np.random.Generator) -> float:
    """Return the best separation that this search finds where there is nothing to find."""
    white = _whitened(rng.standard_normal((min(shape[0], CHANCE_ROWS), shape[1])))
    starts = _unit(rng.standard_normal((white.shape[1], CHANCE_STARTS)))
    directions = _refined(white, _two_pointed(white, starts, np.inf))
    return float(best_splits(white @ directions)[1].max())


def _distinct(splits: Mask, separation: Matrix64, least: float) -> tuple[Mask, Matrix64]:
    """Return the well separated splits in descending order, without those much like an earlier one."""
    order = np.argsort(-separation, kind="stable")
    order = order[separation[order] > least]
    splits, separation = splits[:, order], separation[order]
    centred = _unit(splits - splits.mean(axis=0))
    alike = np.abs(centred.T @ centred) > SAME
    kept: list[int] = []
    for index in range(splits.shape[1]):
        if not alike[index, kept].any():
            kept.append(index)
    return np.asarray(splits[:, kept]), separation[kept]
