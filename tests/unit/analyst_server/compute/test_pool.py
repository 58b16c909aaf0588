from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from analyst_server.compute import process_pool, stop_process_pool

LIMIT_S = 60
"""Longer than any of this takes; it only ends a test that would hang."""


def test_work_runs_in_another_process_until_the_pool_is_stopped(tmp_path: Path) -> None:
    pool = process_pool(1, memory_bytes=0, blob_dir=tmp_path / "blobs")
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


def test_a_pool_ends_no_process_of_another(tmp_path: Path) -> None:
    first, second = (process_pool(1, memory_bytes=0, blob_dir=tmp_path / "blobs") for _ in range(2))
    try:
        worker = second.submit(os.getpid).result(LIMIT_S)
        first.submit(os.getpid).result(LIMIT_S)
        stop_process_pool(first)
        assert second.submit(os.getpid).result(LIMIT_S) == worker
    finally:
        stop_process_pool(first)
        stop_process_pool(second)


def test_a_pool_whose_process_could_not_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_process: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", start)
    pool = process_pool(1, memory_bytes=0, blob_dir=tmp_path / "blobs")
    with pytest.raises(OSError, match="no more processes"):
        pool.submit(os.getpid)
    stop_process_pool(pool)


def test_the_directory_of_blobs_is_made_by_the_server_which_can_say_what_failed(tmp_path: Path) -> None:
    pool = process_pool(1, memory_bytes=0, blob_dir=tmp_path / "blobs")
    stop_process_pool(pool)
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700

    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        process_pool(1, memory_bytes=0, blob_dir=tmp_path / "file" / "blobs")


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
