"""Enumerates the points of an undisturbed round, and plays the round again with a fault at each."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.faults.campaign import judge
from tests.faults.campaign.play import (
    START,
    START_AT,
    WATCHED_CLIENTS,
    Game,
    StuckError,
    stages,
)
from tests.faults.campaign.points import FAULTS, Fault, Point
from tests.faults.campaign.world import HOSPITAL, LEAD, World, world

ATTEMPTS: Final = 3
"""How often a round is begun whose point is not reached: threads take turns differently each time."""
ZEROS: Final = (
    "acknowledged_lost",
    "acknowledged_doubled",
    "leftovers",
    "stuck",
    "different",
    "unforeseen",
)


@dataclass
class Outcome:
    """What one fault at one point did to a round; each list says what was found, and is to be empty."""

    point: str
    fault: Fault
    reached: bool = False
    finished: bool = False
    took_s: float = 0.0
    acknowledged_lost: list[str] = field(default_factory=list)
    acknowledged_doubled: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unforeseen: list[str] = field(default_factory=list)
    typed_again: int = 0
    restarts: int = 0
    resumed: int = 0
    refusals: list[str] = field(default_factory=list)

    @property
    def is_judged(self) -> bool:
        """Whether the fault has happened, or the round came to nothing."""
        return self.reached or bool(self.stuck)

    @property
    def is_well(self) -> bool:
        """Whether the round ended as the undisturbed one."""
        return self.finished and not any(getattr(self, name) for name in ZEROS)

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.faults.campaign --point '{self.point}' --fault {self.fault}"

    def __str__(self) -> str:
        found = [f"  {name}: {text}" for name in ZEROS for text in getattr(self, name)]
        told = [f"  refused: {text}" for text in self.refusals]
        return "\n".join([f"{self.fault} at {self.point}", *found, *told, f"  again: {self.command}"])


class Campaign:
    """A world whose round was played once undisturbed."""

    def __init__(self, played_in: World) -> None:
        self.world = played_in
        self.points: list[Point] = []
        self._plan = stages(played_in)
        self._events: Counter[tuple[str, str]] = Counter()
        self._files: Counter[str] = Counter()
        self._answers: dict[str, Any] = {}
        """What each command has printed; what was acknowledged before the fault is so in every round."""
        self._play_undisturbed()

    def _play_undisturbed(self) -> None:
        self.world.keep(self._plan[0].name)
        for stage, following in zip(self._plan, [*self._plan[1:], None], strict=True):
            with Game(self.world) as game:
                game.start(stage.name)
                self._open(stage.name)
                game.play(stage)
                self.world.controller.close()
                self._add_points()
                self._answers.update(game.played.answers)
            game.look_for_the_unforeseen()
            if game.played.unforeseen or game.played.refusals:
                raise RuntimeError(f"the undisturbed round: {game.played}")
            if following:
                self.world.keep(following.name)
        game.played.answers.update(self._answers)
        verdict = judge.judge(self.world, game.played, None)
        if verdict != judge.Verdict([], [], []):
            raise RuntimeError(f"the undisturbed round: {verdict}")
        self._events = judge.events(self.world)
        self._end(game)
        self._files = judge.files(self.world)
        with Game(self.world) as game:
            game.start(START)
            self._add_points()

    def _open(self, stage: str, armed: tuple[Point, Fault] | None = None) -> None:
        party = next(one.party for one in self._plan if one.name == stage)
        self.world.controller.open(stage, party if stage in WATCHED_CLIENTS else "", armed)

    def _add_points(self) -> None:
        self.points += self.world.controller.calls

    def _tell_arrivals(self, game: Game) -> None:
        """Have whoever was warned that the analyst does not know of its downlink type `odc receive` again."""
        for row in self.world.ask("SELECT party FROM downlinks WHERE fetched_at IS NULL"):
            game.played.typed_again += 1
            game.type(row["party"], "receive")

    def _end(self, game: Game) -> None:
        """End the collaboration at the analyst, and forget it at the institutions: all of it may go."""
        game.operate("collaboration", "close", self.world.id)
        for party in (LEAD, HOSPITAL):
            game.type(party, "forget", "--yes")

    def run(self, point: Point, fault: Fault) -> Outcome:
        """Play the round with one fault, and judge it."""
        begun = time.monotonic()
        for _ in range(ATTEMPTS):
            outcome = Outcome(str(point), fault)
            try:
                self._run(point, fault, outcome)
            except StuckError as error:
                outcome.stuck.append(str(error))
            except Exception:  # noqa: BLE001  # a round that cannot even be judged counts as stuck
                outcome.stuck.append(traceback.format_exc())
            if outcome.is_judged:
                break
        outcome.took_s = round(time.monotonic() - begun, 3)
        return outcome

    def _run(self, point: Point, fault: Fault, outcome: Outcome) -> None:
        begun_at = START_AT if point.stage == START else point.stage
        names = [stage.name for stage in self._plan]
        game = Game(self.world, (point, fault))
        game.played.answers.update({name: self._answers[name] for name in names[: names.index(begun_at)]})
        try:
            with game:
                game.start(point.stage)
                for stage in self._plan[names.index(begun_at) :]:
                    if stage.name == point.stage:
                        self._open(stage.name, game.armed)
                    game.play(stage)
                    self.world.controller.close()
                    outcome.reached = self.world.controller.fired is not None
                    if not outcome.reached:
                        return
                game.wait_until_up()
                self._tell_arrivals(game)
            verdict = judge.judge(self.world, game.played, self._events)
            outcome.acknowledged_lost += verdict.lost
            outcome.acknowledged_doubled += verdict.doubled
            outcome.different += verdict.different
            self._end(game)
            found = judge.files(self.world)
            outcome.leftovers += sorted((found - self._files).elements())
            outcome.acknowledged_lost += sorted((self._files - found).elements())
            outcome.finished = True
        finally:
            game.look_for_the_unforeseen()
            played = asdict(game.played)
            for name in ("unforeseen", "typed_again", "restarts", "resumed", "refusals"):
                setattr(outcome, name, played[name])


@contextmanager
def campaign(shim: Path | None = None) -> Iterator[Campaign]:
    """Found a world and play its undisturbed round."""
    with world(shim) as made:
        yield Campaign(made)


def runs(points: list[Point], faults: tuple[Fault, ...] = tuple(FAULTS)) -> list[tuple[Point, Fault]]:
    """Return every fault at every point where it can happen."""
    return [(point, fault) for point in points for fault in point.faults if fault in faults]


def in_turn(chosen: list[tuple[Point, Fault]], seed: int) -> list[tuple[Point, Fault]]:
    """Return the rounds in an order that the seed draws: each point once, then each again, and so on."""
    shuffled = random.Random(seed).sample(chosen, len(chosen))
    seen: Counter[Point] = Counter()
    turns: list[tuple[int, int, tuple[Point, Fault]]] = []
    for point, fault in shuffled:
        turns.append((seen[point], len(turns), (point, fault)))
        seen[point] += 1
    return [run for _, _, run in sorted(turns, key=lambda turn: turn[:2])]


def drawn(points: list[Point], seed: int) -> list[tuple[Point, Fault]]:
    """Return each fault at each place once, at a point that the seed draws."""
    rng = random.Random(seed)
    kinds = sorted({(point.place, fault) for point, fault in runs(points)})
    return [rng.choice([run for run in runs(points) if (run[0].place, run[1]) == kind]) for kind in kinds]
