"""What a round that predicts a number is worth, by the terms that `odc terms draft` writes.

Beside it, on the same rows: the same kind of model on all encoded rows in one place, boosting on them, and
each institution alone. `python -m benchmarks.numbers --data DIR`; without ``--data`` on the table that needs
no download.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

from analyst_server.compute.model_registry import model_of, task_of
from analyst_server.training.models import fit_task
from benchmarks.defaults.collaboration import Encoded, Predict, drafted_round, encoded
from benchmarks.defaults.tables import LABEL, Source, for_all_members, real
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from protocol.table_schema import Schema
from user_client.sdk.drafting import draft_terms
from user_client.tables.draft import MISSING_TEXTS
from user_client.tables.fields import as_numbers

HELD_OUT: Final = 0.3
COST_LIMIT: Final = 5.0
"""Hundredths of R squared that a round with the drafted terms may be below all rows in one place."""
HEADLINE_LIMIT: Final = 5.0
"""The same for how far the analyst's headline may be from the score on fresh rows, in the mean."""


@dataclass(frozen=True)
class Case:
    """A table, the column to predict, and among how many institutions it is dealt; 0 for its real sites."""

    name: str
    column: str
    parties: int


CASES: Final = (Case("diabetes", "progression", 4),)
REAL_CASES: Final = (
    Case("heart", "thalach", 0),
    Case("stroke", "RSBP", 10),
    Case("stroke", "AGE", 10),
    Case("adult", "hours_per_week", 10),
    Case("adult", "age", 10),
)


@dataclass(frozen=True)
class Job:
    """One seed of one case."""

    case: Case
    seed: int


def run(job: Job, folder: Path | None) -> dict[str, Any]:
    """Return R squared, in hundredths, of each way on rows that no model was fitted on."""
    source, case = _source(job.case, folder), job.case
    rng = np.random.default_rng(job.seed)
    parties = sorted(_dealt(source, case, rng), key=lambda rows: -len(rows))
    tables = [source.table.take(pa.array(rows)) for rows in parties]
    cuts = [round(HELD_OUT * len(rows)) for rows in parties]
    numbers, _ = as_numbers(source.table[case.column], MISSING_TEXTS)
    drafted = draft_terms(
        tables[0].slice(cuts[0]),
        label=case.column,
        parties=["a"],
        title="benchmark",
        task="number",
        label_range=(float(numbers.min()), float(numbers.max())),
    )
    schema = for_all_members(Schema.model_validate(drafted.content["table_schema"], strict=False), source)
    members = [
        encoded(table.slice(cut), table.slice(0, cut), schema)
        for table, cut in zip(tables, cuts, strict=True)
    ]
    played = drafted_round(members, drafted.content, schema, job.seed)
    _, together = played.play()
    undefended = replace(played, agreed=replace(played.agreed, rep_dtype="f4", dither=0.0))
    judged, without_dither = undefended.play()
    headline = judged.model.judgement["headline"]
    task, model = task_of(schema.label_column), model_of(played.agreed.model)
    pooled = np.vstack([one.rows for one in members]), np.concatenate([one.labels for one in members])
    central = fit_task(model, *pooled, task)
    boosted = HistGradientBoostingRegressor(random_state=job.seed).fit(*pooled)
    own = [fit_task(model, one.rows, one.labels, task) for one in members]
    score = partial(_score, members)
    return {
        "case": f"{case.name}, {case.column}",
        "seed": job.seed,
        "features": schema.width,
        "latent_dim": drafted.latent_dim,
        "together": score(together),
        "together_undefended": score(without_dither),
        "central": score(lambda _, rows: central.predictions(rows)),
        "central_boosting": score(lambda _, rows: boosted.predict(rows)[:, None]),
        "alone": score(lambda index, rows: own[index].predictions(rows)),
        "headline": 100 * headline["r2"]["mean"] if headline else None,
    }


def _source(case: Case, folder: Path | None) -> Source:
    if case.name == "diabetes":
        found = load_diabetes(scaled=False)
        columns = dict(zip(found.feature_names, found.data.T, strict=True))
        return Source("diabetes", pa.table({**columns, case.column: found.target}))
    if folder is None:
        raise ValueError(f"{case.name} needs a directory with data")
    source = real(folder)[case.name]()
    named = source.table.rename_columns(
        ["outcome" if name == LABEL else name for name in source.table.column_names]
    )
    known = np.flatnonzero(~np.isnan(as_numbers(named[case.column], MISSING_TEXTS)[0]))
    sites = None if source.sites is None else source.sites[known]
    return Source(source.name, named.take(pa.array(known)), sites)


def _dealt(source: Source, case: Case, rng: np.random.Generator) -> list[NDArray[Any]]:
    order = rng.permutation(source.table.num_rows)
    if case.parties:
        return np.array_split(order, case.parties)
    if source.sites is None:
        raise ValueError(f"{source.name} does not say which site a row came from")
    return [order[source.sites[order] == site] for site in np.unique(source.sites)]


def _score(members: Sequence[Encoded], predict: Predict) -> float:
    """Return R squared inside the parties: the mean weighted by rows, in hundredths."""
    found, rows = [], []
    for index, party in enumerate(members):
        errors = np.square(party.test_labels - predict(index, party.test)[:, 0])
        found.append(1 - errors.mean() / party.test_labels.var())
        rows.append(len(party.test))
    return 100 * float(np.average(found, weights=rows))


def measure(options: Options) -> Report:
    """Play every case with several seeds, and claim what the drafted terms cost."""
    report = Report("numbers", {"held_out": HELD_OUT, "unit": "hundredths of R squared"})
    cases = [*CASES, *(REAL_CASES if options.data else ())]
    jobs = [Job(case, seed) for case in cases for seed in range(10 if options.full else 3)]
    report.rows = list(_shown(run_all(partial(run, folder=options.data), jobs)))
    means = {name: _mean(report.rows, name) for name in ("central", "together", "alone")}
    by_case = means["together"].items()
    cost = max(means["central"][case] - score for case, score in by_case)
    report.claim("numbers_cost_default", cost, "hundredths below central", "<=", COST_LIMIT)
    gain = min(score - means["alone"][case] for case, score in by_case)
    report.claim("numbers_gain_over_alone", gain, "hundredths", ">=", 0.0)
    errors = [row["headline"] - row["together_undefended"] for row in report.rows if row["headline"]]
    error = abs(float(np.mean(errors))) if errors else math.nan
    report.claim("numbers_headline_error", error, "hundredths, without dither", "<=", HEADLINE_LIMIT)
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        figures = (f"{name} {value:.1f}" for name, value in row.items() if isinstance(value, float))
        print(row["case"], row["seed"], f"l = {row['latent_dim']} of {row['features']};", ", ".join(figures))
        yield row


def _mean(rows: Sequence[dict[str, Any]], name: str) -> dict[str, float]:
    return {
        case: float(np.mean([row[name] for row in rows if row["case"] == case]))
        for case in dict.fromkeys(row["case"] for row in rows)
    }


if __name__ == "__main__":
    sys.exit(main(measure))
