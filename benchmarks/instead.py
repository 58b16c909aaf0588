"""What users would take instead: federated averaging, federated trees, one place for all rows, staying alone.

`python -m benchmarks.instead --data DIR`; without ``--data`` on two tables that need no download. Every way
gets the same rows and is scored on the same rows. Ours is what `odc terms draft` writes, untuned; trees get
raw rows, and the others the encoded ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyst_server.compute.model_registry import model_of
from benchmarks.accuracy.summary import interval
from benchmarks.defaults import rivals, trees
from benchmarks.defaults.collaboration import Encoded
from benchmarks.defaults.experiment import (
    Assembled,
    Scored,
    Setup,
    Way,
    assemble,
    baselines,
    for_all,
    mean_score,
    scored_parties,
)
from benchmarks.defaults.tables import raw_rows
from benchmarks.parallel import cores, run_all
from benchmarks.report import Options, Report, main

SEEDS, FULL_SEEDS = range(100, 105), range(100, 110)
"""Smaller seeds were looked at while the rules of drafting were chosen."""
SETUPS: Final = (
    Setup("heart", "sites", 0),
    Setup("stroke", "sites", 0),
    Setup("tcga", "sites", 0),
    Setup("tcga", "iid", 4),
    Setup("pima", "iid", 4),
    Setup("adult", "iid", 10),
    Setup("adult", "dirichlet", 10),
)
BUNDLED: Final = (Setup("breast_cancer", "iid", 4), Setup("lognormal_2", "iid", 4))
ON_ENCODED_ROWS: Final = ("alone", "alone, tuned logistic", "central", "federated averaging")
"""The ways of `benchmarks.defaults` that are compared here as well."""
ALONE: Final = ("alone", "alone, tuned logistic")
FEDERATED: Final = ("federated averaging", "federated boosting", "federated forest")
COUNTS: Final = ("parties", "rows", "levels added", "rows unscored")
"""What is known of a setup beside the scores of the ways."""

Job = tuple[Setup, int]


def run(job: Job, *, folder: Path | None) -> dict[str, float]:
    """Return the score of each way, ROC-AUC in percent, and how many parties there are."""
    setup, seed = job
    held = assemble(setup, seed, folder)
    scores = {
        "together": mean_score(held.scored, held.classes, held.round.play_unjudged()),
        "together, no dither": mean_score(held.scored, held.classes, held.undefended().play_unjudged()),
    }
    ways = baselines(held.round.parties, held.scored, model_of(held.terms), held.classes, seed)
    scores |= {name: mean_score(held.scored, held.classes, ways[name]) for name in ON_ENCODED_ROWS}
    raw = _raw(held)
    scored = scored_parties(raw, own_tests=setup.split == "sites", classes=held.classes)
    scores |= {
        name: mean_score(scored, held.classes, way)
        for name, way in _of_trees(raw, scored, held.classes, seed).items()
    }
    counts = {"parties": len(raw), "rows": sum(len(party.rows) for party in raw)}
    corrections = {"levels added": held.corrections.levels, "rows unscored": held.corrections.unscored}
    return scores | counts | corrections


def _raw(held: Assembled) -> list[Encoded]:
    """Return what each party has without encoding; the same rows in the same order."""
    return [
        Encoded(
            raw_rows(party.table, held.schema),
            encoded.labels,
            raw_rows(party.kept_back, held.schema),
            encoded.test_labels,
        )
        for party, encoded in zip(held.parties, held.round.parties, strict=True)
    ]


def _of_trees(raw: Sequence[Encoded], scored: Sequence[Scored], classes: int, seed: int) -> dict[str, Way]:
    parts = [(party.rows, party.labels) for party in raw]
    of_all = partial(for_all, scored)
    return {
        "federated boosting": of_all(lambda test: trees.federated_boosting(parts, test, seed=seed)),
        "federated forest": for_all(
            scored, lambda test: trees.federated_forest(parts, classes, test, seed=seed)
        ),
        "central boosting": for_all(
            scored, lambda test: rivals.central_boosting(parts, classes, test, seed=seed)
        ),
    }


def measure(options: Options) -> Report:
    """Run every setup with every seed; return a row for each way, and the claims."""
    begin = time.monotonic()
    setups = SETUPS if options.data else BUNDLED
    seeds = FULL_SEEDS if options.full else SEEDS
    jobs = [(setup, seed) for setup in setups for seed in seeds]
    found: dict[Setup, list[dict[str, float]]] = {}
    for (setup, _), scores in zip(
        jobs, _shown(jobs, run_all(partial(run, folder=options.data), jobs)), strict=True
    ):
        found.setdefault(setup, []).append(scores)
    report = Report("instead", rows=[row for setup, each in found.items() for row in rows(setup, each)])
    for rival in FEDERATED:
        gaps = [mean_lead(each, rival) for each in found.values()]
        report.claim(
            f"default_mean_gap_to_{rival.replace(' ', '_')}", float(np.mean(gaps)), "points", "<=", 1.0
        )
    losses = [lead_of_better_alone(each) for each in found.values()]
    report.claim("default_mean_gap_to_alone", float(np.mean(losses)), "points", "<=", 0.0)
    report.conditions = {
        "data": "real" if options.data else "bundled and made up",
        "score": "ROC-AUC in percent on rows kept back, mean over parties and seeds; 95 % t-interval",
        "lead": "of the other way over ours, paired by seed",
        "terms": "drafted by the largest party, with the levels of all rows that are sent; ten are scored",
        "seeds": list(seeds),
        "processes": cores(),
        "seconds": round(time.monotonic() - begin),
    }
    return report


def rows(setup: Setup, each: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return one row for each way, with its lead over ours."""
    found = []
    for way in each[0]:
        if way in COUNTS:
            continue
        mean, half = interval([one[way] for one in each])
        lead, lead_half = interval([one[way] - one["together"] for one in each])
        found.append(
            {
                "table": setup.table,
                "split": setup.split,
                "parties": each[0]["parties"],
                "rows": each[0]["rows"],
                "levels_added": float(np.mean([one["levels added"] for one in each])),
                "rows_unscored": float(np.mean([one["rows unscored"] for one in each])),
                "way": way,
                "mean": round(mean, 2),
                "half_width": round(half, 2) if np.isfinite(half) else None,
                "lead": round(lead, 2),
                "lead_half_width": round(lead_half, 2) if np.isfinite(lead_half) else None,
                "seeds": len(each),
            }
        )
    return found


def lead_of_better_alone(each: Sequence[Mapping[str, float]]) -> float:
    """Return by how many points the better way of staying alone is above ours, the mean over the seeds."""
    return max(mean_lead(each, way) for way in ALONE)


def mean_lead(each: Sequence[Mapping[str, float]], rival: str) -> float:
    """Return by how many points a rival is above ours, the mean over the seeds."""
    return float(np.mean([one[rival] - one["together"] for one in each]))


def _shown(jobs: Sequence[Job], found: Iterator[dict[str, float]]) -> Iterator[dict[str, float]]:
    for (setup, seed), scores in zip(jobs, found, strict=True):
        figures = ", ".join(f"{name} {value:.1f}" for name, value in scores.items())
        print(setup.table, setup.split, seed, figures, file=sys.stderr, flush=True)
        yield scores


if __name__ == "__main__":
    sys.exit(main(measure))
