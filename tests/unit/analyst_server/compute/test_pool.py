from __future__ import annotations

import os
import signal
import time

from analyst_server.compute import process_pool, stop_process_pool

LIMIT_S = 60
"""Longer than any of this takes; it only ends a test that would hang."""


def test_work_runs_in_another_process_until_the_pool_is_stopped() -> None:
    pool = process_pool(1)
    try:
        worker = pool.submit(os.getpid).result(LIMIT_S)
        assert worker != os.getpid()
        pool.submit(signal.pause)  # work that never ends by itself
    finally:
        stop_process_pool(pool)
    # Two threads wait for the worker: the pool's own and ours. The one that comes second may return
    # while the system still takes the dead process off its list.
    deadline = time.monotonic() + LIMIT_S
    while exists(worker):
        assert time.monotonic() < deadline, "the worker outlived its pool"
        time.sleep(0.01)


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
