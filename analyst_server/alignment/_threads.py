"""Parties spread over the cores, one thread of the BLAS each.

Measured on two cores: a thread of our own on each core, with a BLAS kept to one thread below it, took 0.5 to
0.8 of the time of one product or factorisation after another on all threads of the BLAS.
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


@cache
def multiplies_unpacked() -> bool:
    """Whether the BLAS has kernels for small products that leave the factors where they lie.

    OpenBLAS has them for processors with AVX-512, by these names.
    """
    names = {library.get("architecture") for library in _blas().info()}
    return bool(names & {"SkylakeX", "Cooperlake", "SapphireRapids"})


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

    The last part is the caller's: a thread that only waits has to be woken.

    Raises
    ------
    Exception
        What a part that failed raised, after all of them have ended.
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
    """Move this thread to one core, and leave it to the system from there on.

    A thread begins beside the one that started it, and little work is done before the system moves it:
    on two cores, fifty products and decompositions of order 50 took 1.2 to 1.6 times as long.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError):  # where that is forbidden we are only slower
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
        os.sched_setaffinity(0, cores)
