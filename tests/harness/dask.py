"""A Dask scheduler and compute workers as processes of this machine, on the loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from odc_demo.actors import clean_environment, free_port

START_S = 60


@dataclass
class Cluster:
    """A scheduler, and workers by their number; whatever was killed can be started again."""

    directory: Path
    blob_dir: Path
    port: int = field(default_factory=free_port)
    memory_mb: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    """What Dask reads besides; with any, the scheduler is reached by TLS."""
    arrays: dict[str, str] = field(default_factory=dict)
    """What the environment says of the arrays, if they are not in ``blob_dir``."""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{'tls' if self.variables else 'tcp'}://127.0.0.1:{self.port}"

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.directory.glob("*.log")))

    def _start(self, name: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        environment = {**clean_environment(), **self.variables, **variables}
        with (self.directory / f"{name}.log").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=self.directory, env=environment, stdout=out, stderr=out
            )

    def start_scheduler(self) -> None:
        where = ("--protocol", self.url[:3], "--host", "127.0.0.1", "--port", str(self.port))
        pages = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        self.scheduler = self._start("scheduler", "distributed.cli.dask_scheduler", *where, *pages)
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.05)
        raise TimeoutError(self.log())

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()

    def start_worker(self) -> None:
        number = len(self.workers)
        self.workers.append(
            self._start(
                f"worker-{number}",
                "analyst_server",
                "compute-worker",
                *("--scheduler", self.url),
                ODC_ANALYST_DATA_DIR=str(self.directory / f"worker-{number}"),
                ODC_ANALYST_COMPUTE_MEMORY_MB=str(self.memory_mb),
                **(self.arrays or {"ODC_ANALYST_BLOB_URL": self.blob_dir.as_uri()}),
            )
        )

    def children(self) -> list[psutil.Process]:
        """Return the processes that compute, in the order of the workers."""
        found = []
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                found += [
                    child
                    for child in psutil.Process(worker.pid).children()
                    if "spawn_main" in " ".join(child.cmdline())
                ]
        return found

    def stop(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.wait(START_S)
        if self.scheduler is not None:
            self.scheduler.kill()
            self.scheduler.wait()


@contextmanager
def cluster(directory: Path, blob_dir: Path, workers: int = 2, **options: Any) -> Iterator[Cluster]:
    """A scheduler with workers that have registered."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Cluster(directory, blob_dir, **options)
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker()
        wait_for_workers(made, workers)
        yield made
    finally:
        made.stop()


def wait_for_workers(made: Cluster, count: int) -> None:
    """Wait until so many workers have registered."""
    if not count:
        return
    from distributed import Client

    with Client(made.url, set_as_default=False, timeout=START_S) as client:
        client.wait_for_workers(count, timeout=START_S)
