"""Chooses one of several alignments of the same rows: the one with which a model predicts best.

For given anchor representations, what a method makes of the parties depends on no label, so rows that are
held out may be aligned with all others. Which method is taken does depend on labels: `judging` chooses again
in each of its fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.choosing import Choice, Chosen, Clock, Entrant, compare
from analyst_server.training.dithered_rows import allow_for_dither
from analyst_server.training.far_rows import bring_nearer
from analyst_server.training.models import Model, Senders
from analyst_server.training.tasks import AnyLabels, Matrix, Task

Changes = NDArray[np.floating]
"""The G_i of one method, (c, L, l), by the numbers of the parties; zeros behind one of fewer rows."""


@dataclass(frozen=True, eq=False)
class Alignments:
    """The rows of all parties as they were sent, and what several methods make of them.

    Attributes
    ----------
    rep : (n, L) ndarray
        ``X~_i`` of all parties, stacked, with zeros behind rows of fewer numbers. Only one method's rows are
        in memory beside it at a time.
    senders : (n,) ndarray of int
        The number of the party that sent each row.
    changes : mapping of str to callable
        For each method, in the order in which they are tried, what returns its `Changes`. It raises
        `ValueError` if the parties cannot be aligned by it.
    model : (str, Model)
        The one that is fitted on the rows of each method, with its name.
    budget_s : float
        Seconds after which no further method is tried; the first always is.
    seed : int
        Of the division into parts.
    brings_nearer : bool
        Whether rows far from all others are brought nearer, as before the training (docs/adr/0026).
    dithers : tuple of float
        What each party states, which is allowed for as before the training (docs/adr/0080); empty for none.
    """

    rep: Matrix
    senders: Senders
    changes: Mapping[str, Callable[[], Changes]]
    model: tuple[str, Model]
    budget_s: float
    seed: int
    brings_nearer: bool = False
    dithers: tuple[float, ...] = ()

    def choice(
        self, labels: AnyLabels, task: Task, among: Chosen | None = None, *, clock: Clock = time.monotonic
    ) -> Choice:
        """Compare the methods by `choosing.compare`, on the rows in ``among`` or on all, and choose one.

        Parameters
        ----------
        labels : (n,) ndarray
            Of all rows.
        task : Task
        among : (n,) ndarray of bool, optional
            The rows that may choose.
        """
        taken = np.ones(len(labels), np.bool_) if among is None else among
        name, model = self.model
        entrants = [Entrant(method, model, partial(self.rows, method, taken)) for method in self.changes]
        found = compare(
            entrants,
            labels[taken],
            task,
            self.senders[taken],
            budget_s=self.budget_s,
            seed=self.seed,
            clock=clock,
        )
        # the model is the same for all, so its size says nothing of a method
        candidates = tuple(replace(one, parameters=None) for one in found.candidates)
        return replace(found, candidates=candidates, scored_by=name)

    def rows(self, method: str, among: Chosen) -> Matrix:
        """Return ``X~_i G_i`` of some rows by one method; raises `ValueError` as its ``changes`` do."""
        if not self.brings_nearer and not any(self.dithers):
            return self._aligned(method, np.flatnonzero(among))
        aligned = self._aligned(method, np.arange(len(self.rep)))  # all rows say what is noise
        for party, dither in enumerate(self.dithers):
            if dither:
                own = self.senders == party
                expected = aligned[own]
                allow_for_dither(expected, dither)
                aligned[own] = expected
        if self.brings_nearer:
            bring_nearer(aligned)
        return np.asarray(aligned[among])

    def _aligned(self, method: str, taken: NDArray[np.intp]) -> Matrix:
        changes = self.changes[method]()
        aligned = np.empty((len(taken), changes.shape[2]), self.rep.dtype)
        for party in np.unique(self.senders[taken]):
            own = self.senders[taken] == party
            aligned[own] = self.rep[taken[own]] @ changes[party].astype(self.rep.dtype)
        return aligned

    def chosen_by(self, among: Chosen, labels: AnyLabels, task: Task) -> tuple[Matrix, Choice]:
        """Return all rows by the method that some of them choose, and how they chose it."""
        choice = self.choice(labels, task, among)
        return self.rows(choice.name, np.ones(len(labels), np.bool_)), choice

    def sharing_its_time(self, fits: int) -> Alignments:
        """Return it with its time divided among so many fits."""
        return replace(self, budget_s=self.budget_s / fits)
