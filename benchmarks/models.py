"""What each kind of model scores on the same aligned rows, and what principal axes are worth to trees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from analyst_server.compute.model_registry import trainable_of
from analyst_server.training.metrics import score
from analyst_server.training.models import fit_task
from analyst_server.training.tasks import Classes
from benchmarks.defaults.collaboration import Agreed, Encoded, Round
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.uplink.tables import Cohort, default_cohort, sources
from protocol.model_terms import (
    AutoTerms,
    AveragedTerms,
    CandidateTerms,
    ModelTerms,
    default_candidates,
)
from user_client.sdk import DITHER
from user_client.secret.expansion import haar

KINDS: Final[dict[str, ModelTerms]] = {
    terms.model_fields["kind"].default: terms()
    for terms in get_args(CandidateTerms)
    if "classes" in terms.tasks
} | {"auto": AutoTerms(candidates=default_candidates("classes"))}
MEMBERS: Final = 10
OTHERS: Final = 5
"""Institutions that send nothing; the scores are those of their rows."""
ROWS: Final = {
    "breast_cancer": 35,
    "digits": 110,
    "lognormal_2": 250,
    "heart": 60,
    "stroke": 300,
    "adult": 300,
    "pima": 50,
    "tcga": 40,
}
"""Rows of each institution, at most."""


@dataclass(frozen=True)
class Job:
    """One seed of one table."""

    table: str
    seed: int


def run(job: Job, folder: Path | None) -> list[dict[str, Any]]:
    """Fit every kind of model, and those that depend on axes along three kinds of axes."""
    found = default_cohort(job.table, folder, parties=MEMBERS + OTHERS, rows=ROWS[job.table], seed=job.seed)
    outside = found.members[MEMBERS:]
    trained, maps = played(found, MEMBERS, job.seed).trained_on()
    rows, labels, senders = trained.aligned_rep, trained.labels, trained.senders
    new = np.vstack([one.rows for one in outside]) @ maps[0]
    truth = np.concatenate([one.labels for one in outside])
    seen = {"table": job.table, "seed": job.seed}
    classes, rng = found.schema.label_column.outputs, np.random.default_rng(job.seed)
    turns = {
        "as aligned": np.eye(rows.shape[1]),
        "principal": np.linalg.eigh(np.cov(rows.T))[1][:, ::-1],
        "random": haar(rng.bytes, rows.shape[1]),
    }
    results = []
    for kind, terms in KINDS.items():
        model = trainable_of(terms)
        along = turns if model.needs_principal_axes else {"any": turns["as aligned"]}
        for axes, turn in along.items() if kind != "auto" else [("principal", turns["principal"])]:
            fitted = fit_task(model, rows @ turn, labels, Classes(classes), senders)
            roc_auc = 100 * score(truth, fitted.predictions(new @ turn))["roc_auc"]
            chosen = fitted.choice.candidates[fitted.choice.chosen].name if fitted.choice else kind
            results.append({**seen, "model": kind, "axes": axes, "chosen": chosen, "roc_auc": roc_auc})
    return results


def played(found: Cohort, members: int, seed: int) -> Round:
    """Return the round of the first members, by the terms that `default_cohort` drafted."""
    inside = found.members[:members]
    parties = [Encoded(one.rows, one.labels, one.rows[:0], one.labels[:0]) for one in inside]
    agreed = Agreed(AveragedTerms(), found.schema.label_column, "i1", DITHER)
    return Round(parties, [one.basis for one in inside], found.anchor, agreed, seed)


def measure(options: Options) -> Report:
    """Run every table; return rows and claims."""
    report = Report("models", {"members": MEMBERS, "others": OTHERS, "dither": DITHER})
    known = sources(options.data)
    jobs = [Job(table, seed) for table in ROWS if table in known for seed in range(10 if options.full else 3)]
    report.rows = [row for rows in _shown(run_all(partial(run, folder=options.data), jobs)) for row in rows]

    def mean(kind: str, axes: str) -> float:
        chosen = [row for row in report.rows if (row["model"], row["axes"]) == (kind, axes)]
        return float(np.mean([row["roc_auc"] for row in chosen]))

    # boosting gains nothing by them (docs/defaults.md): no claim
    principal = mean("random-forest", "principal")
    for name, axes in (("of_principal_axes", "as aligned"), ("over_random_axes", "random")):
        gain = principal - mean("random-forest", axes)
        report.claim(f"random_forest_gain_{name}", gain, "points", ">=", 0.0)
    return report


def _shown(found: Iterator[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    for rows in found:
        scores = (f"{row['chosen']} ({row['model']}, {row['axes']}) {row['roc_auc']:.1f}" for row in rows)
        print(rows[0]["table"], rows[0]["seed"], "; ".join(scores), flush=True)
        yield rows


if __name__ == "__main__":
    sys.exit(main(measure))
