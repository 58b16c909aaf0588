"""Experiments on all cores, one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.accuracy.experiment import Cell, Setup, run

Run = list[tuple[Cell, float]]
Job = tuple[Setup, int]
"""An experiment and its seed."""


def run_all(jobs: list[Job], directory: Path | None) -> Iterator[Run]:
    """Run the jobs and yield their results in order."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads of the numeric libraries
    with ProcessPoolExecutor(cores(), mp_context=spawn) as pool:
        yield from pool.map(partial(_one_thread, directory), jobs)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_thread(directory: Path | None, job: Job) -> Run:
    with threadpool_limits(1):
        return run(*job, directory)
