"""What a campaign has found: its numbers, and a file by which a stopped one goes on."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.campaign.campaign import ZEROS, Outcome
from tests.faults.campaign.points import FAULTS, Fault, Point


@dataclass
class Report:
    """The points that were found and what became of the rounds, one for each point and fault."""

    points: set[Point] = field(default_factory=set)
    outcomes: dict[tuple[str, Fault], Outcome] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def read(cls, path: Path) -> Report:
        """Return what `write` wrote; raises `ValueError` for anything else."""
        try:
            value = json.loads(path.read_text())
            outcomes = [Outcome(**one) for one in value["outcomes"]]
            points = {Point.parse(text) for text in value["all_points"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no report of a campaign of this version: {error}") from error
        return cls(points, {(one.point, one.fault): one for one in outcomes})

    def write(self, path: Path) -> None:
        """Write the numbers, the points and every outcome; whoever stops this leaves the earlier file."""
        with self._lock:
            value = {
                **self.summary(),
                "all_points": [str(point) for point in sorted(self.points)],
                "outcomes": [asdict(one) for one in self.outcomes.values()],
            }
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.part")
            part.write_text(json.dumps(value, indent=2))
            part.replace(path)

    def add(self, outcome: Outcome) -> int:
        """Note a round, in the place of an earlier one at the same point; return how many there are."""
        with self._lock:
            self.outcomes[outcome.point, outcome.fault] = outcome
            return len(self.outcomes)

    def missing(self, runs: Iterable[tuple[Point, Fault]]) -> list[tuple[Point, Fault]]:
        """Return the rounds that were not played, whose fault did not happen, or that did not end well."""
        found = ((run, self.outcomes.get((str(run[0]), run[1]))) for run in runs)
        return [run for run, outcome in found if outcome is None or not outcome.is_well]

    @property
    def failed(self) -> list[Outcome]:
        """The rounds with a fault that did not end as the undisturbed one."""
        return [one for one in self.outcomes.values() if one.is_judged and not one.is_well]

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the campaign, in all and by fault."""
        outcomes = list(self.outcomes.values())
        by_fault = {fault: _counted([one for one in outcomes if one.fault == fault]) for fault in FAULTS}
        return {
            "points": len(self.points),
            "points_by_place": dict(Counter(point.place for point in sorted(self.points))),
            "points_played": len({one.point for one in outcomes if one.is_judged}),
            **_counted(outcomes),
            "by_fault": {fault: found for fault, found in by_fault.items() if found["rounds_begun"]},
        }


def _counted(some: list[Outcome]) -> dict[str, int]:
    judged = [one for one in some if one.is_judged]
    return {
        "rounds_begun": len(judged),
        "rounds_finished": sum(one.finished for one in judged),
        **{name: sum(len(getattr(one, name)) for one in judged) for name in ZEROS},
        "typed_again": sum(one.typed_again for one in judged),
        "resumed": sum(one.resumed for one in judged),
        "not_reached": len(some) - len(judged),
    }
