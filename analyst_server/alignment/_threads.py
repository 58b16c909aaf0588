"""Matrices spread over the cores, where they are too small for the threads of a BLAS.

Measured on two cores: many products of 50 x 50 gain from a thread of our own on each core. Singular values
and the products of whole anchor representations lose by it, because the BLAS below has its own threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def thread_count() -> int:
    """Return the cores this process may use, or fewer where the settings of the BLAS ask for fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = [int(value) for name in _LIMITS if (value := os.environ.get(name, "")).isdigit()]
    return max(1, min([cores, *asked]))


def in_parts(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """Call ``work(first, last)`` for equal parts of ``range(count)``, each in a thread of its own.

    Raises
    ------
    Exception
        What the first part that failed raised, after all of them have ended.
    """
    threads = max(1, min(threads, count))
    if threads == 1:
        work(0, count)
        return
    borders = [count * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, borders[:-1], borders[1:]))
