"""Parties spread over the cores, one thread of the BLAS each.

Measured on two cores: a thread of our own on each core, with a BLAS kept to one thread below it, took 0.5 to
0.8 of the time of one product or factorisation after another on all threads of the BLAS.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from threadpoolctl import ThreadpoolController

WORTH_A_THREAD: Final = 2**24
"""Multiplications before which a second thread would hardly have started."""
_LIMITING: Final = threading.Lock()
"""The threads of a BLAS are counted for the whole process: one alignment at a time may change that."""


@cache
def _blas() -> Any:
    """Return what counts the threads of the BLAS below numpy and of the one below SciPy."""
    return ThreadpoolController().select(user_api="blas")


def thread_count() -> int:
    """Return how many threads the BLAS takes: the cores of this process, or what its settings allow."""
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


@contextmanager
def own_threads(multiplications: float) -> Iterator[int]:
    """Keep the BLAS to one thread, and say how many threads of our own may take its place.

    One for little work, and while another alignment of this process has them.
    """
    if multiplications < WORTH_A_THREAD or not _LIMITING.acquire(blocking=False):
        yield 1
        return
    try:
        threads = thread_count()
        with _blas().limit(limits=1):
            yield threads
    finally:
        _LIMITING.release()


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
