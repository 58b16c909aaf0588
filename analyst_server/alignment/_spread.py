"""Anchor representations that are worked on elsewhere, a group of parties at a time.

For a list of matrices everything is computed here. Spread ones lie where several processes read them: what is
computed of one party after another is a function of this room, which is called there for each group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment._contract import AnchorReps, Matrix

Found = tuple[NDArray[Any], ...]
Work = Callable[..., Found]
"""Called as ``work(reps, own, *shared)`` for the parties of a group; defined in a module, so that its name
travels."""


class SpreadReps(Sequence[Matrix]):
    """``A_i`` of each party, to be worked on by groups of parties; indexed, it reads one of them."""

    @property
    @abstractmethod
    def shapes(self) -> Sequence[tuple[int, ...]]:
        """The shape of each, without reading it."""

    @property
    @abstractmethod
    def dtypes(self) -> Sequence[np.dtype[Any]]:
        """The type of each, without reading it."""

    @abstractmethod
    def by_group(
        self,
        work: Work,
        *shared: Matrix,
        own: Sequence[Matrix] | None = None,
        of: Sequence[int] | None = None,
    ) -> list[Found]:
        """Return what ``work`` returns for each group, in the order of the parties.

        Parameters
        ----------
        work : callable
        shared : ndarrays
            What every group needs.
        own : sequence of ndarrays, optional
            One for each party of ``of``.
        of : sequence of int, optional
            The parties, in ascending order; all if not given.
        """

    @abstractmethod
    def added(self, work: Work, *, own: Sequence[Matrix], of: Sequence[int]) -> Matrix:
        """Return the sum of the one matrix that ``work`` returns for each group, added in a tree."""


def shapes_of(anchor_reps: AnchorReps) -> Sequence[tuple[int, ...]]:
    """Return the shape of each anchor representation."""
    return anchor_reps.shapes if isinstance(anchor_reps, SpreadReps) else [rep.shape for rep in anchor_reps]


def common_dtype(anchor_reps: AnchorReps) -> np.dtype[Any]:
    """Return the type that all anchor representations fit into."""
    given = anchor_reps.dtypes if isinstance(anchor_reps, SpreadReps) else anchor_reps
    return np.result_type(*given)


def joined(groups: Sequence[Found]) -> NDArray[Any]:
    """Return what the groups have found, one after another; each has answered with one array."""
    return np.concatenate([found for (found,) in groups])
