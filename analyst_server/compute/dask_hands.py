"""An alignment spread over the workers of a Dask scheduler, from inside a step that one of them runs.

A group of parties goes to the same worker each time, which reads their anchor representations once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyst_server.alignment import AnchorReps, SpreadReps, Work
from analyst_server.blobs import Blobs, StoredArray
from analyst_server.compute.dask_group import (
    Anchored,
    Answer,
    Group,
    Packed,
    forget_matrices,
    opened,
    require_intact,
)
from analyst_server.compute.dask_step import run_here
from analyst_server.compute.sequence import PartyArrays, RoundSpec
from analyst_server.compute.spreading import Hands
from analyst_server.training import progress

T = TypeVar("T")
Matrix = NDArray[Any]

WORTH_SPREADING: Final = 2**28
"""Multiplications of one pass over all parties below which the messages would take longer."""
MOST_OF_A_GROUP: Final = 64
"""Parties of a group: what says where they lie goes through the scheduler."""
ADDED_AT_ONCE: Final = 4


@contextmanager
def dask_hands(spec: RoundSpec, blobs: Blobs) -> Iterator[Hands]:
    """Yield the workers of this worker's scheduler; this process alone if there is no other, or little to do.

    To be called in a step: its thread is no longer one of the worker's, which takes a group meanwhile.
    """
    from distributed import Client, get_worker, secede

    shapes = [party.anchor_rep.shape for party in spec.parties]
    if sum(rows * latent_dim**2 for rows, latent_dim in shapes) < WORTH_SPREADING:
        yield Hands(blobs)
        return
    # with a client of our own all answers come by way of the scheduler: workers do not reach each other
    with Client(get_worker().scheduler.address, set_as_default=False, direct_to_workers=False) as client:
        workers = sorted(client.nthreads())
        if len(workers) < 2:
            yield Hands(blobs)
            return
        secede()
        hands = DaskHands(client, workers, blobs, f"{spec.folder}/groups")
        try:
            yield hands
        finally:
            hands.put_away()


class DaskHands(Hands):
    """Workers that read the blobs.

    Parameters
    ----------
    client : distributed.Client
    workers : sequence of str
        Their addresses.
    blobs : Blobs
        A store that all of them reach.
    folder : str
        Folder of what they write; it is erased by `put_away`.
    """

    def __init__(self, client: Any, workers: Sequence[str], blobs: Blobs, folder: str) -> None:
        super().__init__(blobs)
        self._client, self._workers, self.folder = client, workers, folder

    def groups(self, number: int) -> list[range]:
        """Return the parties of each group, of so many."""
        # one for each worker: a message takes time in which nothing is multiplied
        groups = min(number, max(len(self._workers), -(-number // MOST_OF_A_GROUP)))
        borders = [number * part // groups for part in range(groups + 1)]
        return [range(*pair) for pair in pairwise(borders)]

    def run(self, tasks: Sequence[tuple[int, Callable[..., T], tuple[Any, ...]]]) -> list[T]:
        """Run tasks, each a group's number, a function and its arguments; return what they return."""
        waiting = [
            self._client.submit(
                run_here,
                act,
                *arguments,
                key=f"group-{uuid.uuid4().hex}",
                pure=False,
                workers=[self._workers[group % len(self._workers)]],
                allow_other_workers=True,
            )
            for group, act, arguments in tasks
        ]
        try:
            return [one.result() for one in waiting]
        finally:
            for one in waiting:
                one.release()

    def require_intact(self, arrays: Sequence[StoredArray]) -> None:
        progress.begin("checking")
        tasks = [
            (number, require_intact, (self._blobs, [arrays[index] for index in group]))
            for number, group in enumerate(self.groups(len(arrays)))
        ]
        self.run(tasks)

    def anchor_reps(self, parties: Sequence[PartyArrays]) -> AnchorReps:
        return DaskReps(self, self._blobs, [(one.anchor_rep, one.anchor_rep_scale) for one in parties])

    def put_away(self) -> None:
        """Erase what was written, and let the workers forget what they have read."""
        with suppress(Exception):  # what stays is erased with the folder of the round
            self._client.run(forget_matrices)
        self.erase(self.folder)

    def erase(self, folder: str) -> None:
        """Erase what was written there."""
        with suppress(OSError):  # a worker that was given up may still be writing
            self._blobs.erase(folder)


class DaskReps(SpreadReps):
    """``A_i`` of each party, where its blob is."""

    def __init__(self, hands: DaskHands, blobs: Blobs, parties: Sequence[Anchored]) -> None:
        self._hands, self._blobs, self._parties = hands, blobs, parties
        self._groups, self._calls = hands.groups(len(parties)), count()

    def __len__(self) -> int:
        return len(self._parties)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return self._group(self._hands.folder, [index]).anchor_reps()[0]

    @property
    def shapes(self) -> Sequence[tuple[int, ...]]:
        return [stored.shape for stored, _ in self._parties]

    @property
    def dtypes(self) -> Sequence[np.dtype[Any]]:
        return [
            np.dtype(np.float64 if scale is None and np.dtype(stored.dtype).itemsize > 4 else np.float32)
            for stored, scale in self._parties
        ]

    def by_group(
        self,
        work: Work,
        *shared: Matrix,
        own: Sequence[Matrix] | None = None,
        of: Sequence[int] | None = None,
    ) -> list[tuple[Matrix, ...]]:
        folder, answers = self._answers(work, shared, own, of)
        found = [opened(answer, self._blobs) for answer in answers]
        self._hands.erase(folder)
        return found

    def added(self, work: Work, *, own: Sequence[Matrix], of: Sequence[int]) -> Matrix:
        folder, answers = self._answers(work, (), own, of)
        adder = self._group(folder, [])
        while len(answers) > ADDED_AT_ONCE:
            some = [answers[at : at + ADDED_AT_ONCE] for at in range(0, len(answers), ADDED_AT_ONCE)]
            answers = self._hands.run([(number, adder.add, (each,)) for number, each in enumerate(some)])
        found = sum(opened(answer, self._blobs)[0] for answer in answers)
        self._hands.erase(folder)
        return np.asarray(found)

    def _answers(
        self,
        work: Work,
        shared: Sequence[Matrix],
        own: Sequence[Matrix] | None,
        of: Sequence[int] | None,
    ) -> tuple[str, list[Answer]]:
        """Return the folder of a call, and what is found for each group that has parties in it."""
        folder = f"{self._hands.folder}/{next(self._calls)}"
        places = {index: place for place, index in enumerate(range(len(self)) if of is None else of)}
        groups = {
            number: chosen
            for number, group in enumerate(self._groups)
            if (chosen := [index for index in group if index in places])
        }
        lists: list[list[Matrix]] = []
        if own is not None:
            lists = [[own[places[index]] for index in chosen] for chosen in groups.values()]
        given, *mine = Packed.together([shared, *lists], self._blobs, folder)
        parts: Sequence[Packed | None] = mine or [None] * len(groups)
        tasks = [
            (number, self._group(folder, chosen).work, (work, given, part))
            for (number, chosen), part in zip(groups.items(), parts, strict=True)
        ]
        return folder, self._hands.run(tasks)

    def _group(self, folder: str, chosen: Sequence[int]) -> Group:
        return Group(self._blobs, tuple(self._parties[index] for index in chosen), folder)
