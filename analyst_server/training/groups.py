"""One model for each group of parties with like shares of the classes, beside the one of all rows (DC-CFL).

Where the shares of the classes differ much between parties, so does how likely a class is for the same
row, and one model for all is right for none of them. Parties are grouped by their labels alone, because
these can be compared before anything is trained (arXiv:2601.09304).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from analyst_server.training.models import FittedModel, Labels, Senders, Trainable, fit_task
from analyst_server.training.tasks import AnyLabels, Matrix, Task

log = logging.getLogger(__name__)

ROUNDING: Final = 1e-9
"""How far a distance may be above the largest one: shares of 0.2 and 0.4 are no more than 0.2 apart."""


@dataclass(frozen=True)
class Grouping:
    """Which parties are alike.

    Attributes
    ----------
    largest_distance : float
        Total variation distance between the shares of any two parties of a group, at most.
    least_parties : int
        Fewest parties of a group.
    """

    largest_distance: float
    least_parties: int = 2

    def groups(self, labels: Labels, senders: Senders) -> list[NDArray[np.integer]]:
        """Return the numbers of the parties of each group, the group of the lowest number first.

        Groups are joined as long as their most distant parties are near enough (complete linkage).
        """
        present = np.unique(senders)
        if len(present) < 2:
            return []
        # pdist sums absolute differences, which count each row that is of another class twice
        distances = pdist(_shares(labels, senders, present), "cityblock") / 2
        number = fcluster(linkage(distances, "complete"), self.largest_distance + ROUNDING, "distance")
        found = [present[number == each] for each in np.unique(number)]
        return sorted((one for one in found if len(one) >= self.least_parties), key=lambda one: int(one[0]))


@dataclass(frozen=True)
class GroupModel:
    """The model of one group: the numbers of its parties, and how many rows trained it."""

    parties: tuple[int, ...]
    rows: int
    fitted: FittedModel


@dataclass(frozen=True)
class Fits:
    """The model of all rows, and that of every group that has one."""

    of_all: FittedModel
    groups: tuple[GroupModel, ...] = ()

    @property
    def ran_out_of_time(self) -> bool:
        """Whether a choice among models was cut short."""
        fitted = [self.of_all, *(group.fitted for group in self.groups)]
        return any(one.choice is not None and one.choice.ran_out_of_time for one in fitted)

    def predictions(self, aligned_rep: Matrix, senders: Senders) -> Matrix:
        """Return what the model of each row's party predicts, (n, k)."""
        found = self.of_all.predictions(aligned_rep)
        for group in self.groups:
            own = np.isin(senders, group.parties)
            if own.any():
                found[own] = group.fitted.predictions(aligned_rep[own])
        return found


def fit_groups(
    asked: Trainable,
    aligned_rep: Matrix,
    labels: AnyLabels,
    task: Task,
    senders: Senders,
    grouping: Grouping | None,
) -> Fits:
    """Fit a model on all rows and one on those of each group, as `models.fit_task` does.

    A group whose rows do not suffice, as where a class has none, has no model of its own; nor has one of all
    parties. Without a grouping there are no groups.
    """
    members = grouping.groups(labels, senders) if grouping is not None else []
    if len(members) == 1 and len(members[0]) == len(np.unique(senders)):
        members = []
    each = asked.sharing_its_time(1 + len(members))
    of_all = fit_task(each, aligned_rep, labels, task, senders)
    found = []
    for parties in members:
        own = np.isin(senders, parties)
        try:
            fitted = fit_task(each, aligned_rep[own], labels[own], task, senders[own])
        except ValueError:
            log.warning("the group of parties %s has no model of its own", parties.tolist(), exc_info=True)
            continue
        found.append(GroupModel(tuple(parties.tolist()), int(own.sum()), fitted))
    return Fits(of_all, tuple(found))


def _shares(labels: Labels, senders: Senders, present: NDArray[np.integer]) -> Matrix:
    """Return the share of each class in the rows of each party, (parties, classes)."""
    classes = int(labels.max()) + 1
    cells = np.searchsorted(present, senders) * classes + labels
    counts = np.bincount(cells, minlength=len(present) * classes).reshape(len(present), classes)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
