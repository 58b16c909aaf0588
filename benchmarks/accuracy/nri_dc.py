"""NRI-DC as in arXiv "Data Collaboration Analysis Over Matrix Manifolds", Tables 1 to 3 and 5 to 7.

Workers of 50 rows send rows along principal components of perturbed rows; the analyst aligns, fits h, and
returns what h says of the anchor's rows; each worker fits t_i to that and predicts 100 test rows. ROC-AUC,
the mean over workers. `python -m benchmarks.accuracy.nri_dc --data DIR`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from analyst_server.alignment import gopp, rdp
from analyst_server.alignment._contract import Matrix as AnyMatrix
from analyst_server.alignment.imakura import align_imakura
from analyst_server.alignment.isotropic import align_isotropic
from analyst_server.alignment.kawakami import align_kawakami
from analyst_server.alignment.procrustes import align_procrustes
from benchmarks.accuracy.bases import draw_anchor
from benchmarks.accuracy.methods import SETTLED
from benchmarks.accuracy.summary import interval
from benchmarks.data import Labels, Matrix, read_table
from benchmarks.parallel import cores, run_all
from benchmarks.report import Options, Report, main
from user_client.secret.own_model import train_own_model

ROWS_PER_WORKER, TEST_ROWS, ANCHOR_ROWS = 50, 100, 1000
PERTURBATION: Final = 0.05
KEPT: Final = 0.8
"""Latent dimension over the number of features, rounded down."""
SCORED: Final = 2
"""Workers whose t_i are fitted at the small size. All workers are alike, so that the mean is the same."""
SEEDS, FULL_SEEDS = 5, 100
RDP_ITERATIONS: Final = 300
PAPERS_RUNS: Final = 100
MODELS: Final = ("logistic", "mlp", "random forest")

_FIGURES = """
1 pima  logistic      83.5 5.1 79.1 4.5 53.6 7.3 50.0 0.0 82.0 5.0 82.1 5.0 81.7 5.0 81.6 5.0
2 pima  mlp           83.6 5.3 77.8 4.1 82.0 4.9 79.9 4.5 82.5 4.9 82.6 4.9 82.7 5.0 82.5 5.0
3 pima  random_forest 82.4 5.2 77.7 4.3 80.5 5.2 74.2 5.5 80.4 5.2 80.5 5.2 80.6 5.1 80.3 5.1
5 heart logistic      93.6 2.1 88.0 2.5 87.2 3.3 76.0 11.4 92.4 2.3 92.3 2.3 90.7 2.8 90.8 2.8
6 heart mlp           99.6 0.7 88.4 2.3 91.2 2.7 87.5 2.7 94.0 2.1 94.0 2.1 92.5 2.5 92.6 2.5
7 heart random_forest 100.0 0.0 88.9 2.3 89.1 3.1 81.5 3.2 89.2 3.1 89.2 3.1 88.5 3.3 88.4 3.3
"""
"""The paper's mean and standard deviation of 100 runs, in percent: central, local, and its six methods."""
METHODS_OF_FIGURES: Final = ("central", "local", "LS", "GEP", "OPP", "GOPP", "RDP-LS", "RDP-OPP")


def _figures() -> Iterator[tuple[tuple[str, str, str], tuple[float, float]]]:
    narrower = float(stats.t.ppf(0.975, PAPERS_RUNS - 1) / np.sqrt(PAPERS_RUNS))
    for line in _FIGURES.strip().splitlines():
        _, name, model, *words = line.split()
        values = [float(word) for word in words]
        for method, mean, deviation in zip(METHODS_OF_FIGURES, values[::2], values[1::2], strict=True):
            yield (name, model.replace("_", " "), method), (mean, deviation * narrower)


FIGURES: Final[Mapping[tuple[str, str, str], tuple[float, float]]] = dict(_figures())
"""Data, model and method: the paper's mean and the half width of its 95 % interval."""
TABLES: Final = {
    (line.split()[1], line.split()[2].replace("_", " ")): line.split()[0]
    for line in _FIGURES.strip().splitlines()
}


@dataclass(frozen=True)
class Workers:
    """The rows of each worker, (50, m), and the rows that all are tested on."""

    rows: list[Matrix]
    labels: list[Labels]
    test: Matrix
    truth: Labels


def pima(directory: Path) -> tuple[Matrix, Labels]:
    """Return Pima as the paper prepares it: zeros replaced by means or medians, columns standardised."""
    table = read_table(directory, "pima_diabetes/diabetes.csv.gz")
    labels = np.array([int(row.pop("Outcome")) for row in table])
    columns = {name: np.array([float(row[name]) for row in table]) for name in table[0]}
    for name in ("Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI"):
        values = columns[name]
        known = values[values != 0]
        by_mean = name in ("Glucose", "BloodPressure")
        columns[name] = np.where(values == 0, known.mean() if by_mean else np.median(known), values)
    return _standardised(np.stack(list(columns.values()), axis=1)), labels


def heart(directory: Path, *, distinct: bool = False) -> tuple[Matrix, Labels]:
    """Return the 1025 rows of the paper's heart table, or the 302 patients that they are copies of.

    A category has a column for each level but the first; numbers are standardised.
    """
    table = read_table(directory, "heart/heart_1025.csv.gz")
    if distinct:
        table = [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in table)]
    labels = np.array([int(row["target"]) for row in table])
    numbers = ("age", "trestbps", "chol", "thalach", "oldpeak")
    features = [_standardised(np.array([[float(row[name]) for name in numbers] for row in table]))]
    for name in ("sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal"):
        values = np.array([row[name] for row in table])
        features.append(np.stack([values == level for level in np.unique(values)[1:]], axis=1))
    return np.hstack(features).astype(np.float64), labels


def _standardised(rows: Matrix) -> Matrix:
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


DATA: Final[Mapping[str, tuple[Callable[[Path], tuple[Matrix, Labels]], int]]] = {
    "pima": (pima, 750),
    "heart": (heart, 1000),
    "heart, each patient once": (partial(heart, distinct=True), 300),
}
"""How to read each table, and how many of its rows are used."""


def deal(rows: Matrix, labels: Labels, used: int, seed: int) -> Workers:
    """Return workers of 50 rows each, and 100 test rows, of ``used`` rows drawn with the table's classes."""
    rng = np.random.default_rng(seed)
    chosen = np.arange(len(rows))
    if used < len(rows):
        chosen = train_test_split(chosen, train_size=used, stratify=labels, random_state=seed)[0]
    order = rng.permutation(chosen)
    tested, rest = order[:TEST_ROWS], order[TEST_ROWS:]
    shares = np.split(rest[: len(rest) // ROWS_PER_WORKER * ROWS_PER_WORKER], len(rest) // ROWS_PER_WORKER)
    return Workers(
        [rows[share] for share in shares], [labels[share] for share in shares], rows[tested], labels[tested]
    )


def align(method: str, reps: Sequence[Matrix]) -> list[AnyMatrix]:
    """Return the G_i of one of the paper's methods, or of `isotropic`."""
    if method == "LS":
        return align_imakura(reps).changes_of_basis
    if method == "GEP":
        return align_kawakami(reps).changes_of_basis
    if method == "isotropic":
        return align_isotropic(reps, anchor_is_isotropic=False).changes_of_basis
    orthogonal = align_procrustes(reps)
    if method == "OPP":
        return orthogonal.changes_of_basis
    if method == "GOPP":
        return gopp.descend(
            reps, orthogonal.target, trusted=None, tolerance=SETTLED, max_sweeps=gopp.MAX_SWEEPS
        )[0]
    stack = np.stack(reps)
    stack = stack / (np.linalg.norm(stack) / np.sqrt(len(stack)))
    start = (
        orthogonal.changes_of_basis if method == "RDP-OPP" else align_imakura(list(stack)).changes_of_basis
    )
    objective = rdp.Objective(stack, rdp.PENALTY, len(stack))
    return list(rdp.descend(objective, np.stack(start), rdp.TOLERANCE, RDP_ITERATIONS)[0])


def run(job: tuple[str, int, int], *, folder: Path) -> dict[tuple[str, str], float]:
    """Return the ROC-AUC in percent of each model and method, for a table, a seed and a number of workers."""
    name, seed, scored = job
    read, used = DATA[name]
    workers = deal(*read(folder), used, seed)
    rng = np.random.default_rng([seed, 5])
    features = workers.test.shape[1]
    anchor = draw_anchor("gaussian", ANCHOR_ROWS, features, rng)
    latent_dim = int(KEPT * features)
    bases = []
    for index, rows in enumerate(workers.rows):
        noise = PERTURBATION * rng.standard_normal(rows.shape)
        bases.append(PCA(latent_dim, random_state=seed + index).fit(rows + noise).components_.T)
    reps = [anchor @ basis for basis in bases]
    pooled = np.vstack(workers.rows), np.concatenate(workers.labels)
    found = {}
    for kind in MODELS:
        model = partial(_fitted, kind, seed)
        found[kind, "central"] = _roc_auc(workers, model(*pooled))
        alone = [model(workers.rows[i], workers.labels[i]) for i in range(scored)]
        found[kind, "local"] = float(np.mean([_roc_auc(workers, each) for each in alone]))
    for method in (*METHODS_OF_FIGURES[2:], "isotropic"):
        changes = align(method, reps)
        aligned = np.vstack(
            [rows @ basis @ change for rows, basis, change in zip(workers.rows, bases, changes, strict=True)]
        )
        for kind in MODELS:
            h = _fitted(kind, seed, aligned, pooled[1])
            seen = [reps[i] @ changes[i] for i in range(scored)]
            own = [_fitted(kind, seed, anchor, h.predict(rows)) for rows in seen]
            found[kind, method] = float(np.mean([_roc_auc(workers, t) for t in own]))
            if method == "isotropic":
                ours = [train_own_model(anchor, h.predict_proba(rows)) for rows in seen]
                scores = [roc_auc_score(workers.truth, t.probabilities(workers.test)[:, 1]) for t in ours]
                found[kind, "isotropic, probabilities"] = 100 * float(np.mean(scores))
    return found


def _fitted(kind: str, seed: int, rows: Matrix, labels: Labels) -> Any:
    """Fit a model with scikit-learn's defaults, as the paper does."""
    model = {
        "logistic": LogisticRegression(),
        "mlp": MLPClassifier(random_state=seed),
        "random forest": RandomForestClassifier(random_state=seed),
    }[kind]
    if len(np.unique(labels)) < 2:
        return _Constant(int(labels[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the paper's models stop there too
        return model.fit(rows, labels)


@dataclass(frozen=True)
class _Constant:
    """What is learned from rows of one class."""

    label: int

    def predict(self, rows: Matrix) -> Labels:
        return np.full(len(rows), self.label)

    def predict_proba(self, rows: Matrix) -> NDArray[Any]:
        return np.eye(2)[self.predict(rows)]


def _roc_auc(workers: Workers, model: Any) -> float:
    return 100 * float(roc_auc_score(workers.truth, model.predict_proba(workers.test)[:, 1]))


def rows(name: str, each: Sequence[Mapping[tuple[str, str], float]]) -> list[dict[str, Any]]:
    """Return one row for each model and method of a table, with the paper's figure where it has one."""
    found = []
    for kind, method in each[0]:
        mean, half = interval([one[kind, method] for one in each])
        row: dict[str, Any] = {
            "table": f"NRI-DC {TABLES.get((name, kind), '-')}",
            "dataset": name,
            "model": kind,
            "method": method,
            "metric": "roc_auc",
            "mean": round(mean, 2),
            "half_width": round(half, 2) if np.isfinite(half) else None,
            "seeds": len(each),
        }
        paper = FIGURES.get((name, kind, method))
        if paper is not None:
            differs = abs(mean - paper[0]) > half + paper[1]
            row |= {"paper": paper[0], "paper_half_width": round(paper[1], 2), "differs": differs}
            if differs:
                row["why"] = _why(kind, method)
        found.append(row)
    return found


def _why(kind: str, method: str) -> str:
    reasons = ["the paper does not state the versions of its libraries and its draws"]
    if method.startswith("RDP"):
        reasons.append("the paper does not state eta, and uses a Riemannian descent")
    if (kind, method) == ("random forest", "GEP"):
        reasons.append("a forest does not see the small scale of GEP, and the paper names no other cause")
    return "; ".join(reasons)


def measured(folder: Path, *, full: bool) -> list[dict[str, Any]]:
    """Run every table with every seed and return the rows."""
    found = []
    for name, (_, used) in DATA.items():
        workers = (used - TEST_ROWS) // ROWS_PER_WORKER
        scored = workers if full else min(SCORED, workers)
        jobs = [(name, seed, scored) for seed in range(FULL_SEEDS if full else SEEDS)]
        each = []
        for job, scores in zip(jobs, run_all(partial(run, folder=folder), jobs), strict=True):
            print(*job, "central", {k[0]: round(v, 1) for k, v in scores.items() if k[1] == "central"})
            each.append(scores)
        found += rows(name, each)
    return found


def measure(options: Options) -> Report:
    """Return the tables; without the real data, nothing."""
    begin = time.monotonic()
    report = Report("accuracy.nri_dc")
    if options.data is None:
        print("nothing was measured: these tables need --data DIR (docs/benchmarks.md)")
        return report
    report.rows = measured(options.data, full=options.full)
    report.conditions = {
        "score": "ROC-AUC in percent on 100 test rows, mean over workers and seeds; 95 % t-interval",
        "workers_scored": "all" if options.full else SCORED,
        "processes": cores(),
        "seconds": round(time.monotonic() - begin),
    }
    return report


if __name__ == "__main__":
    sys.exit(main(measure))
