"""Who waits for a change of a collaboration is told of it: however many wait, the database is asked once.

A waiting request holds neither a thread nor a connection to the database, but a `Watch`. While there are any,
one task looks at the collaborations that are watched, and wakes whom a change may concern. It finds what
other processes have written as well; a woken request looks for itself whether there is news for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from anyio import to_thread

from analyst_server.store import Progress, Records
from protocol.errors import StorageError
from protocol.states import State

log = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""From one look to the next."""
MOST_WATCHES: Final = 2**14
"""Requests that wait at the same time: one for each party of the largest collaboration."""
MOST_WATCHES_OF_ONE: Final = 16
"""Of one party, so that none takes the places of the others."""

Seen = dict[str, tuple[Progress, set[str | None]]]
"""By collaboration: how far it is, and who has taken a step since the look before."""


class Watch:
    """One request that waits."""

    def __init__(self, changes: Changes, party: str | None) -> None:
        self.party = party
        """Whose steps alone it waits for, besides those of the collaboration; None for those of all."""
        self._changes, self._event = changes, asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def changed(self, timeout_s: float) -> bool:
        """Wait for something that may be news since the last call; False if there is none in time."""
        self._changes.look_on()
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return not self._changes.is_closed


class Changes:
    """All requests of this process that wait. It belongs to one event loop."""

    def __init__(self, records: Records, look_s: float = LOOK_S) -> None:
        self._records, self._look_s = records, look_s
        self._watches: defaultdict[str, set[Watch]] = defaultdict(set)
        self._owners: Counter[str] = Counter()
        self._known: dict[str, Progress] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def __repr__(self) -> str:
        return f"<Changes, {self._owners.total()} requests wait>"

    @contextmanager
    def watch(self, collaboration_id: str, owner: str, party: str | None) -> Iterator[Watch | None]:
        """Yield a watch of a collaboration; None if no more may wait, or none any more.

        ``owner`` is who asks, and ``party`` whose steps are of interest: None for those of all.
        """
        if (
            self.is_closed
            or self._owners.total() >= MOST_WATCHES
            or self._owners[owner] >= MOST_WATCHES_OF_ONE
        ):
            yield None
            return
        watch = Watch(self, party)
        self._watches[collaboration_id].add(watch)
        self._owners[owner] += 1
        try:
            yield watch
        finally:
            self._owners[owner] -= 1
            self._owners += Counter()  # drops who has none
            self._watches[collaboration_id].discard(watch)
            if not self._watches[collaboration_id]:
                del self._watches[collaboration_id]

    def close(self) -> None:
        """Let everybody who waits answer at once, and nobody wait any more: the server goes down."""
        self.is_closed = True
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    def look_on(self) -> None:
        """Begin to look at what is watched, unless that has begun; it ends with the last watch."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._known = {}
        while self._watches and not self.is_closed:
            known = {one: self._known.get(one) for one in self._watches}
            try:
                seen = await to_thread.run_sync(self._look, known)
            except StorageError as error:
                log.warning("nobody is told of changes: %s", error.detail)
            else:
                self._tell(known, seen)
            await asyncio.sleep(self._look_s)

    def _look(self, known: Mapping[str, Progress | None]) -> Seen:
        """Look at what is watched, in one transaction."""
        seen: Seen = {}
        with self._records.begin() as unit:
            for now in unit.progress(known.keys()):
                before = known[now.collaboration_id]
                has_stepped = before is not None and now.steps > before.steps
                new = unit.stepped(now.collaboration_id, before.steps) if before and has_stepped else set()
                seen[now.collaboration_id] = now, new
        return seen

    def _tell(self, known: Mapping[str, Progress | None], seen: Seen) -> None:
        self._known = {one: progress for one, (progress, _) in seen.items()}
        for collaboration_id, (now, stepped) in seen.items():
            before = known[collaboration_id]
            # what was not known before may have changed between the look of a request and this one
            concerns_all = before is None or _as_a_whole(before) != _as_a_whole(now)
            for watch in self._watches.get(collaboration_id, ()):
                if concerns_all or watch.party in stepped or (stepped and watch.party is None):
                    watch.wake()


def _as_a_whole(progress: Progress) -> tuple[object, ...]:
    """Return what concerns every party. Of a lease that is whether the round is held (`services.rounds`)."""
    is_held = progress.state == State.TRAINING and not progress.is_leased
    return progress.state, progress.failure, progress.is_judging, is_held
