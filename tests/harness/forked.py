"""The command `odc` in processes that are forked from one which has loaded its libraries.

A short command takes most of its time to load libraries, the same ones each time. Here every command still
has a process of its own, with its own directory, environment and exit code. How the installed program starts
is for the tests of the demo, of the manual and of the wheel, which fork nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from odc_demo.actors import Institution, clean_environment
from tests.harness.tree import REPOSITORY
from user_client import __main__ as command

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.harness.loaded_odc", __name__])
_PYTHONPATH: Final = os.environ.get("PYTHONPATH")


@dataclass
class Forked:
    """A command that runs; what it prints goes to a directory of its own."""

    process: ForkServerProcess
    printed: tempfile.TemporaryDirectory[str]
    returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for the end and return what was printed on both channels, as `subprocess.Popen` does."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise subprocess.TimeoutExpired("odc", timeout)
        self.returncode = self.process.exitcode
        with self.printed as directory:
            return Path(directory, "out").read_text(), Path(directory, "err").read_text()


class LoadedInstitution(Institution):
    """An institution whose commands are forked, but for those of `start`."""

    def begin(self, *words: str) -> Forked | subprocess.Popen[str]:
        """Begin a command without waiting for it.

        The program itself is started where it is to run on another machine, or where a changed PYTHONPATH
        would change what it loads.
        """
        if self.prefix or os.environ.get("PYTHONPATH") != _PYTHONPATH:
            return self.start(*words)
        _start_server()
        self.home.mkdir(parents=True, exist_ok=True)
        printed = tempfile.TemporaryDirectory(prefix="odc-")
        arguments = ["odc", "--home", str(self.home), *words, "--json"]
        process = _FORKS.Process(
            target=_run, args=(arguments, self.home, clean_environment(), Path(printed.name))
        )
        process.start()
        return Forked(process, printed)

    def odc(self, *words: str) -> Any:
        return self.finish(words, self.begin(*words))


@cache
def _start_server() -> None:
    """Start the process that is forked where it can import what it loads, wherever a test may be."""
    with chdir(REPOSITORY):
        forkserver.ensure_running()


def _run(arguments: list[str], directory: Path, environment: dict[str, str], printed: Path) -> None:
    assert "user_client.sdk.uplink" in sys.modules, "the libraries were not loaded before"
    for descriptor, name in ((1, "out"), (2, "err")):
        with (printed / name).open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = arguments
    command.main()
