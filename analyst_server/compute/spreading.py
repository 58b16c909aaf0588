"""Who works on the parties of an alignment: this process, unless it is told of others that read the blobs.

A hook of the thread and no argument, as `training.progress` has one: a step does not know where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from analyst_server.blobs import Blobs, StoredArray, at_least_single
from analyst_server.compute.checking import require_intact
from analyst_server.compute.sequence import PartyArrays, RoundSpec

if TYPE_CHECKING:  # loading the room of alignment takes as long as the rest of the server
    from analyst_server.alignment import AnchorReps


class Hands:
    """Does the work of an alignment, party by party, in this process."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def require_intact(self, arrays: Sequence[StoredArray]) -> None:
        """Raise `DamagedBlobError` for the first array that is not what was signed."""
        require_intact(arrays, self._blobs)

    def anchor_reps(self, parties: Sequence[PartyArrays]) -> AnchorReps:
        """Return ``A_i`` of each party, in a type to compute in."""
        return [at_least_single(self._blobs, party.anchor_rep, party.anchor_rep_scale) for party in parties]


Spreader = Callable[[RoundSpec, Blobs], AbstractContextManager[Hands]]
_spreader: ContextVar[Spreader | None] = ContextVar("spreader", default=None)


@contextmanager
def spread_by(spreader: Spreader) -> Iterator[None]:
    """Let ``spreader`` say who works on the parties of what this thread aligns in the block."""
    token = _spreader.set(spreader)
    try:
        yield
    finally:
        _spreader.reset(token)


@contextmanager
def hands_for(spec: RoundSpec, blobs: Blobs) -> Iterator[Hands]:
    """Yield who works on the parties of a round."""
    spreader = _spreader.get()
    if spreader is None:
        yield Hands(blobs)
        return
    with spreader(spec, blobs) as hands:
        yield hands
