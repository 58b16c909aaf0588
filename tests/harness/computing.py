"""Does what the analyst's worker does, here and now, to a round of a `World`; and watches a real worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from analyst_server.services import downlinks, judging, rounds
from analyst_server.services.worker import Worker
from analyst_server.store import Uplink
from protocol.anchor_terms import AnchorTerms
from protocol.arrays import Layout, StreamReader
from protocol.envelope import verify
from protocol.messages import DownlinkManifest
from tests.harness.certificates import NOW
from tests.harness.world import HOSPITAL, LEAD, World, identity, make_terms, make_uplink
from tests.harness.world import Uplink as CraftedUplink

OWNER, OTHER, LEASE_S = "worker-1", "worker-2", 10
LIMIT_S = 30
"""Longer than any of this takes; it only ends a test that would hang."""


def claim(world: World, owner: str = OWNER) -> str | None:
    return rounds.claim(world.analyst, owner, LEASE_S)


def finish(world: World, owner: str = OWNER, *, hold: bool = False) -> None:
    """Compute a claimed round and judge its model, here and now."""
    rounds.compute(world.analyst, world.id, owner, hold_release=hold)
    judge(world, owner)


def release_and_follow(world: World, late: str) -> CraftedUplink:
    """Release a round of two institutions, and send the uplink of a late consumer, which is returned."""
    terms = make_terms(
        parties=(LEAD, HOSPITAL, late), late_consumers=(late,), anchor=AnchorTerms(kind="haar", rows=4)
    )
    world.until_anchored(terms)
    for number, party in enumerate((LEAD, HOSPITAL)):
        world.send(make_uplink(terms, party, seed=number))
    claim(world)
    finish(world)
    sent = make_uplink(terms, late, rows=0, seed=7)
    world.send(sent)
    return sent


def judge(world: World, owner: str = OWNER) -> None:
    """Judge the model of a computed round, if it waits for that."""
    if judging.claim(world.analyst, owner, LEASE_S) is not None:
        judging.compute(world.analyst, world.id, owner)


def fetch(world: World, party: str) -> tuple[DownlinkManifest, list[bytes]]:
    """Read a downlink as docs/protocol.md has it."""
    downlink = downlinks.fetch(world.analyst, identity(party), world.id)
    data = b"".join(downlink.whole())
    assert len(data) == downlink.length
    size = int.from_bytes(data[:4], "little")
    manifest = verify(DownlinkManifest, data[4 : 4 + size], world.analyst.root, at=NOW).message
    reader = StreamReader(Layout(manifest.arrays, manifest.chunk_bytes))
    arrays = [bytearray(), bytearray()]
    for chunk in reader.feed(data[4 + size :]):
        arrays[chunk.slot.array] += chunk.data
    return manifest, [bytes(array) for array in arrays]


class Pool(Executor):
    """Runs each step in a thread, and tells when a step has begun."""

    def __init__(self, step: Callable[..., Any] | None = None) -> None:
        self._threads = ThreadPoolExecutor(1)
        self.step = step
        self.begun = threading.Event()

    def submit(self, step: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        self.begun.set()
        return self._threads.submit(self.step or step, *arguments, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)


class Watched(Worker):
    """Says when it has dealt with a round; takes the next of its pools when one has died.

    Where an error stands for a pool, making one ends with it.
    """

    def __init__(self, world: World, *pools: Pool | Exception, **options: Any) -> None:
        self.done, self.judged = threading.Event(), threading.Event()
        self.pool = pools[0] if pools and isinstance(pools[0], Pool) else Pool()
        unused = iter(pools or [self.pool])

        def make() -> Pool:
            found = next(unused)
            if isinstance(found, Exception):
                raise found
            return found

        super().__init__(
            world.analyst,
            make,
            lambda executor: executor.shutdown(),
            **{"poll_s": 0.001, "lease_s": 10, "hold_release": False, **options},
        )

    def run_round(self, collaboration_id: str) -> None:
        try:
            super().run_round(collaboration_id)
        finally:
            self.done.set()

    def run_judging(self, collaboration_id: str) -> None:
        try:
            super().run_judging(collaboration_id)
        finally:
            self.judged.set()

    def run_latecomer(self, uplink: Uplink) -> None:
        try:
            super().run_latecomer(uplink)
        finally:
            self.done.set()

    def run_one(self) -> None:
        self.start()
        try:
            assert self.done.wait(LIMIT_S)
        finally:
            self.stop()
