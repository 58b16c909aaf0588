"""What a model for each group of institutions is worth beside one for all, by terms as the lead drafts them.

Heart: the four real hospitals of FLamby, whose shares of the disease are far apart. Skewed: rows of Adult at
eight institutions of which each has a share of high incomes of its own. Alike: the same drawn with one share.
All are tested on rows of their own that did not train.
`python -m benchmarks.groups --data DIR`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_auc_score

from benchmarks.defaults.tables import LABEL, real
from benchmarks.fewer_numbers import drafted_by_lead
from benchmarks.flamby import Centre, heart
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from orthonormal_data_collaboration import Simulation, simulate

WITHIN: Final = 0.2
"""The distance that the help of `odc terms draft` names."""
SHARES: Final[Mapping[str, tuple[float, ...]]] = {
    "skewed": (0.1, 0.1, 0.15, 0.2, 0.4, 0.45, 0.5, 0.5),
    "alike": (0.25,) * 8,
}
ROWS, TEST_ROWS = 250, 150
TABLES: Final = ("heart", *SHARES)
FIGURES: Final = ("accuracy", "brier", "roc_auc")


@dataclass(frozen=True)
class Job:
    """A table and a seed: of the rows, of the bases and of the noise."""

    table: str
    seed: int


def parties(table: str, folder: Path, seed: int) -> dict[str, Centre]:
    """Return the parties with their rows to train with and to be tested on, the largest first."""
    if table == "heart":
        centres = sorted(heart(folder, seed), key=lambda centre: -len(centre.train))
        return {f"h{number}": one for number, one in enumerate(centres)}
    source = real(folder)["adult"]()
    rng = np.random.default_rng(seed)
    low, high = (list(rng.permutation(np.flatnonzero(source.labels == number))) for number in (0, 1))
    found = {}
    for number, share in enumerate(SHARES[table]):
        parts = []
        for count in (ROWS, TEST_ROWS):
            highs = int(rng.binomial(count, share))
            parts.append([high.pop() for _ in range(highs)] + [low.pop() for _ in range(count - highs)])
        found[f"h{number}"] = Centre(*(source.table.take(pa.array(part)) for part in parts))
    return found


def run(job: Job, folder: Path) -> dict[str, Any]:
    """Return the figures of both, and how many groups there were."""
    found = parties(job.table, folder, job.seed)
    tables = {name: party.train for name, party in found.items()}
    every = [part for party in found.values() for part in (party.train, party.test)]
    terms = drafted_by_lead(tables, every)
    asked: dict[str, dict[str, Any]] = {"one": {}, "grouped": {"model_groups": {"largest_distance": WITHIN}}}
    played = {
        name: simulate(tables, terms, label=LABEL, random_state=job.seed, hold_out=0.0, **fields)
        for name, fields in asked.items()
    }
    row: dict[str, Any] = {"table": job.table, "seed": job.seed}
    row["groups"] = len(played["grouped"].report["groups"])
    for name, round_ in played.items():
        row |= {f"{figure}_{name}": value for figure, value in _figures(round_, found).items()}
    return row


def _figures(played: Simulation, parties: Mapping[str, Centre]) -> dict[str, float]:
    """Return the means over the parties, weighted by rows; of the ROC-AUC over those with both classes."""
    rows: list[int] = []
    figures: dict[str, list[float]] = {name: [] for name in FIGURES}
    areas: list[int] = []
    for name, party in parties.items():
        model = played[name]
        second = np.asarray(model.predict_proba(party.test.drop_columns([LABEL])))[:, 1]
        positive = np.array(list(map(str, party.test[LABEL].to_pylist()))) == str(model.classes_[1])
        rows.append(len(positive))
        figures["accuracy"].append(float(np.mean((second > 0.5) == positive)))
        figures["brier"].append(float(np.mean((second - positive) ** 2)))
        if 0 < positive.sum() < len(positive):
            areas.append(len(positive))
            figures["roc_auc"].append(float(roc_auc_score(positive, second)))
    weights = {name: areas if name == "roc_auc" else rows for name in FIGURES}
    return {name: float(np.average(figures[name], weights=weights[name])) for name in FIGURES}


def measure(options: Options) -> Report:
    """Play every table with several seeds, with groups and without, on the same rows and bases."""
    report = Report("groups", {"within": WITHIN, "shares": SHARES, "rows": ROWS})
    if options.data is None:
        print("nothing was measured: the tables need --data DIR (docs/benchmarks.md)")
        return report
    jobs = [Job(table, seed) for table in TABLES for seed in range(30 if options.full else 10)]
    report.rows = list(_shown(run_all(partial(run, folder=options.data), jobs)))
    for table, bound in (("heart", 0.0), ("skewed", 0.0), ("alike", -0.005)):
        gained = [row["brier_one"] - row["brier_grouped"] for row in report.rows if row["table"] == table]
        told = f"+- {np.std(gained, ddof=1) / np.sqrt(len(gained)):.4f}"
        report.claim(f"groups_gain_brier_{table}", float(np.mean(gained)), told, ">=", bound)
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        told = (f"{name} {row[f'{name}_one']:.3f} -> {row[f'{name}_grouped']:.3f}" for name in FIGURES)
        print(f"{row['table']} {row['seed']}: {row['groups']} groups;", ", ".join(told))
        yield row


if __name__ == "__main__":
    sys.exit(main(measure))
