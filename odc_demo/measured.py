"""Runs a command, as a process that does nothing else, and says what the kernel counted.

The peak of a process begins with that of the one it was forked from, which in a benchmark or a test is large.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odc_demo.actors import clean_environment


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    seconds: float
    processor_s: float
    peak_mb: float
    """Of resident memory, in MiB; Linux alone counts it."""


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in a folder and return what it cost; raise `RuntimeError` with its output if it fails."""
    with tempfile.TemporaryFile() as output:
        launched = subprocess.run(
            [sys.executable, "-m", __spec__.name, *command],
            cwd=folder,
            env={**clean_environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=output,
            check=False,
        )
        output.seek(0)
        said = output.read().decode(errors="replace")
    if launched.returncode:
        raise RuntimeError(f"`{' '.join(command)}` could not be started:\n{said[-2000:]}")
    found = json.loads(launched.stdout)
    if found["status"]:
        raise RuntimeError(f"`{' '.join(command)}` ended with {found['status']}:\n{said[-2000:]}")
    return Cost(found["seconds"], found["processor_s"], found["peak_mb"])


def main(command: list[str]) -> None:
    """Run a command with its output where our errors go, and print what it cost."""
    began = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
    _, status, usage = os.wait4(pid, 0)
    cost = Cost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    print(json.dumps({"status": os.waitstatus_to_exitcode(status), **vars(cost)}))


if __name__ == "__main__":
    main(sys.argv[1:])
