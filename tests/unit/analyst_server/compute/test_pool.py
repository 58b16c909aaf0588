from __future__ import annotations

import os
import signal

import pytest

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
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
