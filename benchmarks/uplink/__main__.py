"""What others find in uplinks of real tables: as they are sent by default, and without any defence.

`python -m benchmarks.uplink --data DIR`; without ``--data`` on the tables that need no download.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.uplink.population import (
    DEFAULT,
    KNOWN,
    POPULATIONS,
    REAL,
    STRONGER,
    UNDEFENDED,
    Job,
    add_claims,
    run,
)


def measure(options: Options) -> Report:
    """Attack every population in every way; return rows and claims."""
    report = Report("uplink", {"anchor": "haar", "known_rows": KNOWN, "encoding": "drafted"})
    populations = [*POPULATIONS, *(REAL if options.data else ())]
    jobs = [
        Job(population, sent, seed)
        for population in populations
        for sent in (UNDEFENDED, DEFAULT, STRONGER)
        for seed in range(3 if options.full else 1)
    ]
    report.rows = list(_shown(run_all(partial(run, folder=options.data), jobs)))
    add_claims(report)
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        print("  ".join(f"{key} {_told(value)}" for key, value in row.items()), flush=True)
        yield row


def _told(value: Any) -> str:
    """Return a figure as text; None is an attack that does not apply to the table."""
    if value is None:
        return "not applicable"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(measure))
