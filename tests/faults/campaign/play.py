"""Plays a round from one of its stages to its end, as people and a supervisor do, whatever happens."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.campaign.points import Fault, Point
from tests.faults.campaign.world import ANALYST, HOSPITAL, LEAD, Running, World

WAIT_S: Final = 90.0
"""How long a command, or the computation of a round, may take before it counts as stuck."""
TRIES: Final = 6
"""How often a person types a command that fails."""
_PAUSE_S: Final = 0.05
_UNFORESEEN: Final = re.compile(r"Traceback|incident [0-9a-f]|unexpected \w+Error", re.IGNORECASE)


@dataclass(frozen=True)
class Stage:
    """One command of the round, and whether it lets the analyst compute."""

    name: str
    party: str
    words: tuple[str, ...]
    computes: bool = False


def stages(world: World) -> list[Stage]:
    """Return the commands of a round, from the first signature to the ledgers."""
    lead, b = (str(world.tables[party]) for party in (LEAD, HOSPITAL))
    return [
        Stage("accept-lead", LEAD, ("terms", "accept")),
        Stage("accept", HOSPITAL, ("terms", "accept")),
        Stage("anchor", LEAD, ("anchor", "create")),
        Stage("contribute-lead", LEAD, ("contribute", "--yes", lead)),
        Stage("contribute", HOSPITAL, ("contribute", "--yes", b), computes=True),
        Stage("receive-lead", LEAD, ("receive",)),
        Stage("receive", HOSPITAL, ("receive",)),
        Stage("ledger-lead", LEAD, ("ledger", "fetch")),
        Stage("ledger", HOSPITAL, ("ledger", "fetch")),
    ]


WATCHED_CLIENTS: Final = ("accept", "anchor", "contribute", "receive", "ledger")
"""The stages whose command is watched: the lead's others are the same commands on an equal machine."""
START: Final = "start"
"""The stage in which the server starts, in the middle of the round."""
START_AT: Final = "contribute"


class StuckError(Exception):
    """The round does not go on."""


@dataclass
class Played:
    """What became of a round."""

    answers: dict[str, Any] = field(default_factory=dict)
    """What each command printed that ended well, by its stage: this is acknowledged."""
    unforeseen: list[str] = field(default_factory=list)
    typed_again: int = 0
    restarts: int = 0
    resumed: int = 0
    refusals: list[str] = field(default_factory=list)


class Game:
    """One round, and the supervisor of its server."""

    def __init__(self, world: World, armed: tuple[Point, Fault] | None = None) -> None:
        self.world, self.armed = world, armed
        self.played = Played()
        self._server: Running | None = None
        self._is_down = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise)
        self._failure: Exception | None = None

    def __enter__(self) -> Game:
        return self

    def start(self, stage: str) -> None:
        """Restore the begin of a stage, and start the server."""
        self.world.restore(START_AT if stage == START else stage)
        if stage == START:
            self.world.controller.open(START, HOSPITAL, self.armed)
        self._server = self.world.serve()
        self._supervisor.start()
        self.wait_until_up()
        if stage == START:
            self.world.controller.close()

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server as an operator would, or kill it if it does not stop."""
        self._is_down.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        if self._server is not None:
            self._server.signal(signal.SIGTERM)
            if not self._server.ended.wait(30):
                self._server.signal(signal.SIGKILL)
                self._server.ended.wait(30)

    def _supervise(self) -> None:
        """Start the server again whenever it ends, and give its machine its power back before."""
        while not self._is_down.wait(_PAUSE_S):
            assert self._server is not None
            if self._server.ended.is_set():
                try:
                    self._restore_power(ANALYST)
                except Exception as error:  # noqa: BLE001  # the game raises it
                    self._failure = error
                    return
                self.played.restarts += 1
                if self.played.restarts > TRIES:
                    return
                self._server = self.world.serve()

    def _restore_power(self, machine: str) -> None:
        if self.world.controller.cut_machine == machine and self.armed is not None:
            self.world.controller.restore_power(str(self.armed[0]), self.armed[1])

    def wait_until_up(self) -> None:
        """Wait until the server takes requests, however often it is started for that."""
        time.sleep(2 * _PAUSE_S)  # one that was killed just now is known to be
        self._wait(self._is_up, "the server")

    def _is_up(self) -> bool:
        return self._server is not None and not self._server.ended.is_set() and self.world.is_up(self._server)

    def _wait(self, condition: Any, what: str) -> None:
        ends_at = time.monotonic() + WAIT_S
        while not condition():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > ends_at or self.played.restarts > TRIES:
                raise StuckError(f"{what}: not within {WAIT_S:g} s, {self.played.restarts} restarts")
            time.sleep(_PAUSE_S)

    def play(self, stage: Stage) -> None:
        """Type the command of a stage until it succeeds, and wait for what it lets the analyst compute."""
        self.played.answers[stage.name] = self.type(stage.party, *stage.words)
        if stage.computes:
            self._wait(self._is_computed, "the computation")

    def type(self, party: str, *words: str) -> Any:
        """Type a command of an institution until it succeeds, and return its JSON."""
        for _ in range(TRIES):
            running = self.world.odc(party, *words)
            if not running.ended.wait(WAIT_S):
                running.signal(signal.SIGKILL)
                running.ended.wait(10)
                raise StuckError(f"{words[0]} does not end: {running.errors[-300:]}")
            self._restore_power(party)
            if running.code == 0:
                return json.loads(running.out.read_text())
            if running.code != -signal.SIGKILL:
                self.played.refusals.append(f"{words[0]}: {running.code}: {running.errors[-400:].strip()}")
            self.played.typed_again += 1
            self._resume_if_failed()
        raise StuckError(f"{words[0]}: {self.played.refusals[-1:]}")

    def _state(self) -> Any:
        (row,) = self.world.ask(
            "SELECT state, unjudged IS NULL AS judged, failure FROM collaborations WHERE id = ?",
            self.world.id,
        )
        return row

    def _is_computed(self) -> bool:
        self._resume_if_failed()
        row = self._state()
        return row["state"] == "released" and bool(row["judged"])

    def _resume_if_failed(self) -> None:
        """Do what the operator is told to do with a round that has failed."""
        row = self._state()
        if row["state"] == "failed":
            self.played.refusals.append(f"failed: {row['failure']}")
            self.operate("collaboration", "resume", self.world.id)
            self.played.resumed += 1

    def operate(self, *words: str) -> str:
        """Run a command of the operator, and again if it is refused; return what it printed."""
        for _ in range(TRIES):
            running = self.world.operate(*words)
            if running.ended.wait(WAIT_S) and running.code == 0:
                return running.out.read_text()
            self.played.refusals.append(f"{words}: {running.code}: {running.errors[-400:].strip()}")
        raise StuckError(self.played.refusals[-1])

    def look_for_the_unforeseen(self) -> None:
        """Note every line that only a fault of the program explains."""
        for name, text in self.world.logs():
            if found := _UNFORESEEN.search(text):
                around = text[max(found.start() - 300, 0) : found.start() + 20_000]
                self.played.unforeseen.append(f"{name}: {around}")
