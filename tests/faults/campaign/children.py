"""Compute children that are forked with their libraries loaded: loading takes longer than a small round.

`multiprocessing` starts a child by an executable, a command line and descriptors. Instead, a helper that was
forked before the server had a thread forks the child, which then runs that same command line. The server
adopts it (it is a subreaper), so that it waits for it, sees it die and ends it as one of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import sys
from collections.abc import Sequence
from multiprocessing import spawn, util
from typing import Final, NoReturn

from runtime import confinement

_PR_SET_CHILD_SUBREAPER: Final = 36
_SPAWNED: Final = re.compile(r"spawn_main\(tracker_fd=(\d+), pipe_handle=(\d+)\)")
_MOST_DESCRIPTORS: Final = 64


def start_compute_children_by_fork() -> bool:
    """Let this process, which has one thread, start its children so; return True in one that has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, helpers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        return _help(helpers)
    helpers.close()
    otherwise = util.spawnv_passfds

    def start(path: bytes, words: Sequence[str], descriptors: Sequence[int]) -> int:
        found = _SPAWNED.search(" ".join(map(str, words)))
        if found is None:
            return int(otherwise(path, words, descriptors))
        passed = sorted(set(descriptors))
        asked = {"tracker": int(found[1]), "pipe": int(found[2]), "descriptors": passed}
        socket.send_fds(ours, [json.dumps(asked).encode()], passed)
        return int(ours.recv(64))

    util.spawnv_passfds = start  # type: ignore[assignment]  # undocumented, and the same in 3.11 to 3.14
    return False


def end_at_once(code: int) -> NoReturn:
    """End this process as it is: to take its modules to pieces takes longer than what it did."""
    ctypes.CDLL(None).quick_exit(code)
    raise AssertionError("it has ended")


def _help(line: socket.socket) -> bool:
    """Fork a child for each request, until the server ends."""
    while True:
        data, passed, _, _ = socket.recv_fds(line, 65536, _MOST_DESCRIPTORS)
        if not data:
            end_at_once(0)
        asked = json.loads(data)
        told, tells = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                line.close()
                _become(asked["descriptors"], passed)
                _run(asked["tracker"], asked["pipe"])
                return True
            os.write(tells, str(child).encode())
            end_at_once(0)
        os.close(tells)
        for descriptor in passed:
            os.close(descriptor)
        os.waitpid(between, 0)  # from here on the child is the server's
        line.send(os.read(told, 64))
        os.close(told)


def _become(numbers: Sequence[int], passed: Sequence[int]) -> None:
    """Give the descriptors that were passed the numbers they have in the server, and close all others."""
    lowest = max([*numbers, *passed]) + 1
    moved = []
    for descriptor in passed:
        while True:
            descriptor = os.dup(descriptor)
            if descriptor >= lowest:
                break
        moved.append(descriptor)
    for number, descriptor in zip(numbers, moved, strict=True):
        os.dup2(descriptor, number)
    for descriptor in range(3, max(moved) + 1):
        if descriptor not in numbers:
            try:
                os.close(descriptor)
            except OSError:
                continue


def _run(tracker: int, pipe: int) -> None:
    os.environ["ODC_FAULT_PLACE"] = "compute"
    # the library between us and the disk asks for its variables at every call
    confinement.HARMLESS_VARIABLES |= {"ODC_FAULT_PLACE", "ODC_FAULT_ROOT", "ODC_FAULT_SOCKET"}
    sys.argv = ["-c", "--multiprocessing-fork"]
    spawn.spawn_main(tracker_fd=tracker, pipe_handle=pipe)
