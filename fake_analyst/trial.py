"""Plays scenarios with a client, and judges what it does."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow.csv

from fake_analyst.client import Client, Ran, Step
from fake_analyst.honest import Honest, table
from fake_analyst.scenario import Scenario, Stand, Tried
from protocol.operations import FETCH_DOWNLINK

Outcome = Literal["passed", "failed", "advised", "skipped"]
JOINS: Final = 3
"""How often the command to join is run at most: it may end while its request is not approved."""


@dataclass(frozen=True)
class Verdict:
    """What one scenario has shown. `advised`: it does not do what the document only advises."""

    name: str
    does: str
    section: str
    says: str
    step: str
    outcome: Outcome
    detail: str
    seconds: float
    output: str
    """What the client has printed, if the scenario was not passed."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class ClientFailedError(Exception):
    """The client fails where nobody lies, so that nothing can be tried there."""

    def __init__(self, ran: Ran) -> None:
        came_to = ", and nothing came of it," if ran.succeeded else ""
        super().__init__(f"`{ran.step}` {ran.ending}{came_to} although nobody lied")
        self.ran = ran


class Trial:
    """One client before one fake analyst."""

    def __init__(self, honest: Honest, client: Client, directory: Path) -> None:
        self._honest, self._client, self._directory = honest, client, directory
        self._home, self._kept = directory / "home", directory / "kept"
        self._rounds: dict[Step, tuple[str, int]] = {}
        self._out, self._table = directory / "predictions.csv", directory / "rows.csv"
        directory.mkdir(parents=True, exist_ok=True)
        pyarrow.csv.write_csv(table(1), self._table)

    def run(
        self, scenarios: Iterable[Scenario], told: Callable[[Verdict], None] = lambda _verdict: None
    ) -> list[Verdict]:
        """Play scenarios one after another; ``told`` hears each verdict at once."""
        found = []
        for scenario in scenarios:
            found.append(self._verdict(scenario))
            told(found[-1])
        return found

    def _verdict(self, scenario: Scenario) -> Verdict:
        began_s = time.monotonic()
        try:
            outcome, detail, ran = self._played(scenario)
        except ClientFailedError as error:
            outcome, detail, ran = "failed", str(error), [error.ran]
        output = "" if outcome == "passed" else "\n".join(one.output for one in ran)
        return Verdict(
            scenario.name,
            scenario.does,
            scenario.section,
            scenario.says,
            scenario.step.value,
            outcome,
            detail,
            round(time.monotonic() - began_s, 2),
            output,
        )

    def _played(self, scenario: Scenario) -> tuple[Outcome, str, Sequence[Ran]]:
        stand = self._stand(scenario.step)
        lies = scenario.lies(stand)
        self._honest.between.begin(lies)
        try:
            ran = self._commands(scenario, stand)
        finally:
            tried_of = self._honest.between.noted
            self._honest.between.begin(())
        tried = Tried(ran, tried_of)
        if scenario.predicts and tried.last.succeeded and not self._client.has(Step.PREDICT):
            return "skipped", "no command was given for predict", ran
        if scenario.if_asked and not any(one.lied for one in tried.noted):
            return "skipped", "it never asks for that again", ran
        wrong = what_is_wrong(scenario, tried, lied=bool(lies))
        if wrong:
            return ("failed" if scenario.binds else "advised"), wrong, ran
        return "passed", "", ran

    def _commands(self, scenario: Scenario, stand: Stand) -> list[Ran]:
        """Run the commands of a scenario, up to the first that fails."""
        steps = [Step.REFRESH] if scenario.refreshes else []
        steps += [scenario.by or scenario.step, *([Step.PREDICT] if scenario.predicts else [])]
        ran: list[Ran] = []
        for step in filter(self._client.has, steps):
            if step is Step.JOIN:
                self._honest.invitation(self._directory / "invitation.json")
            ran.append(self._ran(step, stand.id))
            if not ran[-1].succeeded:
                break
        return ran

    def _ran(self, step: Step, collaboration_id: str = "") -> Ran:
        self._out.unlink(missing_ok=True)
        places = {
            "url": self._honest.url,
            "home": str(self._home),
            "invitation": str(self._directory / "invitation.json"),
            "collaboration": collaboration_id,
            "table": str(self._table),
            "out": str(self._out),
        }
        return self._client.run(step, places, self._directory / f"{step}.log")

    def _stand(self, step: Step) -> Stand:
        """Return where a step begins, played honestly up to there, and put the client's home back to then.

        What an earlier scenario has left as it was is used again.
        """
        if step is Step.JOIN:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home.mkdir(parents=True)
            return Stand(self._honest, "")
        known = self._rounds.get(step)
        is_spent = known is not None and step is not Step.RECEIVE and self._honest.steps(known[0]) != known[1]
        if known is None or is_spent:
            self._rounds[step] = known = self._prepared(step)
        self._put_back(step)
        return Stand(self._honest, known[0])

    def _prepared(self, step: Step) -> tuple[str, int]:
        """Play honestly up to a step; return the round and the length of its ledger."""
        if step is Step.ACCEPT:
            if not self._keeps(Step.JOIN).exists():
                self._join()
            shutil.rmtree(self._keeps(step), ignore_errors=True)
            shutil.copytree(self._keeps(Step.JOIN), self._keeps(step), symlinks=True)
            found = self._honest.publish()
            return found, self._honest.steps(found)
        before = Step.ACCEPT if step is Step.CONTRIBUTE else Step.CONTRIBUTE
        found = self._stand(before).id
        self._must_succeed(before, found)
        if step is Step.CONTRIBUTE:
            self._honest.anchor(found)
        else:
            self._honest.wait_for_release(found)
        self._keep(step)
        return found, self._honest.steps(found)

    def _join(self) -> None:
        self._stand(Step.JOIN)
        self._honest.invitation(self._directory / "invitation.json")
        for _ in range(JOINS):
            ran = self._ran(Step.JOIN)
            if ran.crashed:
                break
            if ran.succeeded and self._honest.approved:
                self._keep(Step.JOIN)
                return
            self._honest.approve()
        raise ClientFailedError(ran)

    def _must_succeed(self, step: Step, collaboration_id: str) -> None:
        self._honest.between.begin(())
        before = self._honest.steps(collaboration_id)
        ran = self._ran(step, collaboration_id)
        if not ran.succeeded or self._honest.steps(collaboration_id) == before:
            raise ClientFailedError(ran)

    def _keeps(self, step: Step) -> Path:
        return self._kept / step.value

    def _keep(self, step: Step) -> None:
        shutil.rmtree(self._keeps(step), ignore_errors=True)
        shutil.copytree(self._home, self._keeps(step), symlinks=True)

    def _put_back(self, step: Step) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._keeps(step), self._home, symlinks=True)


def what_is_wrong(scenario: Scenario, tried: Tried, *, lied: bool) -> str:
    """Return what a client has done wrong; empty if nothing."""
    if crashed := next((one for one in tried.ran if one.crashed), None):
        return f"`{crashed.step}` {crashed.ending}"
    if lied and not any(one.lied for one in tried.noted):
        asked = ", ".join(one.request.operation.name for one in tried.noted if one.request.operation)
        return f"it never asked for what was lied about, only for: {asked or 'nothing'}"
    if scenario.ends == "succeeds" and not tried.last.succeeded:
        return f"`{tried.last.step}` {tried.last.ending}, and should have gone on"
    sent = [
        one.request.operation.name
        for one in tried.after
        if one.request.operation in scenario.forbidden
        and (one.request.operation is not FETCH_DOWNLINK or one.request.acknowledges)
    ]
    if scenario.ends == "refuses" and sent:
        return f"it sent after the lie: {', '.join(name for name in sent if name)}"
    if scenario.ends == "refuses" and all(one.succeeded for one in tried.ran):
        return f"`{tried.last.step}` ended with 0: it believed the lie"
    return scenario.judge(tried) if scenario.judge else ""
