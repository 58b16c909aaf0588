"""Work in other processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor


def process_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool whose processes start empty (nothing of the server's memory) and end with it."""
    return ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )


def stop_process_pool(pool: Executor) -> None:
    """End the pool and whatever it computes. A blob that it was writing stays partial."""
    pool.shutdown(wait=False, cancel_futures=True)
    children = multiprocessing.active_children()
    for child in children:
        child.terminate()
    for child in children:  # a second `shutdown` would not wait
        child.join()


def _end_with_parent() -> None:
    """End this process with the server: one that was killed cannot stop its pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch-parent").start()
