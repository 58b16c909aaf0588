"""Play a round with a fault at every durable call: `python -m tests.faults.campaign`."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.campaign.campaign import Campaign, Outcome, campaign, in_turn, runs, summary
from tests.faults.campaign.points import FAULTS, Fault, Point
from tests.faults.campaign.world import compile_shim


def main() -> int:
    """Run the campaign; return 1 if a round did not end as the undisturbed one, 0 otherwise."""
    given = _parser().parse_args()
    faults: tuple[Fault, ...] = tuple(given.fault or FAULTS)
    begun = time.monotonic()
    with ExitStack() as stack:
        try:
            shim = compile_shim(Path(stack.enter_context(TemporaryDirectory())))
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        worlds: queue.SimpleQueue[Campaign] = queue.SimpleQueue()
        founded = [stack.enter_context(campaign(shim)) for _ in range(given.jobs)]
        for one in founded:
            worlds.put(one)
        points = [Point.parse(text) for text in given.point] or sorted(set(founded[0].points))
        if given.list:
            print(*points, sep="\n")
            return 0
        chosen = in_turn(runs(points, faults), given.seed)
        print(f"{len(points)} points, {len(chosen)} rounds, seed {given.seed}", flush=True)
        outcomes: list[Outcome] = []

        def play(run: tuple[Point, Fault]) -> None:
            if given.budget_s and time.monotonic() - begun > given.budget_s:
                return
            free = worlds.get()
            try:
                outcome = free.run(*run)
            finally:
                worlds.put(free)
            outcomes.append(outcome)
            if len(outcomes) % 50 == 0:
                print(f"{len(outcomes)} rounds after {time.monotonic() - begun:.0f} s", flush=True)
            if not outcome.is_well and (outcome.reached or outcome.stuck):
                print(outcome, flush=True)

        with ThreadPoolExecutor(given.jobs) as threads:
            list(threads.map(play, chosen[: given.sample or None]))
    found = summary(points, outcomes)
    print(json.dumps(found, indent=2))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        value = {**found, "seed": given.seed, "outcomes": [asdict(one) for one in outcomes]}
        given.json.write_text(json.dumps(value, indent=2))
    return 0 if all(one.is_well for one in outcomes if one.reached or one.stuck) else 1


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
    return parser


if __name__ == "__main__":
    sys.exit(main())
