"""Distribute parties over the cores: threads of our own, each calling a single-threaded BLAS.

Measured on two cores: one thread of our own per core, with the BLAS limited to one thread, took 0.5 to 0.8 of
the time of one product or factorisation after another, each on all threads of the BLAS.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

from threadpoolctl import ThreadpoolController

WORTH_A_THREAD: Final = 2**24
"""Multiplications below which the work is done before a second thread has started."""
_LIMITING: Final = threading.Lock()
"""The number of BLAS threads is set for the whole process, so only one alignment at a time may change it."""


@cache
def _blas() -> Any:
    """Return the controller of the thread counts of both BLAS libraries, numpy's and SciPy's."""
    return ThreadpoolController().select(user_api="blas")


def thread_count() -> int:
    """Return how many threads the BLAS uses: one per core of this process, or what its settings allow."""
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


@cache
def multiplies_unpacked() -> bool:
    """Return whether the BLAS can multiply small matrices without packing them first.

    OpenBLAS has such kernels for processors with AVX-512, which it calls by these names.
    """
    names = {library.get("architecture") for library in _blas().info()}
    return bool(names & {"SkylakeX", "Cooperlake", "SapphireRapids"})


@contextmanager
def own_threads(multiplications: float) -> Iterator[int]:
    """Limit the BLAS to one thread, and yield how many threads of our own may run instead.

    For little work, and while another alignment of this process holds the limit, this yields 1 and changes
    nothing.
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
    """Call ``work(first, last)`` for equal parts of ``range(count)``, each in its own thread.

    The calling thread does the last part: if it only waited, it would have to be woken.

    Raises
    ------
    Exception
        Whatever a part raised, after all parts have ended.
    """
    threads = max(1, min(threads, count))
    if threads == 1:
        work(0, count)
        return
    borders = [count * part // threads for part in range(threads + 1)]

    def on_a_core_of_its_own(part: int) -> None:
        _move_to_core(part)
        work(borders[part], borders[part + 1])

    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(on_a_core_of_its_own, part) for part in range(threads - 1)]
        on_a_core_of_its_own(threads - 1)
    for other in others:
        other.result()


def _move_to_core(number: int) -> None:
    """Move this thread to one core, then let the system schedule it freely again.

    A new thread starts on the core of the thread that created it, and short work is over before the system
    moves it: without this, fifty products and decompositions of order 50 took 1.2 to 1.6 times as long on
    two cores.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):  # some systems forbid it; then we are only slower
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
        os.sched_setaffinity(0, cores)
