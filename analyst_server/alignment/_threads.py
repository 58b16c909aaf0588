"""Parties and rows spread over the cores, without the threads of the BLAS under them.

Matrices of the sizes here are too small for a BLAS to split well: two cores make one product of 50 x 1000
by 1000 x 50 hardly faster than one core does, and wait for each other while they do. So the parties are
split instead, and each product is kept small enough for the BLAS to leave it to the thread that calls it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

ONE_THREAD_OPERATIONS: Final = 2**19
"""OpenBLAS starts threads of its own for products of so many multiplications and more."""

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
