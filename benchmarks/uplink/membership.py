"""Who took part: what somebody with the model can tell of a row that they know, by shadow models.

The attacker is a member: it has h, its own basis and rows of the same population. It maps every row with its
own ``F_i G_i``, which it has, and not with the basis of the member that may have sent the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyst_server.alignment import align
from analyst_server.training.models import FittedModel, Model, fit
from benchmarks.data import Labels, Matrix
from benchmarks.uplink.tables import Cohort, Member

SHADOWS: Final = 64
LEAST_SPREAD: Final = 1e-3


@dataclass(frozen=True)
class Advantage:
    """True-positive less false-positive rate of two attacks on one model.

    The threshold of either half of the rows is the best one on the other half: the best of all thresholds
    would find 0.04 among a thousand rows where there is nothing.

    Attributes
    ----------
    loss : float
        By the model's confidence in the true class alone.
    lira : float
        By the likelihood ratio of that confidence with and without the row.
    """

    loss: float
    lira: float


def attack_model(
    cohort: Cohort, members: int, model: Model, *, shadows: int = SHADOWS, rng: np.random.Generator
) -> Advantage:
    """Train h on the rows of the first members, and tell these from the rows of the others.

    Parameters
    ----------
    cohort : Cohort
        The first member of it is the attacker, whose own rows are not counted; rows of those that are not
        among ``members`` took no part.
    shadows : int
        Models that the attacker trains, each on as many rows as h has, drawn from all.

    References
    ----------
    Carlini, Chien, Nasr, Song, Terzis, Tramer, IEEE S&P 2022, arXiv:2112.03570, Algorithm 1 (online).
    """
    inside, outside = cohort.members[:members], cohort.members[members:]
    aligned, labels, own_map = aligned_rows(inside)
    classes = cohort.schema.label_column.outputs
    pool = np.vstack([one.rows for one in (*inside, *outside)]) @ own_map
    pool_labels = np.concatenate([one.labels for one in (*inside, *outside)])
    own = len(inside[0].rows)
    took_part = np.arange(len(pool)) < len(aligned)
    seen = _confidence(fit(model, aligned, labels, classes), pool, pool_labels)

    def shadow(chosen: Labels) -> Matrix:
        return _confidence(fit(model, pool[chosen], pool_labels[chosen], classes), pool, pool_labels)

    ratio = likelihood_ratios(seen, shadow, len(aligned), shadows, pool_labels, rng)
    inside_rows = took_part & (np.arange(len(pool)) >= own)
    return Advantage(
        advantage(seen[inside_rows], seen[~took_part], rng),
        advantage(ratio[inside_rows], ratio[~took_part], rng),
    )


def aligned_rows(members: Sequence[Member]) -> tuple[Matrix, Labels, Matrix]:
    """Return what a model is trained on, and ``F_i G_i`` of the first member."""
    reps = [member.anchor_rep.astype(np.float32) for member in members]
    rng = np.random.default_rng(0)  # draws the target, which changes no model
    changes = align("isotropic", reps, anchor_is_isotropic=True, rng=rng).changes_of_basis
    rows = np.vstack([one.rep @ change for one, change in zip(members, changes, strict=True)])
    labels = np.concatenate([one.labels for one in members])
    return rows, labels, np.asarray(members[0].basis @ changes[0])


def advantage(inside: Matrix, outside: Matrix, rng: np.random.Generator) -> float:
    """Return the true-positive less the false-positive rate of "above a threshold" that was chosen elsewhere.

    Parameters
    ----------
    inside, outside : (n,) and (k,) ndarray of float64
        Scores of rows that took part, and of rows that did not.
    """
    halves = [np.array_split(rng.permutation(scores), 2) for scores in (inside, outside)]
    found = []
    for chosen, measured in ((0, 1), (1, 0)):
        ours, theirs = halves[0][chosen], halves[1][chosen]
        thresholds = np.concatenate([ours, theirs])
        rates = [np.mean(side[:, None] > thresholds, axis=0) for side in (ours, theirs)]
        best = thresholds[np.argmax(rates[0] - rates[1])]
        found.append(float(np.mean(halves[0][measured] > best) - np.mean(halves[1][measured] > best)))
    return float(np.mean(found))


def likelihood_ratios(
    seen: Matrix,
    shadow: Callable[[Labels], Matrix],
    count: int,
    shadows: int,
    labels: Labels,
    rng: np.random.Generator,
) -> Matrix:
    """Return for each row of a pool the log-likelihood ratio of having been among the training rows.

    Parameters
    ----------
    seen : (n,) ndarray of float64
        The attacked model's confidence in each row, as `shadow` returns it.
    shadow : callable
        Trains a model on the rows of these numbers, and returns its confidence in every row.
    count : int
        Rows that the attacked model was trained on.
    labels : (n,) ndarray of int
        Every shadow gets at least one row of each class.
    """
    told, was_in = np.empty((shadows, len(seen))), np.zeros((shadows, len(seen)), dtype=bool)
    for index in range(shadows):
        order = rng.permutation(len(seen))
        firsts = [order[labels[order] == name][0] for name in np.unique(labels)]
        chosen = np.unique(np.concatenate([firsts, order[:count]]))
        was_in[index, chosen] = True
        told[index] = shadow(chosen)
    present, absent = (np.where(mask, told, np.nan) for mask in (was_in, ~was_in))
    # one spread for all rows: with few shadows, that of each row is known too badly [Carlini et al., VI-C]
    means = [np.nan_to_num(np.nanmean(side, axis=0)) for side in (present, absent)]
    spreads = [
        float(np.sqrt(np.nanmean((side - mean) ** 2))) + LEAST_SPREAD
        for side, mean in zip((present, absent), means, strict=True)
    ]
    logs = [
        -(((seen - mean) / spread) ** 2) / 2 - np.log(spread)
        for mean, spread in zip(means, spreads, strict=True)
    ]
    return np.asarray(logs[0] - logs[1])


def _confidence(model: FittedModel, reps: Matrix, labels: Labels) -> Matrix:
    """Return log(p / (1 - p)) of the probability p of each row's true class."""
    p = np.asarray(model.pipeline.predict_proba(reps)[np.arange(len(labels)), labels]).clip(1e-7, 1 - 1e-7)
    return np.asarray(np.log(p / (1 - p)))
