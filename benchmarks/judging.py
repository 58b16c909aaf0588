"""Whether the scores in the analyst's report are those of new rows (docs/scores.md)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from sklearn.model_selection import train_test_split

from analyst_server.alignment import align
from analyst_server.compute.model_registry import model_of
from analyst_server.training.judging import judge
from analyst_server.training.metrics import score
from analyst_server.training.models import Model, fit
from analyst_server.training.party_scores import score_classes
from analyst_server.training.tasks import Classes
from benchmarks import data
from benchmarks.accuracy.bases import draw_anchor, principal_directions
from benchmarks.data import Labels, Matrix
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from orthonormal_data_collaboration.bases import turn
from protocol.model_terms import AveragedTerms

Split = Literal[
    "iid", "dirichlet 0.3", "95 % of one class", "one class", "hospitals", "every row three times"
]
FRESH: Final = 0.4
"""Share of every class, in every hospital, that nobody sends: the truth is measured on it."""
FEWEST: Final = 5
"""Rounds with a headline that a case needs before the mean of its errors is a claim."""


@dataclass(frozen=True)
class Case:
    """A table, how it is divided, and for how many seeds; ``most_rows`` 0 sends all."""

    table: str
    split: Split
    parties: int
    latent_dim: int
    seeds: int
    most_rows: int = 0


@dataclass(frozen=True)
class Judged:
    """One round: the truth, what the report says, and what rows of all parties pooled would have said.

    ``noise`` is the standard error of the truth: no estimate can be nearer to it.
    """

    truth: float
    noise: float
    pooled: float | None
    within: tuple[float, float, float] | None
    across: tuple[float, float, float] | None
    has_headline: bool


@dataclass(frozen=True)
class Table:
    """Rows in [-1, 1], centred; ``sites`` are all 0 where the table has none."""

    rows: Matrix
    labels: Labels
    sites: Labels


def cases(options: Options) -> list[Case]:
    """Return the small tables included in scikit-learn, and the others if they are there."""
    few, many = (20, 6) if options.full else (5, 2)
    splits: tuple[Split, ...] = ("iid", "dirichlet 0.3", "95 % of one class", "one class")
    sizes = {"digits": 20, "breast cancer": 15, **({"pima": 7} if options.data else {})}
    found = [Case(name, split, 4, latent_dim, few) for name, latent_dim in sizes.items() for split in splits]
    found += [Case("digits", "dirichlet 0.3", 10, 20, few), Case("digits", "iid", 20, 20, few)]
    if options.data:
        found += [Case("heart", "hospitals", 4, 13, few), Case("stroke", "hospitals", 49, 20, many)]
        found += [Case("AMES", split, 4, 200, many, 2400) for split in (*splits, "every row three times")]
    return found


def measure(options: Options) -> Report:
    """Compare the report's figures with the scores of rows that nobody sent."""
    every = cases(options)
    report = Report(
        "judging",
        {"model": "averaged, as by default", "alignment": "isotropic", "anchor": "haar", "fresh": FRESH},
    )
    jobs = [(case, seed, options.data) for case in every for seed in range(case.seeds)]
    rounds = run_all(_play_job, jobs)
    for case in every:
        report.rows.append(summary(case, [next(rounds) for _ in range(case.seeds)]))
        print("  ".join(f"{name} {_short(value)}" for name, value in report.rows[-1].items()), flush=True)
    told = [row for row in report.rows if row["headlines"] >= FEWEST]
    report.claim("report_score_error", max(abs(row["headline_error"]) for row in told), "points", "<=", 2.0)
    headlines = sum(row["headlines"] for row in report.rows if row["split"] == "one class")
    report.claim("report_one_class_headlines", headlines, "rounds", "==", 0)
    return report


def summary(case: Case, rounds: Sequence[Judged]) -> dict[str, Any]:
    """Return means over the seeds in points, None where no round has the figure."""
    withins = [(one.within, one.truth) for one in rounds if one.within]
    acrosses = [one.across for one in rounds if one.across]
    errors = [one.within[0] - one.truth for one in rounds if one.within and one.has_headline]
    return {
        "table": case.table,
        "split": case.split,
        "parties": case.parties,
        "seeds": case.seeds,
        "truth": _mean([one.truth for one in rounds]),
        "noise_of_truth": _mean([one.noise for one in rounds]),
        "pooled": _mean([one.pooled for one in rounds if one.pooled is not None]),
        "within": _mean([found[0] for found, _ in withins]),
        "within_half_width": _mean([(found[2] - found[1]) / 2 for found, _ in withins]),
        "within_covers": _mean([found[1] <= truth <= found[2] for found, truth in withins]),
        "within_error": _mean([found[0] - truth for found, truth in withins]),
        "within_absolute_error": _mean([abs(found[0] - truth) for found, truth in withins]),
        "across": _mean([found[0] for found in acrosses]),
        "across_half_width": _mean([(found[2] - found[1]) / 2 for found in acrosses]),
        "headlines": len(errors),
        "headline_error": _mean(errors),
        "headline_absolute_error": _mean([abs(error) for error in errors]),
    }


def play(case: Case, table: Table, seed: int) -> Judged:
    """Play one round: divide, project, align, fit on all rows, judge, and score on fresh rows."""
    rng = np.random.default_rng([seed, case.parties, case.latent_dim])
    sent, fresh = _keep_fresh(table, rng)
    parts = deal(case, table, sent[: case.most_rows or None], rng)
    tests = [fresh[table.sites[fresh] == site] for site in np.unique(table.sites)]
    if case.split != "hospitals":
        tests = [fresh] * len(parts)
    features = table.rows.shape[1]
    anchor = draw_anchor("haar", features, features, rng)
    directions = [principal_directions(table.rows[part], case.latent_dim, rng) for part in parts]
    bases = turn(directions, "DiffSpan-Orth", rng)
    changes = align(
        "isotropic", [anchor @ basis for basis in bases], anchor_is_isotropic=True, rng=rng
    ).changes_of_basis
    maps = [basis @ change for basis, change in zip(bases, changes, strict=True)]
    aligned = np.concatenate([table.rows[part] @ whole for part, whole in zip(parts, maps, strict=True)])
    labels = np.concatenate([table.labels[part] for part in parts])
    senders = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    model = model_of(AveragedTerms(seed=seed))
    fitted = fit(model, aligned, labels, 2).pipeline
    found = judge(
        model, aligned, labels, Classes(2), senders, [f"party-{number}" for number in range(len(parts))]
    )
    true = [
        (
            score_classes(table.labels[test], fitted.predict_proba(table.rows[test] @ whole), least_rows=2),
            len(part),
        )
        for test, whole, part in zip(tests, maps, parts, strict=True)
    ]
    known = [
        (scores.figures["roc_auc"].value, scores.figures["roc_auc"].variance, rows)
        for scores, rows in true
        if scores is not None
    ]
    truths, variances, weights = np.array(known).T
    weights /= weights.sum()
    within, across = found.within, found.across
    return Judged(
        truth=float(weights @ truths),
        # all parties have the same fresh rows, unless they are hospitals
        noise=float(np.sqrt((weights**2 if case.split == "hospitals" else weights) @ variances)),
        pooled=_pooled(model, aligned, labels),
        within=astuple(within.decisive) if within else None,
        across=astuple(across.decisive) if across else None,
        has_headline=found.headline is not None,
    )


def deal(case: Case, table: Table, sent: Labels, rng: np.random.Generator) -> list[Labels]:
    """Return the row numbers of every party; one that would have fewer than two sends none."""
    if case.split == "hospitals":
        return [sent[table.sites[sent] == site] for site in np.unique(table.sites)]
    if case.split == "iid":
        return np.array_split(sent, case.parties)
    if case.split == "every row three times":
        return [np.repeat(part, 3) for part in np.array_split(sent[: len(sent) // 2], case.parties)]
    parts: list[list[int]] = [[] for _ in range(case.parties)]
    for label in (0, 1):
        own = sent[table.labels[sent] == label]
        if case.split == "dirichlet 0.3":
            shares = rng.dirichlet([0.3] * case.parties)
        else:
            most = 0.95 if case.split == "95 % of one class" else 1.0
            shares = np.where(np.arange(case.parties) % 2 == label, most, 1 - most) * 2 / case.parties
        cuts = np.round(np.cumsum(shares)[:-1] * len(own)).astype(int)
        for part, rows in zip(parts, np.split(own, cuts), strict=True):
            part += rows.tolist()
    return [np.array(part) for part in parts if len(part) > 1]


@functools.cache
def load(name: str, directory: Path | None) -> Table:
    """Return a table whole; the digits are 5 to 9 against 0 to 4."""
    if name in ("digits", "breast cancer"):
        found = data.digits() if name == "digits" else data.breast_cancer()
    elif directory is None:
        raise data.DataFileError(f"{name} needs --data DIR (docs/benchmarks.md)")
    elif name == "AMES":
        found = data.molecules(directory, name)
    else:
        found = {"heart": data.heart, "stroke": data.stroke, "pima": data.pima}[name](directory)
    rows = 2 * np.vstack([found.train, found.test]) - 1
    labels = np.concatenate([found.train_labels, found.test_labels])
    sites = np.zeros_like(labels)
    if found.train_sites is not None and found.test_sites is not None:
        sites = np.concatenate([found.train_sites, found.test_sites])
    return Table(
        rows - rows.mean(axis=0), (labels >= 5).astype(np.int64) if name == "digits" else labels, sites
    )


def _keep_fresh(table: Table, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """Return the rows that are sent and those that are not, in random order."""
    order = rng.permutation(len(table.rows))
    group = (2 * table.sites + table.labels)[order]
    fresh = np.zeros(len(order), dtype=bool)
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        fresh[members[: round(FRESH * len(members))]] = True
    return order[~fresh], order[fresh]


def _pooled(model: Model, aligned: Matrix, labels: Labels) -> float:
    """Return the score of a fifth of all rows, whoever sent them: what the report does not do."""
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    fitted = fit(model, aligned[train], labels[train], 2)
    return score(labels[test], fitted.pipeline.predict_proba(aligned[test]))["roc_auc"]


def _play_job(job: tuple[Case, int, Path | None]) -> Judged:
    case, seed, directory = job
    return play(case, load(case.table, directory), seed)


def _mean(values: Sequence[float]) -> float | None:
    return 100 * float(np.mean(values)) if values else None


def _short(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(measure))
