"""The analyst and the institutions as separate processes, each in its own directory.

Everything is done with the commands `odc` and `odc-analyst`, as a person would type them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Protocol

START_TIMEOUT_S = 60
_ANALYST = (sys.executable, "-m", "analyst_server")


class CommandError(RuntimeError):
    """A command ended with an error; the message contains its output."""

    def __init__(self, words: list[str], process: subprocess.CompletedProcess[str]) -> None:
        self.exit_code, self.stderr = process.returncode, _for_people(words[0], process.stderr)
        super().__init__(f"`{' '.join(words)}` ended with {process.returncode}:\n{self.stderr}")


def _for_people(program: str, stderr: str) -> str:
    """Return what a command printed with an error of ``--json`` as the two lines that people read."""
    *before, last = stderr.splitlines(keepends=True) or [""]
    try:
        told = json.loads(last)["error"]
    except (ValueError, TypeError, KeyError):
        return stderr
    return "".join([*before, f"{program}: error: {told['detail']}\n{program}: hint: {told['hint']}\n"])


class Running(Protocol):
    """A command that was started, a `subprocess.Popen` of text for example."""

    returncode: Any
    """Its exit code, None while it runs; `subprocess.Popen` gives it no narrower type."""

    def communicate(self, *, timeout: float) -> tuple[str, str]:
        """Wait for the end and return what was printed on both channels."""


class Server(Protocol):
    """The analyst's server while it runs, a `subprocess.Popen` for example."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its exit code."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def clean_environment() -> dict[str, str]:
    """Return the environment without the user's ODC settings, and with one thread per process by default."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ODC_")}
    return {**kept, "OMP_NUM_THREADS": kept.get("OMP_NUM_THREADS", "1")}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Institution:
    """One institution: a state directory and the command `odc`."""

    name: str
    home: Path
    prefix: tuple[str, ...] = ()
    """Put before every command, for example to run it on another machine."""

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it."""
        odc = [sys.executable, "-m", "user_client", "--home", str(self.home)]
        command = [*self.prefix, *odc, *words, "--json"]
        self.home.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            command,
            cwd=self.home,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def odc(self, *words: str) -> Any:
        """Run a command and return its JSON; raise `CommandError` if it fails."""
        return self.finish(words, self.start(*words))

    def finish(self, words: tuple[str, ...], process: Running) -> Any:
        """Wait for a started command and return its JSON; raise `CommandError` if it fails."""
        out, err = process.communicate(timeout=300)
        if process.returncode != 0:
            done = subprocess.CompletedProcess(words, process.returncode, out, err)
            raise CommandError(["odc", *words], done)
        return json.loads(out)


@dataclass
class Analyst:
    """The analyst: a data directory, the command `odc-analyst`, and its server while it runs."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    host: str = "localhost"
    prefix: tuple[str, ...] = ()
    server: Server | None = None

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.data_dir / "server.log"

    def environment(self) -> dict[str, str]:
        """Return what its commands find in their environment."""
        return {**clean_environment(), **self.settings, "ODC_ANALYST_DATA_DIR": str(self.data_dir)}

    def run(self, *words: str) -> str:
        """Run a command of `odc-analyst` and return what it printed; raise `CommandError` if it fails."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        done = self.ended(*words)
        if done.returncode != 0:
            raise CommandError(["odc-analyst", *words], done)
        return done.stdout

    def ended(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `odc-analyst` in the data directory until it ends."""
        return subprocess.run(
            [*self.prefix, *_ANALYST, *words],
            cwd=self.data_dir,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.launch()
        self.wait_until_up()

    def launch(self, *words: str) -> None:
        """Start the server without waiting for it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.server = self.begun("serve", "--host", self.host, "--port", str(self.port), *words)

    def begun(self, *words: str) -> Server:
        """Begin a command of `odc-analyst` in the data directory, which writes to the log there."""
        command = [*self.prefix, *_ANALYST, *words]
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.data_dir, env=self.environment(), stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until_up(self) -> None:
        """Wait until the server answers; raise `RuntimeError` if it ended or takes too long."""
        context = create_default_context(cafile=self.data_dir / "identity" / "root.pem")
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers(context):
            if self.server is None or self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the analyst did not start:\n{self.log_path.read_text()[-2000:]}")
            time.sleep(0.05)

    def _answers(self, context: SSLContext) -> bool:
        if self.prefix and self.prefix[0] != "env":  # on another machine, which only its institutions reach
            return "ready for requests" in self.log_path.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5, context=context) as answer:  # noqa: S310  # https by construction
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def stop(self) -> None:
        """Stop the server as an operator would."""
        if self.server is not None:
            self.server.terminate()
            self.server.wait(timeout=60)
            self.server = None

    def kill(self) -> None:
        """Kill the server without a clean stop."""
        if self.server is not None:
            self.server.kill()
            self.server.wait(timeout=60)
            self.server = None


def found_consortium(analyst: Analyst, lead: Institution, passphrase_file: Path) -> None:
    """Create root, lead and the analyst's certificate, and start the server."""
    secret = ("--passphrase-file", str(passphrase_file))
    lead.odc(
        "consortium", "create", "Demo consortium", "--analyst", analyst.url, "--party", lead.name, *secret
    )
    analyst.run("join", str(lead.home / "analyst.invitation.json"))
    lead.odc(
        "consortium", "approve", "--request", str(analyst.data_dir / "analyst-request.odc"), "--yes", *secret
    )
    analyst.launch("--certificate", str(lead.home / "analyst-certificate.pem"))
    analyst.wait_until_up()


def join_all(lead: Institution, others: Sequence[Institution], passphrase_file: Path) -> None:
    """Invite and certify the others; each generates its key in its own directory."""
    for other in others:
        invitation = lead.home / f"{other.name}.invitation.json"
        lead.odc("consortium", "invite", other.name, "--out", str(invitation))
        try:
            other.odc("join", str(invitation))
        except CommandError as waiting:  # the lead has not approved yet
            if waiting.exit_code != 6:
                raise
    lead.odc("consortium", "approve", "--yes", "--passphrase-file", str(passphrase_file))
    for other in others:
        other.odc("join")
