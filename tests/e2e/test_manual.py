"""The commands of docs/start.md and of the README, typed as they stand, each terminal a process at a time.

Those of the README are typed as by a stranger, who has the wheel and empty directories.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from odc_demo.actors import free_port
from tests.harness.tree import REPOSITORY
from tests.harness.wheel import bare_environment
from tests.harness.written_commands import Written, blocks, written_in

START = REPOSITORY / "docs" / "start.md"
README = REPOSITORY / "README.md"
INSTITUTIONS = ("lead", "b", "c")
WAITS_FOR_OTHERS = re.compile(r"odc-analyst serve|odc serve|--watch|--wait|odc round")
SENT_BY_PEOPLE = ("*.invitation.json", "analyst-request.odc", "analyst-certificate.pem", "terms.toml")
NOT_NOW = 6
"""The exit code that says to try again later, as a person does."""
PATIENCE_S = 300
ASKS = b"[y/N]:"
HERE = Path(sys.executable).parent
MOST_OF_AN_INSTITUTION, MOST_OF_THE_ANALYST = 4, 3
"""Commands from the invitation to predictions, and from nothing to a model."""
IN_WORDS = dict(
    enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
)


class Seen:
    """What a command prints, read by a person who agrees to whatever it asks, once it has asked."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self._process, self._keyboard = process, keyboard
        self._printed = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while piece := os.read(self._process.stdout.fileno(), 65536):
            self._printed += piece
            if self._printed.rstrip().endswith(ASKS):
                os.write(self._keyboard, b"y\n")

    def to_the_end(self) -> str:
        """Return all that was printed, once the command has ended."""
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._printed.decode()


@dataclass
class Terminal:
    """What one person types in one folder, one command after the other, and what it printed."""

    directory: Path
    environment: dict[str, str]
    running: tuple[Written, subprocess.Popen[bytes]] | None = None
    seen: Seen | None = None
    printed: dict[str, str] = field(default_factory=dict)
    keyboards: list[int] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    """Every command as often as it was typed."""

    def type(self, command: Written, line: str, *, patience_s: float = PATIENCE_S) -> None:
        """Type a command once the one before has ended; again and again if it says that it is too early."""
        self.wait()
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = value.replace("$PWD", str(self.directory))
            return
        ends = time.monotonic() + patience_s
        while True:
            self.running = command, self._started(line)
            if WAITS_FOR_OTHERS.search(line):
                return
            if self._end() != NOT_NOW or time.monotonic() > ends:
                break
            time.sleep(0.5)

    def _started(self, line: str) -> subprocess.Popen[bytes]:
        self.typed.append(line)
        keyboard, screen = pty.openpty()
        process = subprocess.Popen(
            shlex.split(line),
            cwd=self.directory,
            env=self.environment,
            stdin=screen,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.close(screen)
        self.keyboards.append(keyboard)
        self.seen = Seen(process, keyboard)
        return process

    @property
    def is_busy(self) -> bool:
        return self.running is not None and self.running[1].poll() is None

    def wait(self) -> None:
        """Wait for the end of the command that runs, which has to succeed."""
        if self.running is not None:
            self._end()

    def _end(self) -> int:
        assert self.running is not None
        command, process = self.running
        printed = self._all_seen()
        self.running = None
        self.printed[command.line] = printed
        assert process.returncode in (0, NOT_NOW), f"{command}\n{printed}"
        return process.returncode

    def _all_seen(self) -> str:
        assert self.seen is not None
        return self.seen.to_the_end()

    def stop(self) -> None:
        if self.running is not None:
            self.running[1].terminate()
            self._all_seen()
            self.running = None
        for keyboard in self.keyboards:
            os.close(keyboard)


def wait_for(port: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(("localhost", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < ends, "nobody listens"
            time.sleep(0.2)


@contextmanager
def terminals(folders: dict[str, Path], programs: Path) -> Iterator[dict[str, Terminal]]:
    kept = bare_environment()
    kept["PATH"] = f"{programs}:{kept['PATH']}"
    found = {}
    for who, folder in folders.items():
        folder.mkdir(exist_ok=True)
        found[who] = Terminal(folder, dict(kept))
    passphrase = folders["lead"] / "passphrase"
    passphrase.write_text("what the lead types when it is asked\n")
    found["lead"].environment["ODC_PASSPHRASE_FILE"] = str(passphrase)
    try:
        yield found
    finally:
        for terminal in found.values():
            terminal.stop()


def test_the_five_minute_start_leads_to_predictions(tmp_path: Path) -> None:
    (program,) = (
        "\n".join(line for _, line in lines) for language, lines in blocks(START) if language == "python"
    )
    (tmp_path / "tables.py").write_text(program)
    port = free_port()
    typed = [command for command in written_in(START) if command.who]
    with terminals(dict.fromkeys((*INSTITUTIONS, "analyst", "operator"), tmp_path), HERE) as people:
        assert {command.who for command in typed} == set(people)
        for command in typed:
            people[command.who].type(command, command.line.replace("8443", str(port)))
            if "odc-analyst serve" in command.line:
                wait_for(port)
        shown = people["b"].printed["odc evaluate b/rows.csv"]
    header, *predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert "prediction" in header
    assert len(predictions) == len((tmp_path / "b" / "rows.csv").read_text().splitlines()) - 1
    assert "ROC-AUC" in shown


def test_a_stranger_gets_to_predictions_with_the_commands_that_the_readme_counts(
    tmp_path: Path, wheel: Path, programs: Path
) -> None:
    step_by_step = README.read_text().split("**The same step by step.**")[0].count("\n") + 1
    sitting = [one for one in typed_in_readme() if one.number < step_by_step]
    typed = play_readme(tmp_path, sitting, programs)
    for who in ("b", "c"):
        assert [line.split()[1] for line in typed[who]] == ["join", "round", "predict"]
    analyst = typed["analyst"] + typed["operator"]
    assert [line.split()[1] for line in analyst] == ["join", "serve", "collaboration"]
    lead = set(typed["lead"])  # once more if a request comes later
    said = " ".join(README.read_text().split())
    assert f"an institution types {IN_WORDS[len(typed['b'])]} commands and carries one file" in said
    assert f"The analyst types {IN_WORDS[len(analyst)]}" in said
    assert f"The lead types {IN_WORDS[len(lead)]}" in said
    assert wheel.name in said
    assert len(typed["b"]) <= MOST_OF_AN_INSTITUTION
    assert len(analyst) <= MOST_OF_THE_ANALYST


def test_the_readme_leads_to_predictions_step_by_step(tmp_path: Path, programs: Path) -> None:
    sitting = ("odc round rows.csv", "odc predict new-patients.csv --out predictions.csv")
    commands = typed_in_readme()
    first = next(number for number, one in enumerate(commands) if one.line == sitting[0])
    assert tuple(one.line for one in commands[first : first + 2]) == sitting
    play_readme(tmp_path, commands[:first] + commands[first + 2 :], programs)


def typed_in_readme() -> list[Written]:
    return [command for command in written_in(README) if command.who]


def play_readme(tmp_path: Path, commands: Iterable[Written], programs: Path) -> dict[str, list[str]]:
    """Type commands on four machines, which are folders here; people send each other files.

    Returns
    -------
    dict of str to list of str
        What was typed at each terminal.
    """
    folders = {who: tmp_path / who for who in (*INSTITUTIONS, "analyst", "operator")}
    folders["operator"] = folders["analyst"]  # `serve` keeps the analyst's first terminal busy
    port = free_port()
    with terminals(folders, programs) as people:
        for number, who in enumerate(INSTITUTIONS):
            write_tables(folders[who], number)
            people[who].environment["ODC_HOME"] = str(folders[who] / "home")
        for command in commands:
            line = command.line.replace("analyst.example:8443", f"localhost:{port}").replace(
                "8443", str(port)
            )
            for who in INSTITUTIONS if command.who == "each" else [command.who]:
                is_operator = who == "analyst" and people["analyst"].is_busy
                port_of_its_own = f" --port {free_port()}" if line == "odc serve" else ""
                people["operator" if is_operator else who].type(command, line + port_of_its_own)
            if "odc-analyst serve" in line:
                wait_for(port)
            while line == "odc consortium approve" and any(people[who].is_busy for who in INSTITUTIONS):
                time.sleep(0.5)
                people["lead"].type(
                    command, line, patience_s=0
                )  # for a request that came after the first time
            send_files(set(folders.values()))
        for who in INSTITUTIONS:
            if people[who].is_busy:  # `odc serve` does not end
                assert "serve" in str(people[who].running)
            lines = (folders[who] / "predictions.csv").read_text().splitlines()
            assert len(lines) == len((folders[who] / "new-patients.csv").read_text().splitlines())
        return {who: list(terminal.typed) for who, terminal in people.items()}


def write_tables(folder: Path, seed: int) -> None:
    rows = [
        f"{20 + age},{number % 11},{'yes' if age > 30 else 'no'}"
        for number, age in enumerate((7 * number + seed) % 60 for number in range(120))
    ]
    (folder / "rows.csv").write_text("\n".join(["age,stays,disease", *rows]) + "\n")
    (folder / "new-patients.csv").write_text("\n".join(["age,stays,disease", *rows[:9]]) + "\n")


def send_files(folders: set[Path]) -> None:
    for source in folders:
        for pattern in SENT_BY_PEOPLE:
            for path in source.glob(pattern):
                for other in folders - {source}:
                    if not (other / path.name).exists():
                        shutil.copy(path, other / path.name)
