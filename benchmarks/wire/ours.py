"""A whole round of ours in network namespaces, from installed software to predictions.

The consortium is founded, and everybody joins, signs, contributes, receives and predicts, at the same time
wherever nobody depends on another. The passphrase and the invitations are read from files, as if they had
been sent by letter or mail; everything else goes over the lines.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, cast

import pyarrow.csv

from benchmarks.wire.tables import Work
from metering.explanation import PartyExplanation
from odc_demo import scores
from odc_demo.actors import Analyst, clean_environment
from odc_demo.namespaces import ANALYST_ADDRESS, Counters, Star, star
from odc_demo.tables import write_csv
from user_client.sdk import Session

NOT_YET: Final = 6
"""Exit code of a command that has to wait for another party."""
_PORT: Final = 8443
_SHELL: Final = (sys.executable, "-m", "benchmarks.wire.shell")
_TIMEOUT_S: Final = 300
_LOOK_S: Final = 0.1
_GLANCE_S: Final = 0.01


class Shell:
    """A process that runs the commands of one member, one after another."""

    def __init__(self, name: str, directory: Path, command: Sequence[str], **settings: str) -> None:
        self.name, self._log_path = name, directory / "shell.log"
        directory.mkdir(parents=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**clean_environment(), **settings},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._commands = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def start(self, *words: str) -> None:
        """Queue a command behind those that were started before."""
        self._commands.write(json.dumps(words) + "\n")
        self._commands.flush()

    def finish(self, *, may_wait: bool = False) -> str:
        """Wait for the oldest unfinished command and return what it printed."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended:\n{self._log_path.read_text()}")
        found = json.loads(line)
        if found["exit_code"] == 0 or (may_wait and found["exit_code"] == NOT_YET):
            return str(found.get("printed", ""))
        raise RuntimeError(f"{self.name}: {found['error']}")

    def run(self, *words: str) -> str:
        """Run a command and return what it printed."""
        self.start(*words)
        return self.finish()

    def stop(self) -> None:
        self._commands.close()
        self._process.wait(timeout=_TIMEOUT_S)
        self._answers.close()


class Institution(Shell):
    """A shell of `odc`."""

    def __init__(self, name: str, home: Path, prefix: Sequence[str]) -> None:
        self.home = home
        super().__init__(name, home, [*prefix, *_SHELL, "odc", "--home", str(home)])


@dataclass(frozen=True)
class Round:
    """What one round cost, and the mean scores of the parties' predictions."""

    laps: dict[str, float]
    """Seconds from the start until each step was done at every party."""
    by_party: dict[str, Counters]
    """Bytes on each party's line, counted by the interfaces."""
    explained: dict[str, PartyExplanation]
    """How each institution explains its bytes."""
    report: dict[str, Any]
    """The analyst's report."""
    scores: dict[str, float]

    @property
    def bytes(self) -> int:
        """Return the bytes of all frames on all lines."""
        return sum(counters.bytes for counters in self.by_party.values())

    @property
    def seconds(self) -> float:
        """Return the seconds from the first process to the predictions on every party's disk."""
        return self.laps["predicted"]

    @property
    def seconds_without_joining(self) -> float:
        return self.seconds - self.laps["joined"]


def whole_round(work: Work, out: Path) -> Round:
    """Run a round of ``work`` and return its measurements."""
    shutil.rmtree(out, ignore_errors=True)
    files, laps = _lay_out(work, out), _Laps()
    with star(work.parties) as net:
        server = Analyst(out / "analyst", port=_PORT, host=ANALYST_ADDRESS, prefix=net.analyst.prefix)
        laps.start()
        with ExitStack() as stack:
            operator, lead = _founders(work, net, out, stack)
            try:
                _found_consortium(server, operator, lead, files)
                others = _others(work, net, out, stack)  # they load while the server loads
                collaboration_id = _play(server, operator, [lead, *others], files, laps)
            finally:
                server.stop()  # it writes its last byte counts
            report = json.loads(operator.run("collaboration", "report", collaboration_id, "--json"))
        by_party = {party: machine.counters() for party, machine in net.parties.items()}
    schema = work.schema
    predicted = [pyarrow.csv.read_csv(out / party / "predictions.csv") for party in work.parties]
    return Round(
        laps.seconds,
        by_party,
        {party: _explained(out / party, collaboration_id) for party in work.parties},
        report,
        scores.mean([scores.of_predictions(one, work.hold_out, schema) for one in predicted]),
    )


def typical(rounds: Sequence[Round]) -> Round:
    """Return the round with the median time, with the mean scores, since anchor and bases differ by round."""
    middle = sorted(rounds, key=lambda one: one.seconds)[len(rounds) // 2]
    return replace(middle, scores=scores.mean([one.scores for one in rounds]))


class _Laps:
    """Records the seconds since the start, by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def start(self) -> None:
        self._started = time.monotonic()

    def done(self, step: str) -> None:
        self.seconds[step] = time.monotonic() - self._started


def _explained(home: Path, collaboration_id: str) -> PartyExplanation:
    with Session(home) as session:
        found = session.round(collaboration_id).explain_bytes()
    if found is None:
        raise RuntimeError("this system counts no bytes of a connection")
    return found.parties[0]


def _lay_out(work: Work, out: Path) -> Path:
    """Write what exists before the round: tables, draft of the terms, passphrase; return the folder."""
    files = out / "files"
    for party, table in work.by_party.items():
        write_csv(table, files / f"{party}.csv")
    write_csv(work.hold_out, files / "hold-out.csv")
    (files / "terms.json").write_text(json.dumps(work.terms()))
    (files / "passphrase").write_text("only a benchmark keeps this in a file")
    return files


def _play(
    server: Analyst, operator: Shell, everybody: Sequence[Institution], files: Path, laps: _Laps
) -> str:
    _let_join(server, operator, everybody[0], everybody[1:], files)
    laps.done("joined")
    collaboration_id = str(json.loads(operator.finish())["collaboration_id"])
    _start(everybody, lambda _: ("terms", "accept"))
    _finish(everybody)
    everybody[0].run("anchor", "create")
    laps.done("anchored")
    # a small member may be asked for this: its rows cannot tell what the leading axes keep of them
    sending = ("contribute", "--yes", "--accept-signal-loss")
    _start(everybody, lambda one: (*sending, str(files / f"{one.name}.csv")))
    _finish(everybody)
    laps.done("contributed")
    _wait_for_release(operator, collaboration_id)
    laps.done("released")
    _start(everybody, lambda _: ("receive",))
    _start(everybody, lambda _: ("predict", str(files / "hold-out.csv")))
    _finish(everybody)
    laps.done("received")
    _finish(everybody)
    laps.done("predicted")
    return collaboration_id


def _founders(work: Work, net: Star, out: Path, stack: ExitStack) -> tuple[Shell, Institution]:
    """Start a process for the analyst's operator and one for the lead; ``stack`` ends them."""
    lead, data_dir = work.parties[0], out / "analyst"
    founder = Institution(lead, out / lead, net.parties[lead].prefix)
    stack.callback(founder.stop)
    command = [*net.analyst.prefix, *_SHELL, "odc-analyst"]
    operator = Shell("analyst", data_dir, command, ODC_ANALYST_DATA_DIR=str(data_dir))
    stack.callback(operator.stop)
    return operator, founder


def _others(work: Work, net: Star, out: Path, stack: ExitStack) -> list[Institution]:
    """Start a process for each party except the lead; ``stack`` ends them."""
    others = []
    for party in work.parties[1:]:
        others.append(Institution(party, out / party, net.parties[party].prefix))
        stack.callback(others[-1].stop)
    return others


def _start(institutions: Sequence[Institution], command: Callable[[Institution], Sequence[str]]) -> None:
    """Start a command at each institution, after those it is still running."""
    for institution in institutions:
        institution.start(*command(institution))


def _finish(institutions: Sequence[Institution], *, may_wait: bool = False) -> None:
    """Wait until each institution has finished its oldest unfinished command."""
    for institution in institutions:
        institution.finish(may_wait=may_wait)


def _found_consortium(server: Analyst, operator: Shell, lead: Institution, files: Path) -> None:
    """Create root, lead and the analyst's request, without waiting for the analyst's server."""
    server.launch("--wait", str(_TIMEOUT_S))
    founding = ("Benchmark", "--analyst", server.url, "--party", lead.name, *_secret(files))
    lead.run("consortium", "create", *founding)
    operator.run("join", str(lead.home / "analyst.invitation.json"))


def _let_join(
    server: Analyst, operator: Shell, lead: Institution, others: Sequence[Institution], files: Path
) -> None:
    """Invite and certify everybody; one command of the lead signs for the analyst and the others."""
    for other in others:
        lead.run("consortium", "invite", other.name)
    signing = ("--request", str(server.data_dir / "analyst-request.odc"), "--yes", "--watch", str(_TIMEOUT_S))
    lead.start("consortium", "approve", *signing, *_secret(files))
    certificate = lead.home / "analyst-certificate.pem"
    _wait_for(certificate)
    operator.run("install", str(certificate))
    server.wait_until_up()
    # the first attempt cannot get a certificate yet: the lead has not approved
    _start(others, lambda one: ("join", str(lead.home / f"{one.name}.invitation.json")))
    _finish(others, may_wait=True)
    operator.start("collaboration", "create", str(files / "terms.json"), "--json")  # they are known now
    lead.finish()
    _start(others, lambda _: ("join",))
    _finish(others)


def _secret(files: Path) -> tuple[str, str]:
    return "--passphrase-file", str(files / "passphrase")


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{file} was not written within {_TIMEOUT_S} s")
        time.sleep(_GLANCE_S)


def _wait_for_release(operator: Shell, collaboration_id: str) -> None:
    """Poll as the operator until the round is released, so that nobody polls over the lines."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        row = json.loads(operator.run("collaboration", "show", collaboration_id, "--json"))
        if row["state"] == "released":
            return
        if row["state"] == "failed" or time.monotonic() > deadline:
            raise RuntimeError(f"the round is {row['state']}: {row['failure']}")
        time.sleep(_LOOK_S)
