"""Cox's proportional hazards on a party's own rows, and what a row's survival says beyond everybody's.

Times are as on the wire: from 0 to 1, negative where the event was not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from user_client.secret.expansion import Matrix64
from user_client.secret.minimise import minimise

ITERATIONS: Final = 1000
_ROWS_AT_ONCE: Final = 2**16
HIGHEST: Final = 80.0
"""Of a row's score, either way, as at the analyst."""


@dataclass(frozen=True, repr=False)
class Hazards:
    """A fitted model: the probability of no event until each time is ``exp(-baseline exp(X w))``.

    Attributes
    ----------
    weights : (m,) ndarray
    baseline : (k,) ndarray
        Cumulative hazard at each time.
    """

    weights: Matrix64
    baseline: Matrix64

    def __repr__(self) -> str:
        return f"<Hazards at {len(self.baseline)} times>"

    def survival(self, rows: Matrix64) -> Matrix64:
        """Return the probability that the event comes after each time, (n, k)."""
        risks = np.exp(np.clip(rows @ self.weights, -HIGHEST, HIGHEST))
        return np.asarray(np.exp(-risks[:, None] * self.baseline))


def fit_hazards(rows: Matrix64, labels: Matrix64, times: Sequence[float], inverse_penalty: float) -> Hazards:
    """Return the weights w that maximise Breslow's partial likelihood less ``norm(w)^2 / (2 C)``.

    Parameters
    ----------
    rows : (n, m) ndarray of float64
        Of mean 0.
    labels : (n,) ndarray
    times : sequence of float
        In ascending order.
    inverse_penalty : float
        C.
    """
    order = np.argsort(-np.abs(labels), kind="stable")
    until, event = np.abs(labels[order]), (labels[order] > 0).astype(np.float64)
    ordered = rows[order]
    first, last = (np.searchsorted(-until, -until, side) for side in ("left", "right"))
    penalty, count = 1 / (inverse_penalty * len(rows)), len(rows)

    def loss(weights: Matrix64) -> tuple[float, Matrix64]:
        scores = ordered @ weights
        highest = float(scores.max())
        hazards = np.exp(scores - highest)
        at_risk = np.cumsum(hazards)[last - 1]
        value = float(event @ (np.log(at_risk) + highest - scores)) / count
        summed = np.cumsum((event / at_risk)[::-1])[::-1][first]  # over events up to each row's time
        slope = (hazards * summed - event) @ ordered / count
        return value + penalty * float(weights @ weights) / 2, slope + penalty * weights

    weights = minimise(loss, np.zeros(rows.shape[1]), iterations=ITERATIONS)
    steps = event / np.cumsum(np.exp(ordered @ weights))[last - 1]
    return Hazards(weights, np.array([steps[until <= time].sum() for time in times]))


def residuals(labels: Matrix64) -> Matrix64:
    """Return the martingale residuals without any feature: 1 or 0 for the event, less the hazard survived.

    They order rows as their survival does, so that a regression on them finds what the label depends on.
    """
    until = np.sort(np.abs(labels))
    # the first row of each time; the rows from there on are at risk
    first = np.flatnonzero(np.append(True, until[1:] != until[:-1])[: len(until)])
    distinct, at_risk, events = until[first], len(until) - first, np.zeros(len(first))
    del until
    # a part of the rows at a time: numbers of eight bytes for all of them would be many times the labels
    parts = [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(labels), _ROWS_AT_ONCE)]
    for part in parts:
        times = np.abs(labels[part][labels[part] > 0])
        np.add.at(events, np.searchsorted(distinct, times), 1)
    hazard, found = np.cumsum(events / at_risk), np.empty(len(labels))
    for part in parts:
        found[part] = (labels[part] > 0) - hazard[np.searchsorted(distinct, np.abs(labels[part]))]
    return found
