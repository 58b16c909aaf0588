"""Work in other processes of this machine, which have given up what it does not need."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import sysconfig
import threading
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from ctypes import c_uint64
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, Final

import analyst_server
import metering
import protocol
import runtime
from analyst_server.blobs import remember_access
from analyst_server.training import progress
from analyst_server.training.progress import Told
from runtime import confinement
from runtime.files import make_directory
from runtime.start_up import leave_out

MOST_OPEN_FILES: Final = 65536
"""An array that is mapped takes one while it is in use, of every party at once."""
_OURS: Final = (analyst_server, metering, protocol, runtime)
_INSTALLED: Final = ("site-packages", "dist-packages")
_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_OF_THE_KERNEL: Final = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/sys/devices/system", "/sys/bus", "/sys/fs/cgroup"),
)
_TO_CONNECT: Final = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/host.conf"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/lib/ssl"),
)
"""Who has which address, and whose certificates are believed."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")


def process_pool(processes: int, *, memory_bytes: int, blob_dir: Path, ports: Sequence[int] = ()) -> ToldPool:
    """Return a pool whose processes start empty (nothing of the server's memory) and end with it.

    Each gives up the environment, memory beyond ``memory_bytes`` (0: no bound), and, where the kernel has
    Landlock, every file but the programs' and those in ``blob_dir``, which is made if it is missing, and
    every connection but those to ``ports``: for blobs behind one it keeps the credentials.
    """
    make_directory(blob_dir)  # here, because a process that fails as it starts prints a traceback
    return ToldPool(processes, memory_bytes, blob_dir, ports)


class TellingExecutor(Executor):
    """Runs steps where it is told how far they are; of several, by the one that told last."""

    @property
    @abstractmethod
    def told(self) -> Told | None:
        """How far the step is that runs, None if it has said nothing."""

    @abstractmethod
    def forget(self) -> None:
        """Forget what was told, before another step."""


class _Children(SpawnContext):
    """Starts processes, and remembers them: those of another pool are not ours to end."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    # in the library this is a class, which whoever starts a process calls: hence no override, and its name
    def Process(self, *given: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        self.started.append(SpawnProcess(*given, **options))
        return self.started[-1]


class ToldPool(ProcessPoolExecutor, TellingExecutor):
    """A pool that knows how far what it computes is; of several processes, the one that told last."""

    def __init__(self, processes: int, memory_bytes: int, blob_dir: Path, ports: Sequence[int]) -> None:
        self._children = _Children()
        # one number and no lock: who is killed while it writes leaves the old one or the new one
        self._shared = self._children.RawValue(c_uint64, 0)
        super().__init__(
            processes,
            mp_context=self._children,
            initializer=_begin,
            initargs=(memory_bytes, blob_dir, ports, self._shared),
        )

    @property
    def told(self) -> Told | None:
        return Told.unpacked(self._shared.value)

    def forget(self) -> None:
        self._shared.value = 0

    def end_processes(self) -> None:
        """End the processes, whatever they compute."""
        children = [child for child in self._children.started if child.pid is not None]  # some cannot start
        for child in children:
            child.terminate()
        for child in children:  # a second `shutdown` would not wait
            child.join()


def stop_process_pool(pool: Executor) -> None:
    """End the pool and whatever it computes. A blob that it was writing stays partial."""
    pool.shutdown(wait=False, cancel_futures=True)
    if isinstance(pool, ToldPool):
        pool.end_processes()


def told_by(pool: Executor | None) -> Told | None:
    """Return how far the step is that a pool runs, None of one that cannot tell."""
    return pool.told if isinstance(pool, TellingExecutor) else None


def _begin(memory_bytes: int, blob_dir: Path, ports: Sequence[int], shared: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    leave_out("pandas")  # scikit-learn loads it where it is installed, and no step needs it
    if ports:
        remember_access()
    confine(memory_bytes, blob_dir, ports)
    end_with_parent()

    def note(told: Told) -> None:
        shared.value = told.packed()

    progress.listen(note)


def confine(
    memory_bytes: int,
    blob_dir: Path,
    ports: Sequence[int],
    *,
    listening: Sequence[int] = (),
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
) -> None:
    """Give up what no step needs, while this process has one thread and has read nothing that others sent.

    What is left to a compute process is what `process_pool` says, and besides it these ports to listen on
    and these places.
    """
    confinement.forget_environment()
    os.environ["JOBLIB_MULTIPROCESSING"] = "0"  # it would ask for semaphores, which nobody here uses
    confinement.forbid_tracing()
    confinement.allow_open_files()
    limits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": MOST_OPEN_FILES}
    if memory_bytes:
        limits["RLIMIT_DATA"] = memory_bytes
    confinement.lower_limits(limits)
    os.chdir("/")
    seen = [*_programs(), *readable, *(map(Path, _TO_CONNECT) if ports else ())]
    confinement.see_only(seen, [blob_dir, *writable, *map(Path, _DEVICES)], ports, listening)


def _programs() -> list[Path]:
    """Return where the interpreter, its libraries and our packages lie, and what the kernel tells of itself.

    Our packages are named one by one: the directory that they lie in may be one that we work in.
    """
    paths = sysconfig.get_paths()
    standard = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    standard += [path for path in sys.path if Path(path).name in _INSTALLED]
    base = sysconfig.get_config_var("installed_base")
    ours = [str(Path(str(package.__file__)).parent) for package in _OURS]
    own = f"/proc/{os.getpid()}"
    named = [*standard, f"{base}/lib", *_LIBRARIES, *ours, *_OF_THE_KERNEL, own]
    return [Path(name) for name in dict.fromkeys(named)]


def end_with_parent() -> None:
    """End this process with the one that started it: one that was killed cannot stop its children."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch-parent").start()
