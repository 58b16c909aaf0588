"""The two lattice attacks on uplinks of real tables, with and without what is meant to stop them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from benchmarks.uplink.tables import TABLES, Defence, Encoding, cohort, sources
from user_client.privacy.closest_vector import closest_vector
from user_client.privacy.orthogonal_lattice import orthogonal_lattice
from user_client.sdk import DITHER
from user_client.tables.states import column_states

ROWS: Final = 300
SECONDS: Final = 600.0
"""Of processor time for either attack: far more than any takes, so that none is cut off unnoticed."""
DITHERS: Final = (0.01, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Case:
    """An uplink to attack; ``latent_dim`` None is that of the draft."""

    table: str
    encoding: Encoding
    latent_dim: int | None = None
    rep_dtype: str = "f4"
    dither: float = 0.0
    nri: bool = False
    seed: int = 0


def cases(*, full: bool, real_data: bool) -> Iterator[Case]:
    """Yield what is attacked: tables that need no download, or all."""
    small = {"digits": (20, 16, 12)}
    large = {"heart": (6, 4, 3, 2), "stroke": (24, 12, 7, 6, 4), "pima": (4,), **small, "tcga": (6, 4)}
    for table in TABLES if real_data else ("digits",):
        for encoding in ("old", "drafted"):
            for seed in range(3 if full else 1):
                case = partial(Case, table, encoding, seed=seed)
                yield case()
                yield from (case(latent_dim=latent_dim) for latent_dim in large[table])
                yield from (case(rep_dtype=rep_dtype) for rep_dtype in ("f2", "i1"))
                yield case(nri=True)
                yield from (case(dither=dither) for dither in DITHERS)
                yield case(rep_dtype="i1", dither=DITHER)


def run(case: Case, folder: Path | None) -> dict[str, Any]:
    """Attack one member's uplink: the largest site's, where the table has sites.

    Figures of an attack that does not apply to the table are not in the row.
    """
    source = sources(folder)[case.table]()
    found = cohort(
        source,
        case.encoding,
        rows=ROWS,
        sites=source.sites is not None,
        latent_dim=case.latent_dim,
        rep_dtype=case.rep_dtype,
        defence=Defence(case.dither, case.nri),
        seed=case.seed,
    )
    member = found.members[0]
    states = column_states(member.table, found.schema)
    noise = float(np.sqrt(np.mean((member.rep - member.rows @ member.basis) ** 2)))
    near, any_number = None, sum(values.shape[1] for values in states if not len(values))
    if any_number <= found.latent_dim:  # otherwise there are too few equations, whatever else is known
        near = closest_vector(member.rows, member.basis, member.rep, states, seed=case.seed, seconds=SECONDS)
    orthogonal = orthogonal_lattice(member.rows, member.rep, noise, states, seed=case.seed, seconds=SECONDS)
    row = {**asdict(case), "features": found.schema.width, "latent_dim": found.latent_dim}
    row["member_rows"] = len(member.rows)
    for name, result in (("colluders", near), ("analyst", orthogonal)):
        row |= {f"{name}_{key}": value for key, value in asdict(result).items()} if result else {}
    if near:  # the attack says whether all guesses were tried, and not whether it improved them to the end
        row["colluders_finished"] = near.finished and near.seconds < SECONDS
    if orthogonal:  # it begins no other try after a quarter of its time
        row["analyst_finished"] = orthogonal.seconds < SECONDS / 4
    return row


def run_job(case: Case, *, folder: Path | None) -> dict[str, Any]:
    """Attack one uplink, and show what came of it."""
    row = run(case, folder)
    print(_line(row), flush=True)
    return row


def measure(options: Options) -> Report:
    """Attack every uplink and return the rows and claims."""
    report = Report("uplink.lattice", {"rows": ROWS, "seconds": SECONDS, "anchor": "haar"})
    every = list(cases(full=options.full, real_data=options.data is not None))
    report.rows = list(run_all(partial(run_job, folder=options.data), every))
    _add_claims(report)
    return report


def _add_claims(report: Report) -> None:
    """Claim that attacks succeed where nothing stops them, and how far they get where something should."""

    def of(name: str, **wanted: Any) -> list[float]:
        kept = [row for row in report.rows if all(row[key] == value for key, value in wanted.items())]
        return [float(row[name]) for row in kept if name in row]

    bare = {"rep_dtype": "f4", "dither": 0.0, "nri": False}
    drafts = [row for row in report.rows if row["encoding"] == "drafted"]
    default = {row["table"]: row["latent_dim"] for row in drafts if row["dither"] or row["nri"]}
    exact = [
        of("colluders_exact_rows", table=table, encoding="drafted", latent_dim=latent_dim, **bare)[0]
        for table, latent_dim in default.items()
    ]
    report.claim("lattice_exact_rows_undefended", 100 * min(exact), "% of rows", ">=", 95)
    dithered = of("colluders_exact_rows", encoding="drafted", dither=0.25)
    report.claim("lattice_exact_rows_quarter_dither", 100 * max(dithered), "% of rows", "<=", 25)


def _line(row: dict[str, Any]) -> str:
    def share(name: str) -> str:
        return f"{100 * row[name]:5.1f}" if name in row else "    -"

    return (
        f"{row['table']:<7}{row['encoding']:<8} m {row['features']:>2} l {row['latent_dim']:>2}"
        f" {row['rep_dtype']} q {row['dither']:<4g} {'nri' if row['nri'] else '   '}"
        f" | exact {share('colluders_exact_rows')} columns {share('colluders_right_columns')}"
        f" (guess {share('colluders_guessed_columns')}) {row.get('colluders_seconds', 0):4.1f} s"
        f" | block {row.get('analyst_rows')}: {row.get('analyst_relations')}/{row.get('analyst_expected')}"
        f" relations, 0/1 columns {row.get('analyst_held')} held, {row.get('analyst_recovered')} found of"
        f" {row.get('analyst_two_valued')} among {row.get('analyst_candidates')},"
        f" {row.get('analyst_seconds', 0):4.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main(measure))
