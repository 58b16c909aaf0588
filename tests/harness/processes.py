"""The processes of a consortium's analyst."""

from __future__ import annotations

import contextlib

import psutil

from tests.harness.consortium import Consortium


def compute_processes(made: Consortium) -> list[psutil.Process]:
    server = psutil.Process(made.analyst.server.pid)  # type: ignore[union-attr]  # it runs
    found = []
    for child in server.children():
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # it ends just now
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found
