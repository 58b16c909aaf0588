"""What a differentially private model tells of the rows it was trained on, and what it costs.

Three questions about terms with ``model_privacy``: does an audit refute the epsilon they state, how well does
the best known attack tell who took part, and how much of the ROC-AUC is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, norm

from analyst_server.training.averaged import Averaged
from analyst_server.training.metrics import score
from analyst_server.training.models import Model, fit
from analyst_server.training.private import PrivateModel, PrivateTraining, descend
from benchmarks.data import Matrix
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.uplink.membership import aligned_rows, attack_model
from benchmarks.uplink.tables import Cohort, default_cohort
from protocol.gaussian_mechanism import gaussian_delta

DELTA: Final = 1e-5
EPSILONS: Final = (1.0, 3.0, 10.0)
STATED: Final = 3.0
"""The epsilon that is audited and attacked."""
CONFIDENCE: Final = 0.95
RUNS: Final = 4000
"""Trainings with the canary, and as many without."""
CANARY_LENGTH: Final = 20.0
BEFORE: Final = 6
"""Seeds of which the model without privacy is attacked."""
TOO_LITTLE: Final = 0.6
"""Of the noise that the stated epsilon needs: the audit has to see that this is not enough."""
AUDITED: Final = PrivateTraining(STATED, DELTA, steps=25, learning_rate=0.02)
MEMBERS: Final = 10
OTHERS: Final = 10
"""Members whose rows take no part: the attacks have to tell them apart, and the scores are theirs."""
ATTACKED: Final = "digits"
"""Many classes and few rows of each: the attack finds most here. Of one seed it is known to within 0.05."""
HIDDEN_UNITS: Final = 64
ROWS: Final = {"digits": 80, "breast_cancer": 25, "heart": 40, "stroke": 150, "pima": 35}
"""Rows of each member, at most."""


@dataclass(frozen=True)
class Job:
    """One seed of one table: what is measured of its models."""

    table: str
    seed: int


def canary_scores(noise: float, *, inside: bool, runs: int, seed: int) -> Matrix:
    """Train with or without one canary, and return how far each model has moved towards it, (runs,).

    The canary is long and lies along an axis that no other row has, and the steps are short, so that each
    moves the model along that axis by as much as a single row can. The attacker knows all other rows: that
    is what the promise allows for.
    """
    rng = np.random.default_rng([seed, inside])
    rows, labels = rng.standard_normal((20, 3)), np.arange(20) % 2
    rows[:, -1] = 0
    rows[1] = (0, 0, CANARY_LENGTH) if inside else 0  # with nothing in the place of the canary
    start = [(np.zeros((3, 2)), np.zeros(2))]
    weights = (descend(start, rows, labels, AUDITED, rng, noise=noise)[0][0] for _ in range(runs))
    return np.array([found[-1, 1] - found[-1, 0] for found in weights])


def audited_epsilon(inside: Matrix, outside: Matrix) -> float:
    """Return an epsilon that the stated one cannot be below, with 95 % confidence.

    From the rates at one threshold follows how far apart the two normal distributions are that every
    statistic of such training comes from [1]_, and from that the epsilon. The threshold is chosen on one half
    of the runs; the rates, with the intervals of Clopper and Pearson, come from the other.

    References
    ----------
    .. [1] Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini, Terzis, USENIX Security 2023,
       arXiv:2302.07956. Exact for steps on all rows.
    """
    (chosen, measured), (chosen_out, measured_out) = (np.array_split(side, 2) for side in (inside, outside))

    def distance(ours: Matrix, theirs: Matrix, threshold: float) -> float:
        hits, alarms = int((ours > threshold).sum()), int((theirs > threshold).sum())
        if hits == 0 or alarms == len(theirs):
            return 0.0
        least = beta.ppf((1 - CONFIDENCE) / 2, hits, len(ours) - hits + 1)
        most = beta.ppf((1 + CONFIDENCE) / 2, alarms + 1, len(theirs) - alarms)
        return float(norm.ppf(least) - norm.ppf(most))

    tried = np.quantile(np.concatenate([chosen, chosen_out]), np.linspace(0.01, 0.99, 99))
    best = max(tried, key=lambda value: distance(chosen, chosen_out, value))
    apart = distance(measured, measured_out, best)
    if apart <= 0:
        return 0.0
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, 1 / apart, sensitivity=1) - DELTA, 0, 1000))


def run(job: Job, folder: Path | None) -> list[dict[str, Any]]:
    """Train models with and without privacy on one cohort, score them, and attack some of them."""
    found = default_cohort(job.table, folder, parties=MEMBERS + OTHERS, rows=ROWS[job.table], seed=job.seed)
    rows = []
    for name, epsilon, model in _models(found.schema.width, job.seed):
        row: dict[str, Any] = {"table": job.table, "seed": job.seed, "model": name, "epsilon": epsilon}
        row["roc_auc"] = 100 * _score(found, model)
        if job.table == ATTACKED and (epsilon == STATED or (epsilon is None and job.seed < BEFORE)):
            rng = np.random.default_rng(job.seed)
            row["lira"] = attack_model(found, MEMBERS, model, rng=rng).lira
        rows.append(row)
    return rows


def _models(features: int, seed: int) -> Iterator[tuple[str, float | None, Model]]:
    yield "averaged", None, Averaged(seed=seed)
    for epsilon in EPSILONS:
        for name, hidden_units in (("logistic", 0), ("mlp", HIDDEN_UNITS)):
            training = PrivateTraining(epsilon, DELTA)
            yield (
                name,
                epsilon,
                PrivateModel(seed=seed, training=training, features=features, hidden_units=hidden_units),
            )


def _score(found: Cohort, model: Model) -> float:
    """Return the ROC-AUC on rows of institutions that sent none, seen through the first member's basis."""
    inside, outside = found.members[:MEMBERS], found.members[MEMBERS:]
    aligned, labels, own_map = aligned_rows(inside)
    classes = found.schema.label_column.outputs
    fitted = fit(model, aligned, labels, classes)
    rows = np.vstack([one.rows for one in outside]) @ own_map
    truth = np.concatenate([one.labels for one in outside])
    return score(truth, fitted.pipeline.predict_proba(rows))["roc_auc"]


def measure(options: Options) -> Report:
    """Audit, attack and score; return rows and claims."""
    report = Report("model_privacy", {"delta": DELTA, "members": MEMBERS, "audit_runs": 2 * RUNS})
    tables = [name for name in ROWS if options.data or name in ("digits", "breast_cancer")]
    seeds = dict.fromkeys(tables, 3) | {ATTACKED: 48 if options.full else 24}
    jobs = [Job(table, seed) for table in tables for seed in range(seeds[table])]
    for found in run_all(_Run(options.data), jobs):
        report.rows += found
        print(*(f"{row}" for row in found), sep="\n", file=sys.stderr, flush=True)
    for name, share in (("as stated", 1.0), ("with too little noise", TOO_LITTLE)):
        epsilon = _audit(share)
        report.rows.append({"audit": name, "epsilon": epsilon})
    told, betrayed = (row["epsilon"] for row in report.rows[-2:])
    report.claim("audited_epsilon_of_3", told, "epsilon", "<=", STATED)
    report.claim("audited_epsilon_of_3_with_too_little_noise", betrayed, "epsilon", ">=", STATED)

    def mean(name: str, **chosen: Any) -> float:
        rows = [row for row in report.rows if all(row.get(key) == value for key, value in chosen.items())]
        return float(np.mean([row[name] for row in rows if name in row]))

    lira = max(mean("lira", epsilon=STATED, model=name) for name in ("logistic", "mlp"))
    report.claim("lira_digits_epsilon_3", lira, "advantage", "<=", 0.03)
    costs = [
        mean("roc_auc", table=table, model="averaged")
        - mean("roc_auc", table=table, model="logistic", epsilon=STATED)
        for table in tables
    ]
    report.claim("private_model_worst_cost_epsilon_3", max(costs), "points of ROC-AUC", "<=", 3.0)
    return report


@dataclass(frozen=True)
class _Run:
    folder: Path | None

    def __call__(self, job: Job) -> list[dict[str, Any]]:
        return run(job, self.folder)


def _audit(share: float) -> float:
    noise = share * AUDITED.noise_multiplier(1)
    inside, outside = (canary_scores(noise, inside=given, runs=RUNS, seed=0) for given in (True, False))
    return audited_epsilon(inside, outside)


if __name__ == "__main__":
    sys.exit(main(measure))
