"""All attacks on the members of one population, and the claims about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.data import Matrix
from benchmarks.report import Op, Report
from benchmarks.uplink import blind, lattice
from benchmarks.uplink.tables import Cohort, Defence, Member, cohort, decoded, sources
from user_client.privacy.components import BlindFindings
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


BOUNDED: Final[tuple[tuple[str, str, Sent, str, Op, float], ...]] = (
    ("exact_rows_collusion_undefended", "exact_rows_collusion", UNDEFENDED, "%", ">=", 95),
    ("reidentified_undefended", "reidentified_public_rows", UNDEFENDED, "%", ">=", 90),
    ("exact_rows_collusion_default", "exact_rows_collusion", DEFAULT, "%", "<=", 10),
    ("lattice_relations_default", "lattice_relations", DEFAULT, "relations", "==", 0),
    ("ica_named_columns_default", "named_alone", DEFAULT, "columns", "<=", 3),
    ("ica_named_columns_together_default", "named_together", DEFAULT, "columns", "<=", 12),
    ("known_rows_located_default", "known_rows_located", DEFAULT, "%", "<=", 60),
)
"""Claims: what each is called, the figure it is about, how rows were sent, and its bound."""
UNBOUNDED: Final = {
    "values_collusion_default": "values_collusion",
    "reidentified_public_rows_default": "reidentified_public_rows",
    "duplicates_found_default": "duplicates_found",
}
"""What the default does not stop: a bound would be no defence."""
FINISHED: Final = ("collusion_finished", "lattice_finished", "alone_finished", "together_finished")


@dataclass(frozen=True)
class Population:
    """A table and how it is divided; the members beyond ``parties`` are public rows."""

    table: str
    parties: int
    public: int
    rows: int
    sites: bool = False


POPULATIONS: Final = (Population("digits", 8, 8, 100), Population("breast_cancer", 8, 4, 40))
REAL: Final = (
    Population("stroke", 10, 4, 300, sites=True),
    Population("tcga", 3, 2, 200, sites=True),
    Population("heart", 3, 1, 200, sites=True),
    Population("pima", 5, 3, 90),
)


@dataclass(frozen=True)
class Job:
    """One population, sent in one way."""

    population: Population
    sent: Sent
    seed: int


def run(job: Job, *, folder: Path | None) -> dict[str, Any]:
    """Attack one population with everything; a figure of an attack that does not apply to it is None."""
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
        **_of_lattices(lattices),
        **_of_blind_search(alone, together),
        "reidentified_public_rows": 100
        * reidentified(uplinks, [one.rows for one in members], public, rotation),
        "known_rows_located": 100 * _located(found, uplinks[0], rng),
        "duplicates_found": 100 * _duplicates(found, sent, rng),
    }


def _of_lattices(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of both lattice attacks, and whether each came to its end."""

    def percent(name: str) -> float | None:
        return 100 * row[name] if name in row else None

    return {
        "exact_rows_collusion": percent("colluders_exact_rows"),
        "exact_rows_guessed": percent("colluders_guessed_exact_rows"),
        "values_collusion": percent("colluders_right_columns"),
        "values_guessed": percent("colluders_guessed_columns"),
        "collusion_finished": row.get("colluders_finished"),
        "lattice_member_rows": row["member_rows"],
        "lattice_latent_dim": row["latent_dim"],
        "lattice_relations": row.get("analyst_relations"),
        "lattice_relations_expected": row.get("analyst_expected"),
        "lattice_finished": row.get("analyst_finished"),
    }


def _of_blind_search(alone: BlindFindings | None, together: BlindFindings | None) -> dict[str, Any]:
    """Return what is told apart in the uplink of one member, and in all: there may be nothing to tell."""
    found: dict[str, Any] = {"two_valued": together.features if together else None}
    for name, one in (("alone", alone), ("together", together)):
        applies = one is not None and one.features > 0
        found[f"recovered_{name}"] = len(one.recovered) if one and applies else None
        found[f"named_{name}"] = len(one.named) if one and applies else None
        found[f"{name}_finished"] = one.complete if one and applies else None
    return found


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
    """Claim that attacks succeed where nothing stops them, and how far they get by default.

    A claim is about the table where an attack gets furthest of those that it applies to. It is not made where
    it applies to none. What the default does not stop is published without a bound.
    """
    for claim, name, sent, unit, op, bound in BOUNDED:
        if found := _of(report, name, sent):
            report.claim(claim, max(found), unit, op, bound)
        else:
            report.conditions.setdefault("applies_to_no_table", []).append(claim)
    cut_off = sum(row[name] is False for row in report.rows for name in FINISHED)
    report.claim("attacks_cut_off", cut_off, "attacks", "==", 0)
    for claim, name in UNBOUNDED.items():
        report.figure(claim, max(_of(report, name, DEFAULT)), "%")


def _of(report: Report, name: str, sent: Sent) -> list[float]:
    return [float(row[name]) for row in report.rows if row["sent"] == sent.name and row[name] is not None]
