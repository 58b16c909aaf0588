"""Whether the worker that holds a round still works at it.

Two things tell, and neither is the time of day, which may be set back while a server is down. A worker locks
a file of its name for as long as it lives, and the system releases the lock with its process: so the next
server in the same data directory knows at once. Of a worker without such a file, on another machine for
example, only its silence tells: its lease in the records has not grown for some time, by our own clock. So it
is on a file system without locks.

A worker that was taken for dead may come back, and does not know how long it slept. Each claim of a round has
therefore a number, one more than the last; whoever writes has to show the newest (docs/adr/0072).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from analyst_server.store.tables import Collaboration
from runtime.files import is_let_go, take_lock


class _Seen(NamedTuple):
    """A lease as we saw it last, and since when it has been so."""

    owner: str
    until: int | None
    since: float


class Leases:
    """What this process knows of the leases in the records.

    Parameters
    ----------
    directory : Path, optional
        Where the workers of this data directory lock their files; without one, only silence tells.
    silent_s : float
        For how long a worker may be silent before its lease is over.
    monotonic : callable
        A clock that is never set, in seconds.
    """

    def __init__(
        self,
        directory: Path | None = None,
        silent_s: float = 10,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._silent_s, self._monotonic = directory, silent_s, monotonic
        self._held: dict[str, int] = {}
        self._seen: dict[str, _Seen] = {}
        self._claims: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Leases of {len(self._held)} workers here>"

    def hold(self, owner: str) -> None:
        """Let everybody know that a worker of this process lives, until `give_up` or the process ends.

        Once is enough.
        """
        if self._directory is not None and owner not in self._held:
            self._held[owner] = take_lock(self._file(self._directory, owner))

    def give_up(self, owner: str) -> None:
        """Let everybody know that a worker has ended. It has handed back what it held."""
        with self._lock:
            self._claims = {claim: number for claim, number in self._claims.items() if claim[0] != owner}
        descriptor = self._held.pop(owner, None)
        if descriptor is not None and self._directory is not None:
            self._file(self._directory, owner).unlink(missing_ok=True)
            os.close(descriptor)

    def lives_here(self, owner: str | None) -> bool:
        """Return whether a worker of this process has this name: it has not ended, whatever it holds."""
        return owner in self._held

    def tidy(self, still_named: Collection[str]) -> None:
        """Remove the files of workers that have ended, except of those that the records still name."""
        for path in self._directory.glob("*.lock") if self._directory is not None else ():
            with suppress(OSError):  # one that stays says nothing wrong, and goes the next time
                if path.stem not in still_named and is_let_go(path):
                    path.unlink(missing_ok=True)

    def note(self, collaboration: Collaboration) -> None:
        """Note a lease as it is now: from now on its owner may be silent."""
        owner, until = collaboration.lease_owner, collaboration.lease_until
        with self._lock:
            self._seen.pop(collaboration.id, None)
            if owner is not None:
                self._seen[collaboration.id] = _Seen(owner, until, self._monotonic())

    def claimed(self, collaboration: Collaboration, owner: str) -> None:
        """Count a claim in the record, and remember its number for as long as the owner claims no more."""
        collaboration.lease_number += 1
        with self._lock:
            self._claims[owner, collaboration.id] = collaboration.lease_number

    def is_held_by(self, collaboration: Collaboration, owner: str) -> bool:
        """Return whether a worker of this process holds a round by the newest claim of all."""
        claim = self._claims.get((owner, collaboration.id))
        return collaboration.lease_owner == owner and claim == collaboration.lease_number

    def is_over(self, collaboration: Collaboration) -> bool:
        """Return whether nobody holds a round any more, as far as can be told from here.

        The first look at a lease of an owner that left no file never tells: it begins the wait.
        """
        owner = collaboration.lease_owner
        if owner is None or self._has_ended(owner):
            return True
        seen = self._seen.get(collaboration.id)
        if seen is None or (seen.owner, seen.until) != (owner, collaboration.lease_until):
            self.note(collaboration)
            return False
        return self._monotonic() - seen.since > self._silent_s

    def _has_ended(self, owner: str) -> bool:
        """Return whether the process of a worker is known to have ended."""
        if self._directory is None:
            return False
        path = self._file(self._directory, owner)
        return path.exists() and is_let_go(path)

    @staticmethod
    def _file(directory: Path, owner: str) -> Path:
        return directory / f"{owner}.lock"
