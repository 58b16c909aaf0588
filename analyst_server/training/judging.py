"""Judges a kind of model on rows that did not train it: inside the parties, and party by party.

It fits models of the same kind on parts of the rows. `judgement` has the scores, and what follows from them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyst_server.training.alignments import Alignments
from analyst_server.training.calibration import Calibration
from analyst_server.training.groups import Grouping, fit_groups
from analyst_server.training.judgement import (
    NOT_JUDGED,
    Judgement,
    conclude,
    mean_over_parties,
    mean_over_rows,
)
from analyst_server.training.models import Senders, Trainable
from analyst_server.training.parts import parts_of_parties
from analyst_server.training.party_scores import PartyScore
from analyst_server.training.tasks import AnyLabels, Classes, Matrix, Task

log = logging.getLogger(__name__)

FOLDS: Final = 5
"""Parts that the rows of each party are divided into; each is scored by a fit on the other parts."""
MOST_GROUPS: Final = 10
"""Most groups of parties of which each is left out once."""
MANY_ROWS: Final = 20_000
"""Beyond it only one part is scored, and `GROUPS_OF_MANY` groups: six fits more instead of fifteen."""
GROUPS_OF_MANY: Final = 5

Chosen = NDArray[np.bool_]
Part = tuple[str, Chosen]
"""Rows to hold out, and what a reader calls them."""


def judge(
    model: Trainable,
    aligned_rep: Matrix,
    labels: AnyLabels,
    task: Task,
    senders: Senders,
    names: Sequence[str],
    *,
    alignments: Alignments | None = None,
    grouping: Grouping | None = None,
) -> Judgement:
    """Score a model of this kind within the parties and across them, if members may see that; never raises.

    Where the alignment or the model is chosen, each fit chooses both again, on its own rows alone.

    Parameters
    ----------
    aligned_rep, labels, task
        What the released model was fitted on, as for `models.fit_task`.
    senders : (n,) ndarray of int
        The number of the party that sent each row.
    names : sequence of str
        The parties by that number; those without rows are not judged.
    alignments : Alignments, optional
        What ``aligned_rep`` was chosen from, if there was a choice.
    grouping : Grouping, optional
        Which parties share a model; each fit groups them again by its own rows.
    """
    if not model.may_be_judged:
        return NOT_JUDGED
    try:
        return _judge(model, aligned_rep, labels, task, senders, names, alignments, grouping)
    except Exception as error:  # a round does not fail because it cannot be judged
        log.exception("the model could not be judged")
        return Judgement(why_none=f"judging failed ({type(error).__name__}); the analyst's log has the story")


def _judge(
    model: Trainable,
    aligned_rep: Matrix,
    labels: AnyLabels,
    task: Task,
    senders: Senders,
    names: Sequence[str],
    alignments: Alignments | None,
    grouping: Grouping | None,
) -> Judgement:
    present = np.unique(senders).tolist()
    mixed = [party for party in present if len(np.unique(labels[senders == party])) > 1]
    notes: list[str] = []
    within_parts = list(_parts_of_parties(task.strata(labels), senders, model.seed)) if mixed else []
    across_parts = list(_groups_of_parties(senders, present, names)) if len(present) > 1 and mixed else []
    fits = max(1, len(within_parts) + len(across_parts))
    again = _Again(
        model.sharing_its_time(fits),
        aligned_rep,
        labels,
        task,
        senders,
        alignments.sharing_its_time(fits) if alignments else None,
        grouping,
    )

    def predicted(parts: Iterable[Part]) -> list[Matrix]:
        """Return what is predicted to each party for rows held out, and with groups by the model of all."""
        found = [np.full((len(labels), task.width), np.nan) for _ in range(1 if grouping is None else 2)]
        for name, held in parts:
            if not held.any():
                continue
            try:
                for whole, part in zip(found, again.predictions(held), strict=False):
                    whole[held] = part
            except ValueError as error:  # too few rows are left
                notes.append(f"{name} could not be held out: {error}")
        return found

    def scored(predictions: Matrix) -> tuple[dict[str, PartyScore], Calibration | None]:
        known = ~np.isnan(predictions[:, 0])
        found = ((party, known & (senders == party)) for party in present)
        scores = {party: task.score(labels[own], predictions[own]) for party, own in found}
        able = {party: score for party, score in scores.items() if score is not None}
        together = known & np.isin(senders, list(able))
        calibration = task.calibration(labels[together], predictions[together])
        return {names[party]: score for party, score in able.items()}, calibration

    # one after the other, because predictions for all rows take as much memory as a fit
    within, *by_one = map(scored, predicted(within_parts))
    across, *_ = map(scored, predicted(across_parts))
    notes += again.cut_short()
    return conclude(
        mean_over_rows(*within),
        mean_over_parties(*across),
        one_for_all=mean_over_rows(*by_one[0]) if by_one else None,
        rows={names[party]: int((senders == party).sum()) for party in present},
        one_class=len(present) - len(mixed) if isinstance(task, Classes) else 0,
        enough=task.enough,
        notes=notes,
    )


@dataclass
class _Again:
    """Makes the choices and the fit of the released model again, without some rows."""

    model: Trainable
    aligned_rep: Matrix
    labels: AnyLabels
    task: Task
    senders: Senders
    alignments: Alignments | None
    grouping: Grouping | None = None
    models_cut_short: int = 0
    alignments_cut_short: int = 0

    def predictions(self, held: Chosen) -> tuple[Matrix, Matrix]:
        """Return what the model of its party, and what that of all rows predicts for each row held out.

        Raises `ValueError` if too few rows are left.
        """
        rows = self.aligned_rep
        if self.alignments is not None:
            rows, choice = self.alignments.chosen_by(~held, self.labels, self.task)
            self.alignments_cut_short += choice.ran_out_of_time
        left = ~held
        fits = fit_groups(
            self.model, rows[left], self.labels[left], self.task, self.senders[left], self.grouping
        )
        self.models_cut_short += fits.ran_out_of_time
        by_one = fits.of_all.predictions(rows[held])
        return (fits.predictions(rows[held], self.senders[held]) if fits.groups else by_one), by_one

    def cut_short(self) -> Iterator[str]:
        """Yield in how many fits there was no time to compare everything."""
        for what, fits in (("alignments", self.alignments_cut_short), ("models", self.models_cut_short)):
            if fits:
                yield f"in {fits} fits for judging, the time was over before all {what} were compared"


def _parts_of_parties(strata: NDArray[np.integer], senders: Senders, seed: int) -> Iterator[Part]:
    """Yield parts of the rows, each with its share of every stratum of every party."""
    part = parts_of_parties(strata, senders, FOLDS, seed)
    for number in range(FOLDS if len(strata) <= MANY_ROWS else 1):
        yield f"part {number + 1} of every party's rows", part == number


def _groups_of_parties(senders: Senders, present: Sequence[int], names: Sequence[str]) -> Iterator[Part]:
    """Yield the rows of each party, or of each of as many groups of parties as may be fitted."""
    groups = min(len(present), MOST_GROUPS if len(senders) <= MANY_ROWS else GROUPS_OF_MANY)
    for number in range(groups):
        group = present[number::groups]
        name = names[group[0]] if len(group) == 1 else f"group {number + 1} of {len(group)} parties"
        yield f"the rows of {name}" if len(group) == 1 else name, np.isin(senders, group)
