"""All attacks on the members of one population, and the claims about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.data import Matrix
from benchmarks.report import Report
from benchmarks.uplink import blind, lattice
from benchmarks.uplink.tables import Cohort, Defence, Member, cohort, decoded, sources
from user_client.privacy.held import Uplink
from user_client.privacy.linking import find_duplicates, locate
from user_client.privacy.matching import match_population, reidentified
from user_client.privacy.noise import add_dither
from user_client.sdk import DITHER
from user_client.secret.expansion import gaussian

KNOWN: Final = 5
"""Rows of a member that somebody knows, in no order."""
TRIALS: Final = 20
PLANTED: Final = 30
"""Rows of one member that another one has too."""


@dataclass(frozen=True)
class Sent:
    """How the members send their rows."""

    name: str
    rep_dtype: str
    dither: float


UNDEFENDED: Final = Sent("undefended", "f4", 0.0)
DEFAULT: Final = Sent("default", "i1", DITHER)
STRONGER: Final = Sent("dither of 1", "i1", 1.0)


@dataclass(frozen=True)
class Population:
    """A table and how it is divided; the members beyond ``parties`` are public rows."""

    table: str
    parties: int
    public: int
    rows: int
    sites: bool = False


POPULATIONS: Final = (Population("digits", 8, 8, 100), Population("breast_cancer", 8, 4, 40))
REAL: Final = (Population("stroke", 10, 4, 300, sites=True), Population("tcga", 3, 2, 200, sites=True))


@dataclass(frozen=True)
class Job:
    """One population, sent in one way."""

    population: Population
    sent: Sent
    seed: int


def run(job: Job, *, folder: Path | None) -> dict[str, Any]:
    """Attack one population with everything."""
    population, sent = job.population, job.sent
    make = partial(
        cohort,
        sources(folder)[population.table](),
        parties=population.parties + population.public,
        rows=population.rows,
        sites=population.sites,
        rep_dtype=sent.rep_dtype,
        defence=Defence(sent.dither),
        seed=job.seed,
    )
    found = make()
    members, others = found.members[: population.parties], found.members[population.parties :]
    uplinks = [Uplink(one.rep, one.anchor_rep, one.labels, sent.dither) for one in members]
    public = np.vstack([one.rows for one in others])
    public_labels = np.concatenate([one.labels for one in others])
    classes, rng = found.schema.label_column.outputs, np.random.default_rng(job.seed)
    alone = blind.one_member(uplinks[0], members[0].rows, public, public_labels, classes=classes, rng=rng)
    together = blind.all_members(uplinks, [one.rows for one in members], classes=classes, rng=rng)
    rotation = match_population(uplinks, public, public_labels, rng=rng)
    case = lattice.Case(population.table, "drafted", None, sent.rep_dtype, sent.dither, seed=job.seed)
    lattices = lattice.run(case, folder)
    return {
        **asdict(population),
        "sent": sent.name,
        "seed": job.seed,
        "features": found.schema.width,
        "latent_dim": found.latent_dim,
        "exact_rows_collusion": 100 * lattices.get("colluders_exact_rows", 0.0),
        "values_collusion": 100 * lattices.get("colluders_right_columns", 0.0),
        "values_guessed": 100 * lattices.get("colluders_guessed_columns", 0.0),
        "lattice_relations": lattices.get("analyst_relations"),
        "lattice_relations_expected": lattices.get("analyst_expected"),
        "two_valued": together.features if together else 0,
        "recovered_alone": len(alone.recovered) if alone else 0,
        "named_alone": len(alone.named) if alone else 0,
        "recovered_together": len(together.recovered) if together else 0,
        "named_together": len(together.named) if together else 0,
        "reidentified_public_rows": 100
        * reidentified(uplinks, [one.rows for one in members], public, rotation),
        "known_rows_located": 100 * _located(found, uplinks[0], rng),
        "duplicates_found": 100 * _duplicates(found, sent, rng),
    }


def _located(found: Cohort, uplink: Uplink, rng: np.random.Generator) -> float:
    """Return how many of a few known rows are told among those that were sent."""
    member, hits = found.members[0], 0
    for _ in range(TRIALS):
        chosen = rng.choice(len(member.rows), KNOWN, replace=False)
        hits += int((locate(member.rows[chosen], member.labels[chosen], uplink) == chosen).sum())
    return hits / (TRIALS * KNOWN)


def _duplicates(found: Cohort, sent: Sent, rng: np.random.Generator) -> float:
    """Return how many of the rows that two members have in common are paired rightly."""
    first, second = found.members[:2]
    count = min(PLANTED, len(first.rows) // 2, len(second.rows) // 2)
    shared = first.rows[:count]

    def again(rows: Matrix, like: Any) -> Uplink:
        bare = replace(like, rep=rows @ like.basis, labels=np.zeros(len(rows), dtype=np.int64))
        return _sent_by(bare, sent.dither, sent.rep_dtype, rng)

    theirs = np.vstack([shared, second.rows[count:]])
    paired = find_duplicates(again(first.rows, first), again(theirs, second))
    return float(np.mean(paired[:count] == np.arange(count)))


def _sent_by(member: Member, dither: float, rep_dtype: str, rng: np.random.Generator) -> Uplink:
    """Return what the analyst gets of a member whose rows were not rounded yet, with noise."""
    rep = add_dither(member.rep, dither, partial(gaussian, rng.bytes))
    return Uplink(decoded(rep, rep_dtype), decoded(member.anchor_rep, rep_dtype), member.labels, dither)


def add_claims(report: Report) -> None:
    """Claim that attacks succeed where nothing stops them, and how far they get by default."""

    def worst(name: str, sent: Sent) -> float:
        return max(float(row[name] or 0) for row in report.rows if row["sent"] == sent.name)

    report.claim("exact_rows_collusion_undefended", worst("exact_rows_collusion", UNDEFENDED), "%", ">=", 95)
    report.claim("reidentified_undefended", worst("reidentified_public_rows", UNDEFENDED), "%", ">=", 90)
    report.claim("exact_rows_collusion_default", worst("exact_rows_collusion", DEFAULT), "%", "<=", 10)
    report.claim("lattice_relations_default", worst("lattice_relations", DEFAULT), "relations", "==", 0)
    report.claim("ica_named_columns_default", worst("named_alone", DEFAULT), "columns", "<=", 3)
    report.claim("ica_named_columns_together_default", worst("named_together", DEFAULT), "columns", "<=", 12)
    report.claim(
        "reidentified_public_rows_default", worst("reidentified_public_rows", DEFAULT), "%", "<=", 95
    )
    report.claim("known_rows_located_default", worst("known_rows_located", DEFAULT), "%", "<=", 60)
    report.claim("duplicates_found_default", worst("duplicates_found", DEFAULT), "%", "<=", 90)
