"""Experiments on all cores, one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_all(run: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """Run the jobs and yield their results in order; ``run`` and the jobs can be pickled."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads of the numeric libraries
    with ProcessPoolExecutor(cores(), mp_context=spawn) as pool:
        yield from pool.map(partial(_one_thread, run), jobs)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_thread(run: Callable[[Job], Result], job: Job) -> Result:
    with threadpool_limits(1):
        return run(job)
