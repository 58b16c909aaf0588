"""Chooses by cross-validation on the rows that train, leaving out groups of parties: one of several models.

A score on rows that took part in the choice is too good, so nothing here is shown as a score of the released
model: `judging` chooses again in each of its fits. `alignments` chooses among alignments in the same way.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.models import FittedModel, Model, Senders, Trainable, fit_task
from analyst_server.training.parts import parts_of_parties
from analyst_server.training.progress import counting
from analyst_server.training.tasks import AnyLabels, Classes, Matrix, Task

log = logging.getLogger(__name__)

FOLDS: Final = 5
"""Most groups of parties, or parts of the rows, of which each is left out once."""
LEAST_GROUPS: Final = 3
"""With fewer groups of parties to score on, parts of every party's rows are left out instead."""
LEAST_PARTS: Final = 2
"""With fewer parts to score on there is no spread, and nothing to choose by."""
BY_CHANCE: Final = 2.0
"""Standard errors by which a candidate may be behind the best and still be as good."""
RULE: Final = (
    "the first, in the order of the terms, whose mean is behind the best by at most two standard errors of"
    " the difference over the folds"
)
NOT_COMPARED: Final = "there are too few rows to compare on, so the first is taken"
NO_PARTY_HAS_ALL: Final = (
    "no party has rows of every class, which its score needs, so there is nothing to compare on, and the"
    " first is taken"
)
NO_TIME: Final = "not tried to the end: the time was over"
NOT_FITTED: Final = "it could not be fitted without some of the parts"
NO_ROWS: Final = "the parties could not be aligned by it"

Chosen = NDArray[np.bool_]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Entrant:
    """What takes part in a comparison: a model, and the rows that it is fitted and scored on.

    Attributes
    ----------
    name : str
    model : Model
    rows : callable
        Returns the aligned rows (n, l); raises `ValueError` if there are none. Called once at most.
    """

    name: str
    model: Model
    rows: Callable[[], Matrix]


@dataclass(frozen=True)
class Candidate:
    """One model or alignment of a choice, and how it did.

    Attributes
    ----------
    name : str
        Of a model its kind, with the options that are not the defaults; of an alignment its method.
    scores : tuple of float
        The decisive score of the task for each fold: the mean over its parties, weighted by rows.
    parameters : int, optional
        Most numbers that it had in a fold.
    why_none : str, optional
        Why it has no score, in one sentence.
    """

    name: str
    scores: tuple[float, ...] = ()
    parameters: int | None = None
    why_none: str | None = None

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))


@dataclass(frozen=True)
class Choice:
    """What was compared, how, and which was chosen.

    Attributes
    ----------
    candidates : tuple of Candidate
        In the order in which they were tried.
    chosen : int
        Which of them.
    metric : str
        Name of the score.
    folds : str
        What was left out, in words.
    rule : str
        By which one was chosen, in words.
    scored_parties : int
        How many parties the scores come from.
    scored_by : str, optional
        Of alignments the model whose scores these are.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    metric: str
    folds: str
    rule: str
    scored_parties: int
    scored_by: str | None = None

    @property
    def ran_out_of_time(self) -> bool:
        return any(one.why_none == NO_TIME for one in self.candidates)

    @property
    def name(self) -> str:
        """The name of the chosen one."""
        return self.candidates[self.chosen].name

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values: of each candidate the mean and the spread, no score of a fold."""
        return {
            **({"scored_by": self.scored_by} if self.scored_by else {}),
            "chosen": self.name,
            "rule": self.rule,
            "folds": self.folds,
            "metric": self.metric,
            "scored_parties": self.scored_parties,
            "candidates": [_plain(one) for one in self.candidates],
        }


@dataclass(frozen=True)
class Auto(Trainable):
    """The best of several models, chosen anew for the rows of each fit.

    Attributes
    ----------
    candidates : tuple of (str, Model)
        Each with its name, in the order in which they are tried.
    budget_s : float
        Seconds after which no further one is tried; the first always is.
    """

    candidates: tuple[tuple[str, Model], ...] = ()
    budget_s: float = math.inf

    @property
    def needs_principal_axes(self) -> bool:  # type: ignore[override]  # it follows from the candidates
        return any(model.needs_principal_axes for _, model in self.candidates)

    def chosen(
        self, aligned_rep: Matrix, labels: AnyLabels, task: Task, senders: Senders
    ) -> tuple[Model, Choice | None]:
        choice = choose(
            self.candidates, aligned_rep, labels, task, senders, budget_s=self.budget_s, seed=self.seed
        )
        return self.candidates[choice.chosen][1], choice

    def sharing_its_time(self, fits: int) -> Auto:
        return replace(self, budget_s=self.budget_s / fits)


def choose(
    candidates: Sequence[tuple[str, Model]],
    aligned_rep: Matrix,
    labels: AnyLabels,
    task: Task,
    senders: Senders,
    *,
    budget_s: float,
    seed: int,
    clock: Clock = time.monotonic,
) -> Choice:
    """Compare models by `compare`, on the same rows.

    Parameters
    ----------
    candidates : sequence of (str, Model)
        In the order in which they are tried.
    aligned_rep, labels, task, senders
        As for `models.fit_task`.
    budget_s, seed, clock
        As for `compare`.
    """
    entrants = [Entrant(name, model, lambda: aligned_rep) for name, model in candidates]
    return compare(entrants, labels, task, senders, budget_s=budget_s, seed=seed, clock=clock)


def compare(
    entrants: Sequence[Entrant],
    labels: AnyLabels,
    task: Task,
    senders: Senders,
    *,
    budget_s: float,
    seed: int,
    clock: Clock = time.monotonic,
) -> Choice:
    """Compare models on parts of the rows, each left out once, and choose one by `RULE`.

    The parts are groups of parties, because a model can learn who sent a row; parts of every party's rows
    where too few groups can be scored. All are scored on the same parts.

    Parameters
    ----------
    entrants : sequence of Entrant
        In the order in which they are tried; all have the same rows in the same order.
    labels, task, senders
        As for `models.fit_task`.
    budget_s : float
        Seconds after which no fit begins, but for the first candidate; one that is not through by then has
        no score.
    seed : int
        Of the division into parts.
    """
    folds, words = _folds(labels, task, senders, seed)
    if not folds:
        why = NOT_COMPARED
        if isinstance(task, Classes) and not _has_all_strata(labels, task, senders):
            why = NO_PARTY_HAS_ALL
        untried = tuple(Candidate(one.name, why_none=why) for one in entrants)
        return Choice(untried, 0, task.decisive, words, why, 0)
    comparison = _Comparison(labels, task, folds)
    end = clock() + budget_s
    tried: list[Candidate] = []
    with counting(len(entrants), "candidates") as note:
        for one in entrants:
            tried.append(comparison.tried(one, lambda: not tried or clock() < end))
            note(len(tried))
    parties = {int(senders[own[0]]) for fold in folds for own in fold.parties}
    return Choice(tuple(tried), _best(tried), task.decisive, words, RULE, len(parties))


def _has_all_strata(labels: AnyLabels, task: Task, senders: Senders) -> bool:
    """Return whether a party has rows of every stratum, and so of every class."""
    strata = task.strata(labels)
    of_each = (len(np.unique(strata[senders == party])) for party in np.unique(senders))
    return max(of_each, default=0) == len(np.unique(strata))


@dataclass(frozen=True)
class _Fold:
    """Rows to leave out, and the numbers of those of each party among them that can be scored."""

    held: Chosen
    parties: tuple[NDArray[np.integer], ...]


def _folds(labels: AnyLabels, task: Task, senders: Senders, seed: int) -> tuple[list[_Fold], str]:
    """Return what is left out, and what a reader calls it."""
    present = np.random.default_rng(seed).permutation(np.unique(senders))
    count = min(FOLDS, len(present))
    groups = (np.isin(senders, present[number::count]) for number in range(count))
    if len(found := list(_usable(groups, labels, task, senders))) >= LEAST_GROUPS:
        whole = "parties" if len(present) == count else "groups of parties"
        return found, f"{len(found)} {whole}, each left out in turn"
    part = parts_of_parties(task.strata(labels), senders, FOLDS, seed)
    found = list(_usable((part == number for number in range(FOLDS)), labels, task, senders))
    if len(found) < LEAST_PARTS:
        return [], "none"
    return found, f"{len(found)} parts of every party's rows, each left out in turn (too few parties)"


def _usable(parts: Iterable[Chosen], labels: AnyLabels, task: Task, senders: Senders) -> Iterator[_Fold]:
    """Yield the parts without which every stratum still trains, and that have a party to score."""
    strata = task.strata(labels)
    all_strata = len(np.unique(strata))
    for held in parts:
        owned = (np.flatnonzero(held & (senders == party)) for party in np.unique(senders[held]))
        # whether a party can be scored depends on its labels alone
        able = tuple(own for own in owned if task.score(labels[own], np.zeros((len(own), task.width))))
        if able and len(np.unique(strata[~held])) == all_strata:
            yield _Fold(held, able)


@dataclass(frozen=True)
class _Comparison:
    """The parts of the rows that all are scored on."""

    labels: AnyLabels
    task: Task
    folds: Sequence[_Fold]

    def tried(self, one: Entrant, has_time: Callable[[], bool]) -> Candidate:
        """Return a candidate with its score for each fold, or why it has none."""
        rows, scores, parameters = None, [], 0
        for fold in self.folds:
            if not has_time():
                return Candidate(one.name, why_none=NO_TIME)
            try:
                rows = one.rows() if rows is None else rows
            except ValueError:
                log.info("no rows for %s", one.name, exc_info=True)
                return Candidate(one.name, why_none=NO_ROWS)
            try:
                fitted = fit_task(one.model, rows[~fold.held], self.labels[~fold.held], self.task)
            except ValueError:
                log.info("%s could not be fitted on all parts", one.name, exc_info=True)
                return Candidate(one.name, why_none=NOT_FITTED)
            scores.append(self._mean_score(fitted, rows, fold))
            parameters = max(parameters, fitted.parameters)
        return Candidate(one.name, tuple(scores), parameters)

    def _mean_score(self, fitted: FittedModel, aligned_rep: Matrix, fold: _Fold) -> float:
        """Return the mean over the parties of a fold, weighted by their rows."""
        values, rows = [], []
        for own in fold.parties:
            score = self.task.score(self.labels[own], fitted.predictions(aligned_rep[own]))
            if score is not None:
                values.append(score.figures[self.task.decisive].value)
                rows.append(score.rows)
        return float(np.average(values, weights=rows))


def _best(tried: Sequence[Candidate]) -> int:
    """Return the number of the candidate to take by `RULE`; the first if none has a score."""
    scored = [number for number, one in enumerate(tried) if one.scores]
    if not scored:
        return 0
    best = max(scored, key=lambda number: tried[number].mean)
    return next(number for number in scored if _is_as_good(tried[number].scores, tried[best].scores))


def _is_as_good(scores: Sequence[float], best: Sequence[float]) -> bool:
    behind = np.subtract(best, scores)
    return bool(behind.mean() <= BY_CHANCE * behind.std(ddof=1) / math.sqrt(len(behind)))


def _plain(one: Candidate) -> dict[str, Any]:
    has_scores = bool(one.scores)
    return {
        "name": one.name,
        "mean": one.mean if has_scores else None,
        "spread": float(np.std(one.scores, ddof=1)) if has_scores else None,
        "folds": len(one.scores),
        "parameters": one.parameters,
        "why_none": one.why_none,
    }
