"""A consortium whose commands and server are forked from one process, below the controller's eyes."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from odc_demo.actors import clean_environment
from odc_demo.tables import write_csv
from tests.faults.campaign.controller import Controller
from tests.faults.campaign.disk import Durable
from tests.harness.consortium import consortium, rows
from tests.harness.tree import REPOSITORY

ANALYST: Final = "analyst"
LEAD, HOSPITAL = "lead-hospital", "hospital-b"
_SHIM: Final = Path(__file__).with_name("shim.c")
_UP_S: Final = 30.0


def compile_shim(directory: Path) -> Path:
    """Compile the library that is loaded into every process; raises `RuntimeError` where that cannot be."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        raise RuntimeError("the campaign needs Linux and a C compiler (Debian: apt install gcc libc6-dev)")
    made = directory / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-U_FORTIFY_SOURCE", "-o", made, _SHIM, "-ldl"],
        check=True,
        timeout=60,
    )
    return made


@dataclass
class Running:
    """A command that was started, with the files that hold what it printed."""

    pid: int
    out: Path
    err: Path
    ended: threading.Event = field(default_factory=threading.Event)
    code: int | None = None

    @property
    def errors(self) -> str:
        """What it has printed to its error output."""
        return self.err.read_text() if self.err.exists() else ""

    def signal(self, number: int) -> None:
        if not self.ended.is_set():
            os.kill(self.pid, number)


class Zygote:
    """The process that forks, and who of its children has ended."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.faults.campaign.zygote import serve; serve()"],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._children: dict[int, Running] = {}
        self._ended: dict[int, int] = {}
        self._answered = threading.Condition()
        self._one_at_a_time = threading.Lock()  # waiting for the answer lets go of the condition
        self._pids: list[int] = []
        self._is_ready = self._has_ended = False
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        with self._answered:
            if not self._answered.wait_for(lambda: self._is_ready or self._has_ended, timeout=120):
                raise RuntimeError("the programs take too long to load")
        if not self._is_ready:
            raise RuntimeError("the programs did not load")

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            with self._answered:
                if "ready" in said:
                    self._is_ready = True
                elif "pid" in said:
                    self._pids.append(said["pid"])
                else:
                    self._ended[said["ended"]] = said["code"]
                    self._settle(said["ended"])
                self._answered.notify_all()
        with self._answered:
            self._has_ended = True
            self._answered.notify_all()

    def _settle(self, pid: int) -> None:
        if pid in self._children and pid in self._ended:
            child = self._children.pop(pid)
            child.code = self._ended.pop(pid)
            child.ended.set()

    def start(self, asked: dict[str, Any]) -> Running:
        """Fork for one command."""
        with self._one_at_a_time, self._answered:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            if not self._answered.wait_for(lambda: self._pids, timeout=30):
                raise RuntimeError("nothing was forked")
            running = Running(self._pids.pop(), Path(asked["out"]), Path(asked["err"]))
            self._children[running.pid] = running
            self._settle(running.pid)
        return running

    def close(self) -> None:
        """End it; its children have ended before."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        self._listening.join(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()


class World:
    """Three machines in ``machines``, their states at the begin of each stage in ``kept``."""

    def __init__(self, directory: Path, shim: Path, address: Path) -> None:
        self.machines, self.kept, self.printed = (
            directory / "machines",
            directory / "kept",
            directory / "printed",
        )
        for made in (self.machines, self.kept, self.printed):
            made.mkdir()
        self.tables = {LEAD: directory / "lead.csv", HOSPITAL: directory / "b.csv"}
        for seed, table in enumerate(self.tables.values()):
            write_csv(rows(seed, 40), table)
        with consortium(self.machines, LEAD, HOSPITAL) as made_consortium:
            self.port, settings = made_consortium.analyst.port, made_consortium.analyst.settings
            self.id = made_consortium.publish()
        (self.machines / ANALYST / "server.log").unlink()
        self.paths = {name: self.machines / name for name in (ANALYST, LEAD, HOSPITAL)}
        self.controller = Controller(self.machines, address)
        self._settings = {**settings, "ODC_ANALYST_DATA_DIR": str(self.paths[ANALYST])}
        watched = {
            "LD_PRELOAD": str(shim),
            "ODC_FAULT_SOCKET": str(address),
            "ODC_FAULT_ROOT": f"{self.machines}/",
        }
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.zygote = Zygote({**clean_environment(), **one_thread, **watched})
        self._number = 0
        self._durable: dict[str, dict[str, Durable]] = {}
        """By stage and machine; of the first stage nothing, since what founding has left is durable."""

    def keep(self, stage: str) -> None:
        """Keep the machines as they are, for `restore`."""
        shutil.copytree(self.machines, self.kept / stage)
        self._durable[stage] = {name: disk.durable() for name, disk in self.controller.disks.items()}

    def restore(self, stage: str) -> None:
        """Put the machines into the state that was kept; nothing runs on them."""
        shutil.rmtree(self.machines)
        shutil.copytree(self.kept / stage, self.machines)
        for path in self.printed.iterdir():
            path.unlink()
        self.controller.begin(self.paths, self._durable[stage])

    def _start(self, program: str, place: str, words: tuple[str, ...]) -> Running:
        self._number += 1
        name = self.printed / f"{self._number:04d}-{place}"
        return self.zygote.start(
            {
                "program": program,
                "words": words,
                "environment": {**self._settings, "ODC_FAULT_PLACE": place},
                "directory": str(self.printed),
                "out": f"{name}.out",
                "err": f"{name}.err",
            }
        )

    def serve(self) -> Running:
        """Start the analyst's server."""
        words = ("serve", "--host", "localhost", "--port", str(self.port))
        return self._start("odc-analyst", "server", words)

    def is_up(self, server: Running) -> bool:
        """Return whether a server that was started says that it takes requests."""
        return "ready for requests" in server.errors

    def odc(self, party: str, *words: str) -> Running:
        """Start a command of an institution."""
        return self._start("odc", party, ("--home", str(self.paths[party]), *words, "--json"))

    def operate(self, *words: str) -> Running:
        """Start a command of the analyst's operator."""
        return self._start("odc-analyst", "operator", words)

    def ask(self, question: str, *values: str) -> list[sqlite3.Row]:
        """Ask the analyst's database, whether a server runs or not."""
        database = self.paths[ANALYST] / "odc.sqlite"
        ends_at = time.monotonic() + _UP_S
        while True:
            try:
                with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
                    opened.row_factory = sqlite3.Row
                    return opened.execute(question, values).fetchall()
            except sqlite3.OperationalError:  # a server starts just now, or is about to
                if time.monotonic() > ends_at:
                    raise
                time.sleep(0.05)

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of everything that was printed to an error output."""
        for path in sorted(self.printed.glob("*.err")):
            yield path.stem, path.read_text()


@contextmanager
def world(shim: Path | None = None) -> Iterator[World]:
    """Found a world in a temporary directory."""
    with TemporaryDirectory(prefix="odc-campaign-") as name:
        directory = Path(name)
        made = World(directory, shim or compile_shim(directory), directory / "socket")
        try:
            yield made
        finally:
            made.zygote.close()
            made.controller.end()
