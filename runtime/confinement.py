"""What a process gives up before it works on what others have sent: variables, memory, files, a network.

Each function is for the process that calls it, cannot be taken back, and says what it could not do. Limits
are those of the kernel; what the calling user may read is narrowed by Landlock, which only Linux has.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import resource

ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
KEPT_VARIABLES = frozenset({"SYSTEMROOT", "LD_LIBRARY_PATH"})
"""What a program needs of the environment to start."""
HARMLESS_VARIABLES = KEPT_VARIABLES | {
    *ONE_THREAD,
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PYDANTIC_DISABLE_PLUGINS"),
    *("ARROW_DEFAULT_MEMORY_POOL", "ORT_DISABLE_TELEMETRY", "LD_PRELOAD", "MALLOC_ARENA_MAX"),
}
"""What besides says how it works, and nothing that is secret."""
CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38
_CREATE_RULESET: Final = 444  # the numbers of these system calls are those of every architecture
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_FOR_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NET_PORT: Final = 2
_BIND: Final = 1 << 0
_CONNECT: Final = 1 << 1
_OF_FILES: Final = 1 | 1 << 2
"""Execute and read a file; of one that may be written, also the next."""
_OF_WRITTEN_FILES: Final = _OF_FILES | 1 << 1 | 1 << 14
_READ_DIRECTORIES: Final = 1 << 3


def kept_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: what it needs to start, and ``more``."""
    return {**{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}, **more}


def forget_environment() -> None:
    """Take away every variable that is not known to be harmless, also from what the kernel shows of us.

    The copies that the interpreter has made at its start lie in memory that is free, and may be used again.
    """
    for address in _variables():
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name.decode("utf-8", "replace") not in HARMLESS_VARIABLES:
            ctypes.memset(address + len(name) + 1, 0, len(value))
    for secret in [one for one in os.environ if one not in HARMLESS_VARIABLES]:
        del os.environ[secret]


def _variables() -> list[int]:
    """Return the addresses of the variables that the kernel has given us (Linux)."""
    found: list[int] = []
    if sys.platform == "linux":
        first = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        while first and (address := first[len(found)]):
            found.append(address)
    return found


def allow_open_files() -> None:
    """Raise the usual 1024 open files to what the system allows; on Windows there is no limit."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lower_limits(most: Mapping[str, int]) -> None:
    """Lower limits by the names that `resource` has for them, as far as the system knows them.

    On Windows there are none. A lower limit that holds already stays.
    """
    if sys.platform == "win32":
        return
    for name, value in most.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        held = (limit for limit in resource.getrlimit(kind) if limit != resource.RLIM_INFINITY)
        lowest = min([value, *held])
        with contextlib.suppress(ValueError, OSError):  # macOS knows RLIMIT_AS, and refuses it
            resource.setrlimit(kind, (lowest, lowest))


def own_bytes() -> int:
    """Return the address space that the program takes by itself."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 2**32  # where there is no /proc
    return pages * mmap.PAGESIZE


def machine_bytes() -> int:
    """Return the memory of this machine, or of the container if it has less; 0 if the system does not say."""
    if sys.platform == "win32":
        return 0
    found = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    for path in CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            found = min(found, int(Path(path).read_text()))
    return found


def forbid_tracing() -> None:
    """Let no process of the same user read our memory, and the kernel write none of it to a disk (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none, or does not let us use it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_FOR_VERSION)))


def see_only(
    readable: Iterable[Path],
    writable: Iterable[Path],
    ports: Iterable[int] = (),
    listening: Iterable[int] = (),
) -> bool:
    """Let this thread, and those it starts, open nothing but what lies in these places; return if that holds.

    What is open stays so. With newer kernels it connects by TCP to these ports alone, of whatever machine,
    listens on those of ``listening`` (0: one that the system chooses), and sends no signal to a process
    outside. It cannot trace one in any case. Places that do not exist are passed over.

    Raises `OSError` if the kernel has Landlock, but refuses.
    """
    version = landlock_version()
    if version == 0:
        return False
    files = (1 << (13 + (version >= 2) + (version >= 3))) - 1 | (1 << 15 if version >= 5 else 0)
    words = [files, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0]
    attributes = (ctypes.c_uint64 * 3)(*words)
    size = 8 * (1 + (version >= 4) + (version >= 6))
    rules = _called(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for place in readable:
            _allow(rules, place, (_OF_FILES | _READ_DIRECTORIES) & files)
        for place in writable:
            _allow(rules, place, files)
        of_network = [*((port, _CONNECT) for port in ports), *((port, _BIND) for port in listening)]
        for port, right in of_network if version >= 4 else ():
            rule = right.to_bytes(8, sys.byteorder) + port.to_bytes(8, sys.byteorder)
            _called(_ADD_RULE, rules, _NET_PORT, ctypes.c_char_p(rule), 0)
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _called(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return True


def _allow(rules: int, place: Path, rights: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]  # Linux
    except OSError:
        return
    try:
        rights &= -1 if place.is_dir() else _OF_WRITTEN_FILES
        rule = rights.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder)
        _called(_ADD_RULE, rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(opened)


def _called(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    found = int(library.syscall(number, *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
