from __future__ import annotations

import threading

from tests.harness.computing import LIMIT_S, Watched
from tests.harness.world import World


def test_a_worker_without_work_looks_for_all_kinds_of_it_at_once(world: World) -> None:
    """One transaction for all work, and one for rounds whose libraries to load."""
    opened, looked = list[bool](), threading.Event()

    def listen(write: bool, _seconds: float) -> None:
        opened.append(write)
        if len(opened) == 2:
            looked.set()

    worker = Watched(world, poll_s=10 * LIMIT_S)
    world.records.on_open = listen
    worker.start()
    try:
        assert looked.wait(LIMIT_S)
    finally:
        worker.stop()
    assert opened == [False, False]
