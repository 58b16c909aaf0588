"""The commands of both programs in processes that are forked from one which has loaded their libraries.

A short command takes most of its time to load libraries, the same ones each time. Here every command still
has a process of its own, with its own directory, environment and exit code. How the installed programs start
is for the tests of the demo, of the manual and of the wheel, which fork nothing.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final, Literal

import analyst_server.__main__
import user_client.__main__
from odc_demo.actors import Analyst, Institution, Server, clean_environment
from tests.harness.tree import REPOSITORY

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.harness.loaded_programs", __name__])
_PYTHONPATH: Final = os.environ.get("PYTHONPATH")
_PROGRAMS: Final = {"odc": user_client.__main__.main, "odc-analyst": analyst_server.__main__.main}
_begun: Final[list[ForkServerProcess]] = []


@dataclass
class Forked:
    """A command that runs; what it prints goes to a directory of its own."""

    process: ForkServerProcess
    printed: tempfile.TemporaryDirectory[str]
    returncode: int | None = None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return what was printed on both channels, as `subprocess.Popen` does."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise subprocess.TimeoutExpired(self.process.name, timeout or 0)
        self.returncode = self.process.exitcode
        with self.printed as directory:
            return Path(directory, "out").read_text(), Path(directory, "err").read_text()


@dataclass
class ForkedServer:
    """An analyst's server that runs, with what the tests use of `subprocess.Popen`."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout)
        return self.process.exitcode

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


class LoadedInstitution(Institution):
    """An institution whose commands are forked, but for those of `start`."""

    def begin(self, *words: str) -> Forked | subprocess.Popen[str]:
        """Begin a command without waiting for it.

        The program itself is started where it is to run on another machine, or where a changed PYTHONPATH
        would change what it loads.
        """
        if self.prefix or _loads_something_else():
            return self.start(*words)
        self.home.mkdir(parents=True, exist_ok=True)
        arguments = ("--home", str(self.home), *words, "--json")
        return _printing("odc", arguments, self.home, clean_environment())

    def odc(self, *words: str) -> Any:
        return self.finish(words, self.begin(*words))


class LoadedAnalyst(Analyst):
    """An analyst whose commands are forked, with the same exceptions; its compute processes are not."""

    def ended(self, *words: str) -> subprocess.CompletedProcess[str]:
        if self.prefix or _loads_something_else():
            return super().ended(*words)
        command = _printing("odc-analyst", words, self.data_dir, self.environment())
        out, err = command.communicate()
        assert command.returncode is not None
        return subprocess.CompletedProcess(words, command.returncode, out, err)

    def begun(self, *words: str) -> Server:
        if self.prefix or _loads_something_else():
            return super().begun(*words)
        log = str(self.log_path)
        return ForkedServer(_forked("odc-analyst", words, self.data_dir, self.environment(), (log, log)))


def _loads_something_else() -> bool:
    return os.environ.get("PYTHONPATH") != _PYTHONPATH


def _printing(
    program: Literal["odc", "odc-analyst"], words: Sequence[str], directory: Path, environment: dict[str, str]
) -> Forked:
    printed = tempfile.TemporaryDirectory(prefix="odc-")
    out, err = (f"{printed.name}/{channel}" for channel in ("out", "err"))
    return Forked(_forked(program, words, directory, environment, (out, err)), printed)


def _forked(
    program: Literal["odc", "odc-analyst"],
    words: Sequence[str],
    directory: Path,
    environment: dict[str, str],
    channels: tuple[str, str],
) -> ForkServerProcess:
    _start_server()
    arguments = [program, *words]
    process = _FORKS.Process(
        target=_run, name=program, args=(arguments, str(directory), environment, channels)
    )
    process.start()
    _begun[:] = [each for each in _begun if each.exitcode is None]
    _begun.append(process)
    return process


@cache
def _start_server() -> None:
    """Start the process that is forked where it can import what it loads, wherever a test may be."""
    with chdir(REPOSITORY):
        forkserver.ensure_running()
    atexit.register(_end_all)


def _end_all() -> None:
    """End what a failed test has left: `multiprocessing` would wait for it at the end of this process."""
    for each in _begun:
        if each.exitcode is None:
            each.kill()


def _run(
    arguments: list[str], directory: str, environment: dict[str, str], channels: tuple[str, str]
) -> None:
    loaded = {"user_client.sdk.uplink", "analyst_server.serving"}
    assert loaded <= sys.modules.keys(), "the libraries were not loaded before"
    for descriptor, name in enumerate(channels, start=1):
        with open(name, "ab") as file:  # noqa: PTH123  # before anything else is loaded
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = arguments
    _PROGRAMS[arguments[0]]()
