"""What a user gets by default, on many tables and divisions of their rows, beside staying alone and rivals.

`python -m benchmarks.defaults --data DIR`; without ``--data`` on the tables that need no download. ``--full``
adds 20 and 50 parties.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.defaults.claims import add_claims, gather, mean_gain
from benchmarks.defaults.experiment import Outcome, Setup, run_job
from benchmarks.parallel import cores, run_all
from benchmarks.report import Options, Report, main

SEEDS: Final = range(100, 103)
"""Smaller seeds were looked at while the rules of drafting were chosen."""
SMALL: Final = ("wine", "diabetes")
"""Tables of too few rows for ten parties."""
SITES: Final = ("heart", "stroke", "tcga")
LARGE: Final = ("adult", "ames", "stroke", "lognormal_1", "lognormal_3")
"""Tables of enough rows for fifty parties."""


def setups(*, full: bool, real_data: bool) -> list[Setup]:
    """Return what is measured; without the real data, on the tables that need no download."""
    tables = ["breast_cancer", "digits", "wine", "diabetes", "lognormal_1", "lognormal_2", "lognormal_3"]
    tables += ["heart", "stroke", "adult", "pima", "tcga", "ames"] if real_data else []
    found = []
    for table in tables:
        found += [Setup(table, split, 4) for split in ("iid", "dirichlet", "one class")]
        if table in SITES:
            found.append(Setup(table, "sites", 0))
        if table not in SMALL:
            found += [Setup(table, "iid", 10), Setup(table, "dirichlet", 10)]
        if full and table in LARGE:
            found += [Setup(table, "iid", 20), Setup(table, "iid", 50)]
    return found


def measure(options: Options) -> Report:
    """Hold every collaboration for every seed and return the rows and claims."""
    begin = time.monotonic()
    jobs = [
        (setup, seed, seed == SEEDS[0])
        for setup in setups(full=options.full, real_data=options.data is not None)
        for seed in SEEDS
    ]
    report = Report("defaults")
    add_claims(report, gather(_shown(run_all(partial(run_job, folder=options.data), jobs), len(jobs))))
    report.conditions |= {
        "data": "real and bundled" if options.data else "bundled and made up",
        "score": "ROC-AUC in percent (one class against the rest) on rows kept back, the mean over parties",
        "terms": "drafted by the largest party, with the levels of all rows that are sent; ten are scored",
        "seeds": list(SEEDS),
        "judged_seeds": [SEEDS[0]],
        "processes": cores(),
        "seconds": round(time.monotonic() - begin),
    }
    return report


def _shown(outcomes: Iterator[Outcome], count: int) -> Iterator[Outcome]:
    for number, outcome in enumerate(outcomes, 1):
        setup = outcome.setup
        print(
            f"{number}/{count} {setup.table}, {setup.split}, {outcome.parties} parties:"
            f" together {outcome.scores['together']:.1f}, alone {mean_gain([outcome], 'alone'):+.1f},"
            f" closed form {mean_gain([outcome], 'closed form'):+.1f}, warned {outcome.warnings},"
            f" levels added {outcome.corrections.levels}, rows unscored {outcome.corrections.unscored}",
            file=sys.stderr,
            flush=True,
        )
        yield outcome


if __name__ == "__main__":
    sys.exit(main(measure))
