"""Steps on the workers of a Dask scheduler: the same executor, and the same errors, as a pool of processes.

A step travels as its name and its arguments, which are small: what is large lies in the blobs, where a worker
reads it. Without a scheduler no step is lost: whoever submits one is told so, and submits it again later.
"""

from __future__ import annotations

import logging
import socket
import uuid
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

from analyst_server.compute.dask_step import run_step
from analyst_server.compute.pool import TellingExecutor
from analyst_server.training.progress import Told
from protocol.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")

CONNECT_S: Final = 5.0
"""How long a scheduler is waited for before it counts as not there."""
SCHEDULER_PORT: Final = 8786
"""Where Dask's schedulers listen, unless they are told otherwise."""


class ComputeUnreachableError(Exception):
    """The scheduler cannot be reached now, or went away under a step: the step may be submitted again."""


def require_dask(log_level: int = logging.CRITICAL) -> None:
    """Load Dask; raises `InputError` with a hint if it is not installed.

    What it logs below ``log_level`` is not written: we say ourselves that a connection is lost.
    """
    try:
        import distributed  # noqa: F401  # to have it loaded
    except ModuleNotFoundError as missing:
        error = InputError(f"a Dask scheduler needs the library {missing.name}, which is not installed")
        error.hint = "pip install 'orthonormal-data-collaboration[dask]'"
        raise error from None
    # its lines go where ours go; by itself it writes them to the standard error, each room at its own level
    for name in [one for one in logging.root.manager.loggerDict if one.split(".")[0] == "distributed"]:
        room = logging.getLogger(name)
        room.handlers.clear()
        room.propagate = True
        room.setLevel(log_level)


def require_certificate(url: str, role: Literal["client", "worker"]) -> None:
    """Raise `InputError` if the address asks for TLS, and Dask's own settings name no certificate."""
    from distributed.security import Security

    if url.startswith("tls:") and Security().get_connection_args(role).get("ssl_context") is None:
        error = InputError("the Dask scheduler is reached by TLS, and Dask's settings name no certificate")
        names = "CA_FILE", f"{role.upper()}__CERT", f"{role.upper()}__KEY"
        error.hint = f"set {', '.join(f'DASK_DISTRIBUTED__COMM__TLS__{name}' for name in names)}"
        raise error


def scheduler_of(url: str) -> tuple[str, int]:
    """Return host and port of a scheduler; raises `ValueError` for what is no address of one."""
    found = urlsplit(url)
    if found.scheme not in {"tcp", "tls"} or not found.hostname or found.path or found.username:
        raise ValueError("expected tcp://HOST:PORT or tls://HOST:PORT, the address of a Dask scheduler")
    return found.hostname, found.port or SCHEDULER_PORT


class DaskPool(TellingExecutor):
    """Runs each step on one worker of a scheduler, and once more on another if that one dies.

    With a ``store_id``, a worker that does not see the arrays of that store computes nothing
    (`ArraysNotSeenError`). Raises `ComputeUnreachableError` if the scheduler cannot be reached.
    """

    def __init__(self, url: str, store_id: str = "") -> None:
        require_dask()
        from distributed import Client

        self._told: Told | None = None
        self._store_id = store_id
        self._topic = f"odc-progress-{uuid.uuid4().hex}"
        self._running: dict[str, Any] = {}
        try:
            # first without Dask: a client that finds nobody leaves a thread behind
            socket.create_connection(scheduler_of(url), CONNECT_S).close()
            self._client = Client(
                url, timeout=CONNECT_S, set_as_default=False, direct_to_workers=False, name="odc-analyst"
            )
        except OSError as error:  # also when it took too long
            raise ComputeUnreachableError(f"no Dask scheduler answers at {url}") from error
        self._client.subscribe_topic(self._topic, self._note)

    def _note(self, event: tuple[float, int]) -> None:
        self._told = Told.unpacked(event[1])

    @property
    def told(self) -> Told | None:
        return self._told

    def forget(self) -> None:
        self._told = None

    def submit(self, step: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        """Run a step on a worker.

        Its future has `BrokenProcessPool` if it ended too many workers, and `ComputeUnreachableError` if
        the scheduler went away.
        """
        if self._client.status != "running":
            raise ComputeUnreachableError("the connection to the Dask scheduler is lost")
        key = f"{step.__name__}-{uuid.uuid4().hex}"  # a name of its own: two equal steps are two
        try:
            given = (step, args, options, self._topic, self._store_id)
            running = self._client.submit(run_step, *given, key=key, pure=False)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise ComputeUnreachableError("the connection to the Dask scheduler was lost just now") from error
        self._running[key] = running
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()  # it cannot be taken back, `shutdown` aside
        running.add_done_callback(partial(self._settle, found))
        return found

    def _settle(self, found: Future[Any], running: Any) -> None:
        self._running.pop(running.key, None)
        error = error_of(running)
        if error is not None:
            found.set_exception(error)
            return
        try:
            found.set_result(running.result(timeout=CONNECT_S))
        except (Exception, CancelledError) as lost:  # noqa: BLE001  # whatever a connection that ends raises
            told = ComputeUnreachableError("the Dask scheduler went away before it had handed over a result")
            told.__cause__ = lost
            found.set_exception(told)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002  # of `Executor`
        """Let go of the scheduler. A worker finishes what it has begun, and nobody looks at it."""
        with suppress(Exception):  # the scheduler may be gone
            if cancel_futures and self._client.status == "running":
                self._client.cancel(list(self._running.values()))
        with suppress(Exception):
            self._client.close(timeout=CONNECT_S)


def stop_dask_pool(pool: Executor) -> None:
    """Cancel what has not begun, and let go of the scheduler. Its workers stay."""
    pool.shutdown(wait=False, cancel_futures=True)


def error_of(running: Any) -> BaseException | None:
    """Return why a step has no result, None if it has one."""
    from distributed import KilledWorker

    if running.status == "finished":
        return None
    if running.status != "error":
        return ComputeUnreachableError("the Dask scheduler went away")
    error = running.exception()
    if isinstance(error, KilledWorker):
        return BrokenProcessPool(f"a step ended {error.allowed_failures + 1} workers")
    return error if isinstance(error, BaseException) else RuntimeError(repr(type(error)))
