"""What a worker of Dask does with a step: it runs it in a folder of its own, and tells how far it is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from analyst_server.compute.latecomers import LatecomerSpec
from analyst_server.compute.sequence import RoundSpec
from analyst_server.compute.sight import at, require_arrays
from analyst_server.compute.sums import SumsSpec
from analyst_server.training import progress
from analyst_server.training.progress import Told

T = TypeVar("T")

TELL_EVERY_S: Final = 0.5
"""How often it is told how far a step is, at most; that another stage has begun is told at once."""


def run_step(
    step: Callable[..., T], args: tuple[Any, ...], options: Mapping[str, Any], topic: str, store_id: str
) -> T:
    """Run a step on this worker, which has to see the arrays of a store with this id."""
    # here, because the server names this function, and has no use for what is behind an alignment
    from analyst_server.compute.dask_hands import dask_hands
    from analyst_server.compute.spreading import spread_by

    worker = this_worker()
    require_arrays((*args, *options.values()), store_id, worker)
    progress.listen(_Teller(topic))
    try:
        with at(worker), spread_by(dask_hands):
            return step(*map(apart, args), **options)
    finally:
        progress.listen(None)


def this_worker() -> str:
    """Return how an operator knows this worker: its address, as the scheduler has it."""
    from distributed import get_worker

    return str(get_worker().address).rpartition("/")[2]


def run_here(act: Callable[..., T], *arguments: Any) -> T:
    """Do a part of a step on this worker."""
    with at(this_worker()):
        return act(*arguments)


def apart(argument: Any) -> Any:
    """Return a spec with a folder of its own, anything else as it is.

    A worker that its scheduler has given up may still be writing when another one runs the same step.
    """
    if isinstance(argument, (RoundSpec, SumsSpec, LatecomerSpec)):
        return replace(argument, folder=f"{argument.folder}/{secrets.token_hex(6)}")
    return argument


class _Teller:
    """Hands on what a step tells, through the scheduler."""

    def __init__(self, topic: str) -> None:
        from distributed import get_worker

        self._worker, self._topic = get_worker(), topic
        self._stage, self._told_at = "", 0.0

    def __call__(self, told: Told) -> None:
        now = time.monotonic()
        if told.stage == self._stage and now < self._told_at + TELL_EVERY_S:
            return
        self._stage, self._told_at = told.stage, now
        self._worker.log_event(self._topic, told.packed())
