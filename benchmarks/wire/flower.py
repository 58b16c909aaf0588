"""Federated averaging of the same MLP on the same rows, by Flower, in network namespaces.

Flower's libraries pin their own versions, so they get a virtual environment, which this module creates once
from benchmarks/flower/requirements.txt. Flower runs as its documentation recommends (SuperLink and
SuperNodes, whose defaults start a process for each message) and by its deprecated gRPC API. Both run without
TLS and without accounts, which costs Flower fewer bytes and less time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyst_server.training.metrics import score
from benchmarks.wire.tables import Work
from odc_demo.namespaces import ANALYST_ADDRESS, Counters, Machine, Star, star
from user_client.tables import encode_labels, encode_rows

HERE: Final = Path(__file__).parents[1] / "flower"
ROUNDS: Final = 40
EPOCHS: Final = 5
"""Local epochs of each party in each round: 200 in all."""
TIMEOUT_S: Final = 3600
_PORT: Final = 9092
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Federation:
    """What one federation cost, and the mean scores of the parties' models."""

    seconds: float
    by_party: dict[str, Counters]
    scores: dict[str, float]

    @property
    def bytes(self) -> int:
        return sum(counters.bytes for counters in self.by_party.values())


def install(environment: Path) -> str:
    """Create Flower's virtual environment if it is missing; return the version of Flower in it."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp = environment / hashlib.sha256(wanted.encode()).hexdigest()
    python = environment / "bin" / "python"
    if not stamp.exists():
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = (
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--requirement",
            str(HERE / "requirements.txt"),
        )
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        stamp.touch()
    told = subprocess.run(
        [str(python), "-c", "from importlib.metadata import version; print(version('flwr'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


def supported(work: Work, environment: Path, out: Path, *, rounds: int = ROUNDS) -> Federation:
    """Run a SuperLink, a SuperNode at each party, and `flwr run`; return the measurements."""

    def drive(run: _Run) -> None:
        run.start(
            *(run.net.analyst, "superlink", "flower-superlink", "--insecure", "--host", "0.0.0.0"),  # noqa: S104  # inside a namespace
            *("--port", str(_PORT), "--disable-runtime-dependency-installation"),
        )
        for index, party in enumerate(work.parties):
            run.start(
                *(run.net.parties[party], f"supernode-{index}", "flower-supernode", "--insecure"),
                *("--superlink", f"{ANALYST_ADDRESS}:{_PORT}", "--node-config", f"partition-id={index}"),
            )
        run.wait_for_text("superlink", "Uvicorn running")
        settings = f"rounds={rounds} epochs={EPOCHS} parties={len(work.parties)}"
        run.call(run.net.analyst, "flwr", "run", str(run.app), "benchmark", "--run-config", settings)

    return _measure(work, environment, out, drive)


def grpc_api(work: Work, environment: Path, out: Path, *, rounds: int = ROUNDS) -> Federation:
    """Run `start_server` and `start_client`, deprecated by Flower; return the measurements."""

    def drive(run: _Run) -> None:
        module = ("python", "-m", "fedavg.grpc_api")
        address = f"{ANALYST_ADDRESS}:{_PORT}"
        counts = (str(len(work.parties)), str(rounds))
        run.start(run.net.analyst, "server", *module, "server", address, *counts)
        run.wait_for_text("server", "gRPC server running")
        for index, party in enumerate(work.parties):
            run.start(
                run.net.parties[party], f"client-{index}", *module, "client", address, str(index), str(EPOCHS)
            )

    return _measure(work, environment, out, drive)


def _measure(work: Work, environment: Path, out: Path, drive: Callable[[_Run], None]) -> Federation:
    """Measure from the start of the first process to the final model on every party's disk."""
    shutil.rmtree(out, ignore_errors=True)
    labels = _lay_out(work, out)
    with star(work.parties) as net, _Run(net, environment, out).processes() as run:
        start = time.monotonic()
        drive(run)
        run.wait_for_models(len(work.parties))
        seconds = time.monotonic() - start
        by_party = {party: machine.counters() for party, machine in net.parties.items()}
    found = [np.load(out / f"predictions-{index}.npy") for index in range(len(work.parties))]
    scores = [score(labels, probabilities) for probabilities in found]
    return Federation(
        seconds, by_party, {key: float(np.mean([one[key] for one in scores])) for key in scores[0]}
    )


def _lay_out(work: Work, out: Path) -> Any:
    """Write each party's encoded rows for Flower's clients; return the labels of the hold-out.

    The rows are centred and scaled as in our own model, by means over all parties. A federation would have
    to spend a round on these statistics; here it gets them for free.
    """
    out.mkdir(parents=True)
    schema = work.schema
    rows = [encode_rows(table, schema) for table in work.by_party.values()]
    mean = np.vstack(rows).mean(axis=0)
    scale = float(np.sqrt(np.vstack(rows).var(axis=0).mean()))
    for index, (own, table) in enumerate(zip(rows, work.by_party.values(), strict=True)):
        labels = encode_labels(table, schema)
        np.savez(out / f"party-{index}.npz", rows=((own - mean) / scale).astype(np.float32), labels=labels)
    labels = encode_labels(work.hold_out, schema)
    held_out = ((encode_rows(work.hold_out, schema) - mean) / scale).astype(np.float32)
    np.savez(out / "hold-out.npz", rows=held_out, labels=labels)
    about = {"features": work.features, "classes": schema.label_column.outputs}
    (out / "about.json").write_text(json.dumps(about))
    return labels.astype(np.int64)


class _Run:
    """The processes of one federation, their logs and their results."""

    def __init__(self, net: Star, environment: Path, out: Path) -> None:
        self.net, self._out = net, out
        self.app = out / "app"
        shutil.copytree(HERE, self.app, ignore=shutil.ignore_patterns("__pycache__"))
        home = out / "flower-home"
        home.mkdir()
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "benchmark"\n\n'
            f'[superlink.benchmark]\naddress = "{ANALYST_ADDRESS}:{_PORT}"\ninsecure = true\n'
        )
        self._environment = {
            **os.environ,
            "PATH": f"{(environment / 'bin').absolute()}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.app),
            "FEDAVG_DATA": str(out),
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @contextmanager
    def processes(self) -> Iterator[_Run]:
        """Yield the run, and afterwards end its processes and everything they started."""
        try:
            yield self
        finally:
            for process in self._running.values():
                process.terminate()
            for machine in (self.net.analyst, *self.net.parties.values()):
                machine.end_processes()
            for process in self._running.values():
                process.wait()

    def start(self, machine: Machine, name: str, *command: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*machine.prefix, *command],
                env=self._environment,
                cwd=self._out,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def call(self, machine: Machine, *command: str) -> None:
        done = subprocess.run(
            [*machine.prefix, *command],
            env=self._environment,
            cwd=self._out,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )

    def wait_for_text(self, name: str, text: str) -> None:
        self._wait(lambda: text in self._log(name).read_text(errors="replace"), f"{name} to say {text!r}")

    def wait_for_models(self, parties: int) -> None:
        paths = [self._out / f"predictions-{index}.npy" for index in range(parties)]
        self._wait(lambda: all(path.exists() and path.stat().st_size for path in paths), "the final models")

    def _wait(self, is_there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_there():
            ended = [name for name, process in self._running.items() if process.poll()]
            if ended or time.monotonic() > deadline:
                name = ended[0] if ended else next(iter(self._running))
                raise RuntimeError(
                    f"waited for {what}:\n{self._log(name).read_text(errors='replace')[-3000:]}"
                )
            time.sleep(_POLL_S)

    def _log(self, name: str) -> Path:
        return self._out / f"{name}.log"
