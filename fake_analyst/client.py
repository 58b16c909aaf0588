"""The client that is tried: the commands that were given for its steps, as processes of their own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from protocol.errors import InputError

CRASHES: Final = (70, 101, 134, 139)
"""Exit codes of an error nobody has thought of: EX_SOFTWARE, a Rust panic, an abort, a fault of memory."""


class Step(StrEnum):
    """What a client does for a round, each by a command."""

    JOIN = "join"
    REFRESH = "refresh"
    ACCEPT = "accept"
    CONTRIBUTE = "contribute"
    RECEIVE = "receive"
    PREDICT = "predict"


NEEDED: Final = (Step.JOIN, Step.ACCEPT, Step.CONTRIBUTE, Step.RECEIVE)
PLACES: Final = ("url", "home", "invitation", "collaboration", "table", "out")
OURS: Final = {
    Step.JOIN: "{python} -m user_client join {invitation}",
    Step.REFRESH: "{python} -m user_client revocations",
    Step.ACCEPT: "{python} -m user_client terms accept --collaboration {collaboration}",
    Step.CONTRIBUTE: "{python} -m user_client contribute {table} --yes --collaboration {collaboration}",
    Step.RECEIVE: "{python} -m user_client receive --collaboration {collaboration}",
    Step.PREDICT: "{python} -m user_client predict {table} --out {out} --collaboration {collaboration}",
}
"""The commands of `odc`, which are tried where no others are given."""
OUR_ENVIRONMENT: Final = {"ODC_HOME": "{home}"}


@dataclass(frozen=True)
class Ran:
    """How a command of the client has ended."""

    step: Step
    code: int | None
    """None: it was ended because it took too long. Below 0: a signal has ended it."""
    output: str
    """Both its outputs, the errors last."""

    @property
    def succeeded(self) -> bool:
        return self.code == 0

    @property
    def crashed(self) -> bool:
        """Whether it ended in a way that nobody would call a refusal."""
        return self.code is None or self.code < 0 or self.code in CRASHES

    @property
    def ending(self) -> str:
        """How it ended, for people."""
        if self.code is None:
            return "did not end in time"
        if self.code < 0:
            return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with {self.code}"


@dataclass(frozen=True)
class Client:
    """Commands by step, in which places like ``{home}`` stand for what the kit fills in."""

    commands: Mapping[Step, str] = field(default_factory=lambda: dict(OURS))
    environment: Mapping[str, str] = field(default_factory=lambda: dict(OUR_ENVIRONMENT))
    timeout_s: float = 60

    def __post_init__(self) -> None:
        if missing := [step for step in NEEDED if step not in self.commands]:
            raise InputError(f"no command was given for: {', '.join(missing)}")

    def has(self, step: Step) -> bool:
        return step in self.commands

    def start(self, step: Step, places: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start the command of a step; what it prints goes to a file."""
        places = {**places, "python": sys.executable}
        words = [_filled(word, places) for word in shlex.split(self.commands[step])]
        told = {name: _filled(value, places) for name, value in self.environment.items()}
        with log.open("wb") as file:
            return subprocess.Popen(
                words,
                cwd=places["home"],
                env={**os.environ, **told},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, step: Step, process: subprocess.Popen[bytes], log: Path) -> Ran:
        """Wait for a command; one that takes too long is ended with all that it has started."""
        code: int | None
        try:
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        return Ran(step, code, log.read_bytes().decode(errors="replace"))

    def run(self, step: Step, places: Mapping[str, str], log: Path) -> Ran:
        """Run the command of a step to its end."""
        return self.finish(step, self.start(step, places, log), log)


def _filled(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text
