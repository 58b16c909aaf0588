"""A worker of Dask that has given up what no step needs, and what starts it again when it ends.

Dask ends a worker whose scheduler went away. A process that was confined cannot take that back, so each
worker is a process of its own, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from analyst_server.blobs import remember_access
from analyst_server.compute.dask_pool import require_certificate, require_dask, scheduler_of
from analyst_server.compute.pool import confine, end_with_parent
from analyst_server.compute.sequence import load_libraries
from runtime.files import make_directory

log = logging.getLogger(__name__)

RESTART_S: Final = 1.0
"""How long nothing is started after a worker has ended, so that one that cannot start ends the log slowly."""


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker runs, and what is left to it.

    Attributes
    ----------
    scheduler : str
        Address of the scheduler.
    memory_bytes : int
        What it may take; 0: no bound.
    blob_dir : Path
        The directory of the blobs, or of what is read for a while of those in S3.
    ports : sequence of int
        TCP ports that the blobs are reached by.
    host : str, optional
        Address that it listens on; if it is not given, the one by which this machine reaches the scheduler.
    port : int
        Port that it listens on; 0: one that the system chooses.
    """

    scheduler: str
    memory_bytes: int
    blob_dir: Path
    ports: Sequence[int] = ()
    host: str | None = None
    port: int = 0


def keep_worker(place: WorkerPlace) -> None:
    """Run a worker, and another one whenever it ends, until this process is told to end."""
    require_dask()
    require_certificate(place.scheduler, "worker")
    make_directory(place.blob_dir)
    signal.signal(signal.SIGTERM, _leave)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="odc-worker-") as scratch:
        while True:
            child = context.Process(target=_work, args=(place, Path(scratch)), name="compute-worker")
            child.start()
            try:
                child.join()
            finally:  # by a signal: what it computes is computed by another worker
                child.kill()
                child.join()
            log.warning("the compute worker ended (exit code %s); another one is started", child.exitcode)
            time.sleep(RESTART_S)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _work(place: WorkerPlace, scratch: Path) -> None:
    """Be a worker until the scheduler goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    require_dask(logging.WARNING)  # reads what the environment says of it
    remember_access(place.blob_dir)
    ports = [scheduler_of(place.scheduler)[1], *place.ports]
    confine(
        place.memory_bytes,
        place.blob_dir,
        ports,
        listening=(0, place.port),
        readable=list(_tls_files()),
        writable=[scratch],
    )
    end_with_parent()
    load_libraries()
    asyncio.run(_serve(place, scratch))
    os._exit(0)  # a thread that still computes for a scheduler that is gone has nobody to tell


async def _serve(place: WorkerPlace, scratch: Path) -> None:
    import dask
    from distributed import Worker
    from distributed.utils import get_ip, get_ipv6

    # of all addresses the chosen port would be bound again for IPv6, and it may bind none that somebody chose
    address = scheduler_of(place.scheduler)
    host = place.host or (get_ipv6 if ":" in address[0] else get_ip)(*address)
    # no page, no answers over HTTP, no watching of stacks: nobody asks a worker but its scheduler
    with dask.config.set({"distributed.worker.http.routes": [], "distributed.worker.profile.enabled": False}):
        worker = await Worker(
            place.scheduler,
            nthreads=1,
            host=host,
            port=place.port,
            memory_limit=0,  # the limit of the process holds; Dask's own would move results to a disk
            dashboard=False,
            dashboard_address="127.0.0.1:0",
            local_directory=str(scratch),
        )
        await worker.finished()


def _tls_files() -> Iterator[Path]:
    """Yield the files of keys and certificates that Dask's own settings name."""
    import dask

    waiting: list[Any] = [dask.config.get("distributed.comm.tls")]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, str) and Path(one).is_file():
            yield Path(one)
