"""Two of FLamby's tables with their real centres, by the terms that `odc terms draft` writes.

Fed-Heart-Disease: four hospitals, the columns that it drops dropped and rows with gaps left out, a third of
each hospital's rows tested; accuracy. Fed-TCGA-BRCA: six regions with its fixed split; concordance index.
Both are means over the centres' own tests, weighted by rows. `python -m benchmarks.flamby --data DIR`.

The published figures are those of FLamby (arXiv:2210.04620), whose models see columns that each centre has
standardised.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from sklearn.model_selection import train_test_split

from analyst_server.compute.model_registry import model_of, task_of
from analyst_server.training.models import fit_task
from benchmarks.data import read_typed_table
from benchmarks.defaults.collaboration import Encoded, Predict, drafted_round, encoded
from benchmarks.defaults.tables import Source, for_all_members
from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from protocol.table_schema import Schema
from user_client.scores import compare
from user_client.sdk import DraftedEvent, draft_terms

HEART_DROPPED: Final = ("site", "slope", "ca", "thal", "num")
TESTED: Final = 0.34
PUBLISHED: Final = {
    "heart": {"central": 75.0, "FedAdagrad": 74.1, "local": 73.7, "Cyclic": 73.5, "FedAvg": 70.6},
    "tcga": {"central": 70.4, "FedAvg": 73.5, "FedAdam": 84.2},
}


@dataclass(frozen=True)
class Centre:
    """The rows that a centre trains with, and those that it is tested on."""

    train: pa.Table
    test: pa.Table


@dataclass(frozen=True)
class Job:
    """A table and a seed: of the split where FLamby fixes none, of the bases and of the noise."""

    table: str
    seed: int


def heart(folder: Path, seed: int) -> list[Centre]:
    """Return the four hospitals of Fed-Heart-Disease, 740 rows."""
    table = read_typed_table(folder, "heart/heart_uci_4site.csv.gz")
    kept = table.drop_columns([name for name in HEART_DROPPED if name != "site"])
    kept = kept.filter(pa.array(~np.any([column.is_null().to_numpy() for column in kept.columns], axis=0)))
    centres = []
    for site in sorted(set(kept["site"].to_pylist())):
        own = kept.filter(pa.compute.equal(kept["site"], site)).drop_columns(["site"])
        labels = own["label"].to_numpy()
        # one hospital has a single row without the disease, which no split can share out
        stratify = labels if np.bincount(labels).min() > 1 else None
        rows = np.arange(len(own))
        parts = train_test_split(rows, test_size=TESTED, stratify=stratify, random_state=seed)
        centres.append(Centre(*(own.take(pa.array(part)) for part in parts)))
    return centres


def tcga(folder: Path) -> list[Centre]:
    """Return the six regions of Fed-TCGA-BRCA with its split, 1088 rows."""
    table = read_typed_table(folder, "tcga_brca/tcga_brca.csv.gz")
    centres = []
    for number in range(6):
        parts = [_fold(table, f"{part}_{number}") for part in ("train", "test")]
        centres.append(Centre(*parts))
    return centres


def _fold(table: pa.Table, name: str) -> pa.Table:
    chosen = table.filter(pa.compute.equal(table["fold2"], name))
    return chosen.drop_columns(["tss", "source_site", "region", "fold", "fold2"])


def run(job: Job, folder: Path) -> dict[str, Any]:
    """Return the scores of each way, in hundredths."""
    centres = heart(folder, job.seed) if job.table == "heart" else tcga(folder)
    centres = sorted(centres, key=lambda centre: -len(centre.train))  # the largest leads
    task: dict[str, Any] = {"label": "label"}
    if job.table == "tcga":
        task = {"label": "T", "task": "survival", "event": DraftedEvent("E", "1")}
    drafted = draft_terms(centres[0].train, parties=["a"], title="benchmark", **task)
    whole = pa.concat_tables([part for centre in centres for part in (centre.train, centre.test)])
    schema = Schema.model_validate(drafted.content["table_schema"], strict=False)
    schema = for_all_members(schema, Source(job.table, whole))
    label = schema.label_column
    members = [encoded(centre.train, centre.test, schema) for centre in centres]
    content = drafted.content
    played = drafted_round(members, content, schema, job.seed)
    undefended = replace(played, agreed=replace(played.agreed, rep_dtype="f4", dither=0.0))
    model, of_label = model_of(played.agreed.model), task_of(label)
    pooled = np.vstack([one.rows for one in members]), np.concatenate([one.labels for one in members])
    central = fit_task(model, *pooled, of_label)
    score = partial(_score, members, label.task)
    return {
        "table": job.table,
        "seed": job.seed,
        "latent_dim": content["latent_dim"],
        "features": schema.width,
        "together": score(played.play_unjudged()),
        "together_undefended": score(undefended.play_unjudged()),
        "central": score(lambda _, rows: central.predictions(rows)),
    }


def _score(members: Sequence[Encoded], task: str, predict: Predict) -> float:
    found, rows = [], []
    for index, party in enumerate(members):
        predicted = predict(index, party.test)
        if task == "classes":
            found.append(float(np.mean(predicted.argmax(axis=1) == party.test_labels)))
        else:
            found.append(compare(party.test_labels, predicted, None, "survival").together)
        rows.append(len(party.test))
    return 100 * float(np.average(found, weights=rows))


def measure(options: Options) -> Report:
    """Play both tables with ten seeds, and claim that they are as good as FLamby's strategies."""
    report = Report("flamby", {"published": PUBLISHED})
    if options.data is None:
        print("nothing was measured: FLamby's tables need --data DIR (docs/benchmarks.md)")
        return report
    jobs = [Job(table, seed) for table in PUBLISHED for seed in range(30 if options.full else 10)]
    report.rows = list(_shown(run_all(partial(run, folder=options.data), jobs)))
    for claim, table, bound in (
        ("flamby_heart_accuracy", "heart", PUBLISHED["heart"]["FedAdagrad"]),
        ("flamby_tcga_c_index", "tcga", PUBLISHED["tcga"]["FedAvg"]),
    ):
        found = [row["together"] for row in report.rows if row["table"] == table]
        report.claim(claim, float(np.mean(found)), f"+- {np.std(found, ddof=1):.1f}", ">=", bound)
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        figures = (f"{name} {value:.1f}" for name, value in row.items() if isinstance(value, float))
        print(row["table"], row["seed"], f"l = {row['latent_dim']} of {row['features']};", ", ".join(figures))
        yield row


if __name__ == "__main__":
    sys.exit(main(measure))
