"""What shorter numbers on the wire cost: bytes and accuracy of every number type the terms offer.

Uses one table per party, their bases, a Haar anchor, the analyst's alignment and its network, all with the
product's own functions but in one process. Each number type sees the same rows, bases and seeds, so its
accuracy is compared with that of f4 pair by pair. Breast cancer and digits are included in scikit-learn,
MNIST needs ``--data``. "alike" parties have rows drawn at random; "two classes": rows of two classes each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from analyst_server.alignment import align
from analyst_server.training.metrics import score
from analyst_server.training.mlp import Mlp
from analyst_server.training.models import fit
from benchmarks.data import read_arrays
from benchmarks.report import Options, Report, main
from metering.formulas import FORMULA_BITS, uplink
from protocol.arrays import dequantise, quantise
from protocol.terms import RowType
from user_client.custody.keystream import KeyStream
from user_client.secret.basis import draw_secret_basis
from user_client.secret.expansion import expand_anchor

Matrix = NDArray[Any]
NUMBER_TYPES: Final = get_args(RowType)
REFERENCE: Final = "f4"
SEEDS, FULL_SEEDS = 5, 20
HOLD_OUT = 0.3


@dataclass(frozen=True)
class Work:
    """A table, how it is divided, and how far it is reduced."""

    name: str
    features: Matrix
    labels: Matrix
    hold_out: tuple[Matrix, Matrix] | None
    parties: int
    rows: int
    latent_dim: int
    split: str = "alike"

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1


def measure(options: Options) -> Report:
    """Run every number type on every table and return the accuracy lost and the bytes saved."""
    seeds = FULL_SEEDS if options.full else SEEDS
    found = Report(
        "encodings", conditions={"seeds": seeds, "model": "mlp, 256 units", "alignment": "isotropic"}
    )
    for work in works(options.data):
        rounds = [accuracies(work, seed) for seed in range(seeds)]
        for number_type in NUMBER_TYPES:
            lost = [100 * (one[REFERENCE] - one[number_type]) for one in rounds]
            row = {
                "data": work.name,
                "split": work.split,
                "parties": work.parties,
                "latent_dim": work.latent_dim,
                "rep_dtype": number_type,
                "accuracy": float(np.mean([one[number_type] for one in rounds])),
                "points_lost": float(np.mean(lost)),
                "standard_error": float(np.std(lost, ddof=1) / np.sqrt(seeds)),
                "uplink_payload_over_formula": payload_over_formula(work, number_type),
            }
            found.rows.append(row)
            print(
                f"{work.name:<14} {work.split:<12} {number_type}  accuracy {row['accuracy']:.4f}"
                f"  lost {row['points_lost']:+.3f} +- {row['standard_error']:.3f} points"
                f"  uplink / formula (3) {row['uplink_payload_over_formula']:.3f}"
            )
    for number_type in ("f2", "i1"):
        mine = [row for row in found.rows if row["rep_dtype"] == number_type]
        worst = max(row["points_lost"] for row in mine)
        found.claim(f"{number_type}_worst_points_lost", worst, "points", "<=", 0.25)
        largest = max(row["uplink_payload_over_formula"] for row in mine)
        bound = {"f2": 0.52, "i1": 0.3}[number_type]
        found.claim(f"{number_type}_uplink_over_formula", largest, "ratio", "<=", bound)
    return found


def works(data: Path | None) -> Iterator[Work]:
    """Yield the tables and how they are divided; MNIST only with real data."""
    cancer, digits = load_breast_cancer(), load_digits()
    yield Work("breast cancer", cancer.data, cancer.target, None, 5, 79, 15)
    for split in ("alike", "two classes"):
        yield Work("digits", digits.data, digits.target, None, 10, 100, 20, split)
    if data is None:
        return
    train, test = (read_arrays(data, f"mnist/mnist_{part}.npz") for part in ("train60k", "t10k"))
    for split in ("alike", "two classes"):
        yield Work("mnist", train["X"], train["y"], (test["X"], test["y"]), 10, 100, 100, split)


def accuracies(work: Work, seed: int) -> dict[str, float]:
    """Return the mean accuracy of the parties' predictions for each number type."""
    rng = np.random.default_rng(seed)
    (rows, labels), (test_rows, test_labels) = _divide(work, seed)
    parts = _parts(work, labels, rng)
    anchor = expand_anchor("haar", _stream(seed, 0), rows=rows.shape[1], features=rows.shape[1])
    bases = [
        draw_secret_basis(rows[part], work.latent_dim, _stream(seed, party + 1))
        for party, part in enumerate(parts)
    ]
    found = {}
    for number_type in NUMBER_TYPES:
        changes = align(
            "isotropic",
            [on_the_wire(anchor @ basis, number_type) for basis in bases],
            anchor_is_isotropic=True,
            rng=np.random.default_rng(0),
        ).changes_of_basis
        reps = [
            on_the_wire(rows[part] @ basis, number_type) for part, basis in zip(parts, bases, strict=True)
        ]
        aligned = np.concatenate(
            [rep @ change.astype(rep.dtype) for rep, change in zip(reps, changes, strict=True)]
        )
        model = fit(Mlp(seed=seed), aligned, labels[np.concatenate(parts)], work.classes)
        right = [
            score(test_labels, model.pipeline.predict_proba(test_rows @ basis @ change))["accuracy"]
            for basis, change in zip(bases, changes, strict=True)
        ]
        found[number_type] = float(np.mean(right))
    return found


def on_the_wire(matrix: Matrix, number_type: str) -> Matrix:
    """Return what the analyst computes with after a matrix was sent in a number type."""
    if number_type == "i1":
        return dequantise(*quantise(matrix))
    sent = matrix.astype(number_type)
    return sent if sent.itemsize >= 4 else sent.astype(np.float32)


def payload_over_formula(work: Work, number_type: str) -> float:
    """Return the bytes of one uplink's arrays, labels and scales included, over formula (3) at 32 bits."""
    shape = (work.rows + work.features.shape[1], work.latent_dim)
    scales = 2 * 4 * work.latent_dim if number_type == "i1" else 0
    payload = np.dtype(number_type).itemsize * shape[0] * shape[1] + work.rows + scales
    formula = uplink(
        rows=work.rows, anchor_rows=work.features.shape[1], latent_dim=work.latent_dim, bits=FORMULA_BITS
    )
    return float(payload / formula.total_bytes)


def _divide(work: Work, seed: int) -> tuple[tuple[Matrix, Matrix], tuple[Matrix, Matrix]]:
    """Return rows and labels for training and for testing, both scaled by the ranges of the first."""
    if work.hold_out is None:
        train, test, labels, test_labels = train_test_split(
            work.features, work.labels, test_size=HOLD_OUT, stratify=work.labels, random_state=seed
        )
    else:
        (train, labels), (test, test_labels) = (work.features, work.labels), work.hold_out
    low, high = train.min(axis=0).astype(float), train.max(axis=0).astype(float)
    width = np.where(high > low, high - low, 1)
    scaled = [np.clip((part - low) / width, 0, 1) * 2 - 1 for part in (train, test)]
    return (scaled[0], labels.astype(np.int64)), (scaled[1], test_labels.astype(np.int64))


def _parts(work: Work, labels: Matrix, rng: np.random.Generator) -> list[Matrix]:
    """Return the row numbers of each party."""
    if work.split == "alike":
        return list(rng.permutation(len(labels))[: work.parties * work.rows].reshape(work.parties, work.rows))
    pools = {k: list(rng.permutation(np.flatnonzero(labels == k))) for k in range(work.classes)}
    return [
        np.array([pools[(party + k) % work.classes].pop() for k in (0, 1) for _ in range(work.rows // 2)])
        for party in range(work.parties)
    ]


def _stream(seed: int, number: int) -> Any:
    return KeyStream(bytes([seed, number]) * 16, "odc/benchmarks/encodings").read


if __name__ == "__main__":
    sys.exit(main(measure))
