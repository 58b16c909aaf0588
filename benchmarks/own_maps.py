"""What non-linear maps of the institutions' own bring, and what they cost: `own_maps` in the terms.

Three institutions have rows of one table, and send l numbers of each: all by linear maps, all by random
features, all by kernel-pca, or each in another way. Two tables are made up so that no line tells the label.
Scores are on rows that nobody had. `python -m benchmarks.own_maps`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score

from benchmarks.parallel import run_all
from benchmarks.report import Options, Report, main
from orthonormal_data_collaboration import Simulation, simulate
from user_client.sdk import PrivacyOptions

PARTIES: Final = 3
ANCHOR_ROWS: Final = 200
WAYS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "linear": (None,) * PARTIES,
    "random_features": ("random-features",) * PARTIES,
    "kernel_pca": ("kernel-pca",) * PARTIES,
    "mixed": (None, "random-features", "kernel-pca"),
}
MADE_UP: Final = ("product", "shell")
LATENT_DIM: Final[Mapping[str, int]] = {"wine": 5, "breast_cancer": 8, "product": 4, "shell": 4}
ROWS_EACH: Final[Mapping[str, int]] = {"wine": 25, "breast_cancer": 60, "product": 200, "shell": 200}
ALIGNMENTS: Final = ("kawakami", "imakura")
LEAST_GAIN: Final = 8.0
"""Points of ROC-AUC on the made-up tables, by random features with `kawakami`."""
MOST_LOST: Final = 1.5
"""Points on the real ones."""
FLIPPED: Final = 0.05
"""Share of the made-up labels that are wrong."""


@dataclass(frozen=True)
class Job:
    """A table, an alignment and a seed: of the rows and of all that is drawn."""

    table: str
    alignment: str
    seed: int


def run(job: Job) -> dict[str, Any]:
    """Return the mean ROC-AUC of the institutions, and how far rebuilt rows are off, each way."""
    rows, labels = _table(job.table, np.random.default_rng(job.seed))
    each = ROWS_EACH[job.table]
    parties = {
        f"h{index}": (rows[index * each :][:each], labels[index * each :][:each]) for index in range(PARTIES)
    }
    found: dict[str, Any] = {"table": job.table, "alignment": job.alignment, "seed": job.seed}
    for way, kinds in WAYS.items():
        played = simulate(
            parties,
            random_state=job.seed,
            drafted_by="all",
            latent_dim=LATENT_DIM[job.table],
            own_maps=["kernel-pca", "random-features"],
            alignment=job.alignment,
            anchor={"kind": "gaussian", "rows": ANCHOR_ROWS},
            model="mlp",
            dither=0.0,
            privacy={f"h{index}": PrivacyOptions(own_map=kind) for index, kind in enumerate(kinds)},
        )
        found[way] = _score(played, rows[PARTIES * each :], labels[PARTIES * each :])
        found[f"{way}_rebuilt"] = _rebuilt(played)
    return found


def _table(name: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    if name not in MADE_UP:
        rows, labels = (load_wine if name == "wine" else load_breast_cancer)(return_X_y=True)
        order = rng.permutation(len(rows))
        return rows[order], labels[order]
    rows = rng.standard_normal((2600, 6))
    inside = np.square(rows[:, :3]).sum(axis=1)
    told = rows[:, 0] * rows[:, 1] > 0 if name == "product" else inside > np.median(inside)
    return rows, (told ^ (rng.random(len(rows)) < FLIPPED)).astype(int)


def _score(played: Simulation, rows: NDArray[Any], labels: NDArray[Any]) -> float:
    scores = []
    for model in played.values():
        found = np.asarray(model.predict_proba(rows))
        told = found[:, 1] if found.shape[1] == 2 else found
        scores.append(roc_auc_score(labels, told, multi_class="ovr"))
    return float(np.mean(scores))


def _rebuilt(played: Simulation) -> float:
    """Return the mean over the parties of the median error of a row that two who collude rebuild."""
    errors = []
    for member in played.members.values():
        risk = member.prepared.collusion_error or member.prepared.hidden_share
        errors.append(risk.median if risk else np.nan)
    return float(np.mean(errors))


def measure(options: Options) -> Report:
    """Play every table with several seeds, each way on the same rows."""
    report = Report("own_maps", {"anchor_rows": ANCHOR_ROWS, "latent_dim": LATENT_DIM})
    seeds = range(10 if options.full else 3)
    jobs = [Job(table, method, seed) for table in LATENT_DIM for method in ALIGNMENTS for seed in seeds]
    report.rows = list(_shown(run_all(run, jobs)))
    taken = [row for row in report.rows if row["alignment"] == "kawakami"]
    losses = [row["linear"] - row["random_features"] for row in taken if row["table"] not in MADE_UP]
    told = "points of ROC-AUC by random features"
    for name in MADE_UP:  # one by one: what a map loses on the one would hide behind the other
        gains = [row["random_features"] - row["linear"] for row in taken if row["table"] == name]
        report.claim(f"own_maps_gain_on_{name}", 100 * float(np.mean(gains)), told, ">=", LEAST_GAIN)
    report.claim("own_maps_cost_on_real", 100 * float(np.mean(losses)), told, "<=", MOST_LOST)
    return report


def _shown(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        told = (f"{way} {row[way]:.3f} (off {row[f'{way}_rebuilt']:.2f})" for way in WAYS)
        print(f"{row['table']} {row['alignment']} {row['seed']}:", ", ".join(told), flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main(measure))
