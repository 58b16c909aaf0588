"""Accuracy of every alignment method next to the papers' figures, and of `isotropic` and its parts.

Runs Central, Local and all methods in the four basis conditions of the papers, on images and molecules with
``--data DIR``, and on digits and breast cancer without. Small by default; ``--full`` uses the papers' sizes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.accuracy import bad_party, nri_dc, users
from benchmarks.accuracy.claims import add_claims
from benchmarks.accuracy.experiment import Cell, Job, run_job
from benchmarks.accuracy.summary import gather, rows
from benchmarks.accuracy.tables import seeds, setups
from benchmarks.parallel import cores, run_all
from benchmarks.report import Options, Report, main


def measure(options: Options) -> Report:
    """Run every experiment for every seed and return the rows and claims."""
    begin = time.monotonic()
    chosen = setups(full=options.full, real_data=options.data is not None)
    jobs = [
        Job(setup, seed, options.data) for setup in chosen for seed in range(seeds(setup, full=options.full))
    ]
    scores = gather(_progress(run_all(run_job, jobs), len(jobs)))
    report = Report("accuracy", rows=rows(scores))
    add_claims(report, scores)
    planted, clean = (bad_party.rounds(bad_party.ROUND, None, faulty=faulty) for faulty in (True, False))
    report.rows += bad_party.as_rows([*planted, *clean])
    if options.data is not None:
        for more in (nri_dc, users):
            report.rows += more.measured(options.data, full=options.full)
    named = sum(outcome.right for outcome in planted)
    alarms = sum(not outcome.right for outcome in clean)
    report.claim("bad_party_named", named, f"rounds of {len(planted)}", "==", bad_party.ROUNDS)
    report.claim("bad_party_false_alarms", alarms, f"rounds of {len(clean)}", "==", 0)
    report.conditions = {
        "data": "real"
        if options.data
        else "bundled: digits for the images, no molecules, so no claims on them",
        "size": "the papers'" if options.full else "small",
        "score": "mean of the parties' scores on their test rows, in percent, over seeds; 95 % t-interval",
        "one_scale": "one shift and one scale for all columns before the model, as this software does",
        "processes": cores(),
        "seconds": round(time.monotonic() - begin),
    }
    return report


def _progress(runs: Iterator[list[tuple[Cell, float]]], count: int) -> Iterator[list[tuple[Cell, float]]]:
    for number, found in enumerate(runs, 1):
        setup = found[0][0].setup
        print(f"{number}/{count} {setup.table}: {setup.dataset}, {setup.split}", file=sys.stderr, flush=True)
        yield found


if __name__ == "__main__":
    sys.exit(main(measure))
