"""Figures 3 and 4 of "Federated Learning System without Model Sharing": more users, and more rows of each.

MNIST and Fashion-MNIST; a network of 512 and 128 units, 24 epochs of batches of 32; accuracy on 1000 images
of the first user. FedAvg has 24 rounds of 1 or 3 epochs. `python -m benchmarks.accuracy.users --data DIR`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.neural_network import MLPClassifier

from benchmarks.accuracy.bases import draw_anchor, principal_directions
from benchmarks.accuracy.experiment import load
from benchmarks.accuracy.methods import OURS, Way
from benchmarks.accuracy.summary import interval
from benchmarks.data import Dataset, Labels, Matrix
from benchmarks.defaults.rivals import Part, put_weights
from benchmarks.parallel import cores, run_all
from benchmarks.report import Options, Report, main

HIDDEN: Final = (512, 128)
BATCH, EPOCHS = 32, 24
TESTED, ANCHOR_ROWS, LATENT_DIM = 1000, 500, 50
LOCAL_EPOCHS: Final = {"FedAvg 1E32B": 1, "FedAvg 3E32B": 3}
WAYS: Final = {"DC": Way("imakura"), "isotropic": OURS}
SEEDS = 3


@dataclass(frozen=True)
class Point:
    """One place on the horizontal axis of a figure."""

    figure: str
    dataset: str
    users: int
    rows: int


def points(*, full: bool) -> list[Point]:
    """Return all points with ``full``; else four of each figure."""
    users = range(1, 11) if full else (1, 2, 5, 10)
    counts = range(100, 1001, 100) if full else (100, 200, 500, 1000)
    found = []
    for dataset in ("MNIST", "Fashion-MNIST"):
        found += [Point("3", dataset, number, 100) for number in users]
        found += [Point("4", dataset, 5, rows) for rows in counts]
    return found


def run(job: tuple[Point, int], *, folder: Path) -> dict[str, float]:
    """Return the accuracy of every way in percent."""
    point, seed = job
    return scores(_loaded(point.dataset, folder), point, seed)


@cache
def _loaded(name: str, folder: Path) -> Dataset:
    return load(name, folder, 0)


def scores(dataset: Dataset, point: Point, seed: int) -> dict[str, float]:
    """Return the accuracy of every way in percent, on rows of the test set."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(dataset.train))[: point.users * point.rows]
    parts = [(dataset.train[rows], dataset.train_labels[rows]) for rows in np.array_split(order, point.users)]
    tested = rng.permutation(len(dataset.test))[:TESTED]
    test, truth = dataset.test[tested], dataset.test_labels[tested]
    classes = dataset.classes
    found = {
        "central": _accuracy(_trained(_pooled(parts), classes, seed), test, truth),
        "individual": _accuracy(_trained(parts[0], classes, seed), test, truth),
    }
    bases = [principal_directions(rows, LATENT_DIM, rng) for rows, _ in parts]
    for name, way in WAYS.items():
        anchor = draw_anchor(way.anchor, ANCHOR_ROWS, dataset.train.shape[1], rng)
        changes = way.align([anchor @ basis for basis in bases], rng)
        maps = [basis @ change for basis, change in zip(bases, changes, strict=True)]
        aligned = _pooled([(rows @ own, labels) for (rows, labels), own in zip(parts, maps, strict=True)])
        found[name] = _accuracy(_trained(aligned, classes, seed), test @ maps[0], truth)
        shift = aligned[0].mean(axis=0)
        scale = float(np.sqrt(aligned[0].var(axis=0).mean()))
        model = _trained(((aligned[0] - shift) / scale, aligned[1]), classes, seed)
        found[f"{name}, one scale"] = _accuracy(model, (test @ maps[0] - shift) / scale, truth)
    for name, epochs in LOCAL_EPOCHS.items():
        found[name] = _accuracy(averaged(parts, classes, epochs, seed), test, truth)
    return found


def averaged(parts: Sequence[Part], classes: int, epochs: int, seed: int) -> MLPClassifier:
    """Return the network of federated averaging; each user keeps the moments of its own Adam."""
    models = [_network(seed) for _ in parts]
    start = _network(seed).set_params(learning_rate_init=1e-12)  # weights that nobody has trained
    for model, (rows, labels) in zip([start, *models], [parts[0], *parts], strict=True):
        model.partial_fit(_narrow(rows), labels, classes=np.arange(classes))  # before it there are none
    weights = [array.copy() for array in (*start.coefs_, *start.intercepts_)]
    share = np.array([len(rows) for rows, _ in parts], dtype=np.float64)
    share /= share.sum()
    for _ in range(EPOCHS):
        sums = [np.zeros_like(array) for array in weights]
        for model, (rows, labels), part in zip(models, parts, share, strict=True):
            put_weights(model, weights)
            for _ in range(epochs):
                model.partial_fit(_narrow(rows), labels)
            for total, array in zip(sums, (*model.coefs_, *model.intercepts_), strict=True):
                total += part * array
        weights = sums
    put_weights(start, weights)
    return start


def _network(seed: int) -> MLPClassifier:
    return MLPClassifier(HIDDEN, batch_size=BATCH, random_state=seed)


def _trained(part: Part, classes: int, seed: int) -> MLPClassifier:
    rows, labels = part
    model = _network(seed)
    for _ in range(EPOCHS):
        model.partial_fit(_narrow(rows), labels, classes=np.arange(classes))
    return model


def _narrow(rows: Matrix) -> Any:
    """Return rows as the wire has them; a network is twice as fast on these."""
    return rows.astype(np.float32)


def _accuracy(model: MLPClassifier, rows: Matrix, truth: Labels) -> float:
    return 100 * float(np.mean(model.predict(_narrow(rows)) == truth))


def _pooled(parts: Sequence[Part]) -> Part:
    return np.vstack([rows for rows, _ in parts]), np.concatenate([labels for _, labels in parts])


def rows(point: Point, each: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Return one row for each way at a point of a figure."""
    found = []
    for way in each[0]:
        mean, half = interval([one[way] for one in each])
        found.append(
            {
                "table": f"users, Figure {point.figure}",
                "dataset": point.dataset,
                "users": point.users,
                "rows_per_user": point.rows,
                "method": way,
                "metric": "accuracy",
                "mean": round(mean, 2),
                "half_width": round(half, 2) if np.isfinite(half) else None,
                "seeds": len(each),
            }
        )
    return found


def measured(folder: Path, *, full: bool) -> list[dict[str, Any]]:
    """Run every point with every seed and return the rows."""
    jobs = [(point, seed) for point in points(full=full) for seed in range(SEEDS)]
    found: dict[Point, list[dict[str, float]]] = {}
    for (point, seed), each in zip(jobs, run_all(partial(run, folder=folder), jobs), strict=True):
        print(point, seed, {way: round(value, 1) for way, value in each.items()}, flush=True)
        found.setdefault(point, []).append(each)
    return [row for point, each in found.items() for row in rows(point, each)]


def measure(options: Options) -> Report:
    """Return the figures' points; without the real data, nothing."""
    begin = time.monotonic()
    report = Report("accuracy.users")
    if options.data is None:
        print("nothing was measured: these figures need --data DIR (docs/benchmarks.md)")
        return report
    report.rows = measured(options.data, full=options.full)
    report.conditions = {
        "score": "accuracy in percent on 1000 images, mean over seeds; 95 % t-interval",
        "paper": "its text gives no numbers; what it says of its figures stands in docs/methods.md",
        "processes": cores(),
        "seconds": round(time.monotonic() - begin),
    }
    return report


if __name__ == "__main__":
    sys.exit(main(measure))
