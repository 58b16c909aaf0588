"""Play a round with a fault at every durable call: `python -m tests.faults.campaign`."""

from __future__ import annotations

import argparse
import json
import queue
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.campaign.campaign import Campaign, campaign, in_turn, runs
from tests.faults.campaign.points import FAULTS, Fault, Point
from tests.faults.campaign.report import Report
from tests.faults.campaign.world import compile_shim

_WRITTEN_AFTER = 25
"""Rounds after which the report is written again."""


def main() -> int:
    """Run the campaign; return 1 if a round did not end as the undisturbed one, 0 otherwise."""
    given = _parser().parse_args()
    try:
        report = Report.read(given.go_on) if given.go_on else Report()
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        try:
            shim = compile_shim(Path(stack.enter_context(TemporaryDirectory())))
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        founded = [stack.enter_context(campaign(shim)) for _ in range(given.jobs)]
        points = {Point.parse(text) for text in given.point}
        if not points:
            report.points |= set(founded[0].points)
            points = report.points
        if given.list:
            print(*sorted(points), sep="\n")
            return 0
        report.points |= points
        _play(given, founded, sorted(points), report)
    print(json.dumps(report.summary(), indent=2))
    return 1 if report.failed else 0


def _play(given: argparse.Namespace, founded: list[Campaign], points: list[Point], report: Report) -> None:
    """Play what is missing in the report, until it is whole, the time is over, or Ctrl-C."""
    faults: tuple[Fault, ...] = tuple(given.fault or FAULTS)
    missing = report.missing(in_turn(runs(points, faults), given.seed))[: given.sample or None]
    print(f"{len(points)} points, {len(missing)} rounds to play, seed {given.seed}", flush=True)
    written_to = given.json or given.go_on
    begun, stops = time.monotonic(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stops.set())
    worlds: queue.SimpleQueue[Campaign] = queue.SimpleQueue()
    for one in founded:
        worlds.put(one)

    def play(run: tuple[Point, Fault]) -> None:
        passed_s = time.monotonic() - begun
        if stops.is_set() or (given.budget_s and passed_s > given.budget_s):
            return
        free = worlds.get()
        try:
            outcome = free.run(*run)
        finally:
            worlds.put(free)
        if report.add(outcome) % _WRITTEN_AFTER == 0:
            print(f"{len(report.outcomes)} rounds, {passed_s:.0f} s", flush=True)
            if written_to:
                report.write(written_to)
        if outcome.is_judged and not outcome.is_well:
            print(outcome, flush=True)

    with ThreadPoolExecutor(given.jobs) as threads:
        list(threads.map(play, missing))
    if written_to:
        report.write(written_to)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--point", action="append", default=[], help="only at this point (may be repeated)")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this kind (may be repeated)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N rounds, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="rounds at the same time")
    parser.add_argument("--budget-s", type=float, default=0, help="begin no round after so many seconds")
    parser.add_argument("--list", action="store_true", help="list the points and end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers and every outcome")
    parser.add_argument(
        "--continue",
        dest="go_on",
        type=Path,
        metavar="FILE",
        help="go on with a stopped campaign: play what its file lacks, and what did not end well",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
