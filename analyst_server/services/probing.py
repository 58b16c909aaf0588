"""How fast one core of this machine is at four kinds of work, measured in about a second.

Each probe is repeated and its best time taken, of the processor: what other programs do meanwhile should not
count, as it changes from one moment to the next.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final

from analyst_server.services.work import Probes

ORDER: Final = 400
"""Of the matrices that are multiplied: 1.3 MB each."""
HASHED_BYTES: Final = 8 * 2**20
COPIED_NUMBERS: Final = 2**21
"""Of the arrays that are added: 16 MiB each, more than a cache holds."""
CALLS: Final = 200_000
REPEATS: Final = 9


def measure() -> Probes:
    """Return the rates of this machine, with the BLAS limited to one thread."""
    import numpy as np  # loaded here alone: a plan without measurements starts sooner
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    factor, out = rng.random((ORDER, ORDER)), np.empty((ORDER, ORDER))
    one, total = np.ones(COPIED_NUMBERS), np.zeros(COPIED_NUMBERS)
    data = rng.bytes(HASHED_BYTES)

    def call(number: int) -> int:
        return number + 1

    def calls() -> None:
        number = 0
        for _ in range(CALLS):
            number = call(number)

    with threadpool_limits(1):
        product = _seconds(lambda: np.matmul(factor, factor, out=out))
        copy = _seconds(lambda: np.add(one, total, out=total))
    return Probes(
        product=2 * ORDER**3 / product,
        hash=HASHED_BYTES / _seconds(lambda: hashlib.sha256(data).digest()),
        copy=3 * 8 * COPIED_NUMBERS / copy,
        interpreter=CALLS / _seconds(calls),
    )


def _seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of some work, after it was done once."""
    work()
    found = []
    for _ in range(REPEATS):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return min(found)
