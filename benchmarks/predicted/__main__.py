"""Whether the time and the memory that `odc-analyst plan` predicts are those of played rounds.

`python -m benchmarks.predicted` plays phases at sizes that no constant comes from: preparing and sending by
the commands of users, taking uplinks by a server of its own with mutual TLS, aligning and training in a
process of their own. With ``--calibrate`` it plays other sizes and prints the constants that fit them, for
`analyst_server.services.predicting`. Seconds are of processor, with one thread for products.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

from analyst_server.services.predicting import CONSTANTS
from analyst_server.services.work import Probes
from benchmarks import report
from benchmarks.predicted.fitting import Point, deviation, fitted
from benchmarks.predicted.playing import played
from benchmarks.predicted.points import CALIBRATION, HELD_OUT, Points

MOST: Final = 0.30


def measure(_options: report.Options) -> report.Report:
    """Hold the predictions to the points that are held out."""
    return measure_at(HELD_OUT)


def measure_at(points: Points) -> report.Report:
    """Play some points, and hold to each what the constants of the product predict."""
    found = report.Report("predicted", {"load_before": os.getloadavg(), "threads": 1})
    with tempfile.TemporaryDirectory(prefix="odc-predicted-") as folder:
        for point in played(Path(folder), points):
            off = deviation(point, CONSTANTS[point.law])
            found.rows.append(
                {
                    "quantity": point.law,
                    "at": point.at,
                    "measured": point.measured,
                    "predicted": point.measured * (1 + off),
                    "deviation": off,
                    **({"probes": asdict(point.probes)} if point.probes else {}),
                }
            )
            print(f"{point.law}, {point.at}: {point.measured:.3g}, predicted {100 * off:+.0f} %", flush=True)
    found.conditions["load_after"] = os.getloadavg()
    add_claims(found)
    return found


def add_claims(found: report.Report) -> None:
    """Add the largest deviation of all, and that of each quantity."""
    by_quantity: dict[str, float] = {}
    for row in found.rows:
        name = row["quantity"]
        by_quantity[name] = max(by_quantity.get(name, 0.0), abs(row["deviation"]))
    found.claim("predicted_within", max(by_quantity.values()), "of what was measured", "<=", MOST)
    for name, value in by_quantity.items():
        claim_id = f"predicted_within_{name.replace(' ', '_')}"
        found.claim(claim_id, value, "of what was measured", "<=", MOST)


def calibrate(points: Points) -> None:
    """Play points, and print the machine, the constants that fit them, and how well."""
    with tempfile.TemporaryDirectory(prefix="odc-predicted-") as folder:
        by_law: dict[str, list[Point]] = {}
        for point in played(Path(folder), points):
            by_law.setdefault(point.law, []).append(point)
            print(f"{point.law}, {point.at}: {point.measured:.3g}", flush=True)
    show_fits(by_law)


def show_fits(by_law: dict[str, list[Point]]) -> None:
    """Print the constants of each law, and the largest deviation of its own points."""
    probes = [point.probes for points in by_law.values() for point in points if point.probes]
    usual = Probes(
        **{each.name: statistics.median(getattr(one, each.name) for one in probes) for each in fields(Probes)}
    )
    print(f"the machine: {usual}")
    for law, points in by_law.items():
        constants = fitted(points, usual)
        worst = max(abs(deviation(point, constants, usual)) for point in points)
        shown = ", ".join(f'"{name}": {value:.3g}' for name, value in constants.items())
        print(f'"{law}": {{{shown}}},  # own points within {worst:.0%}', flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark as a command; return its exit code."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--calibrate", action="store_true")
    given, others = own.parse_known_args(arguments)
    if given.calibrate:
        calibrate(CALIBRATION)
        return 0
    return report.main(measure, others)


if __name__ == "__main__":
    raise SystemExit(main())
