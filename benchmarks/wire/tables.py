"""The work for both sides: the same rows at the same parties, and one hold-out to score on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from odc_demo.corrections import corrected_draft
from odc_demo.tables import HOLD_OUT, breast_cancer, own_table
from protocol.table_schema import Schema

EPOCHS = 40
"""As many as there are federated rounds."""
IMAGE_EPOCHS = 80
"""Ten classes take longer to learn than two."""
MNIST_PARTIES, MNIST_ROWS, MNIST_HOLD_OUT = 10, 100, 2000
DIGITS_PARTIES = 5


@dataclass(frozen=True)
class Work:
    """One data set divided among its parties, the lead first, with the terms' schema and latent dimension."""

    name: str
    by_party: dict[str, pa.Table]
    hold_out: pa.Table
    table_schema: dict[str, Any]
    latent_dim: int
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "mlp", "epochs": EPOCHS})

    @property
    def parties(self) -> list[str]:
        return list(self.by_party)

    @property
    def features(self) -> int:
        """Return the number of encoded features, the paper's m."""
        return Schema.model_validate(self.table_schema, strict=False).width

    def terms(self) -> dict[str, Any]:
        """Return the draft of the terms the analyst publishes."""
        return {
            "title": f"Benchmark: {self.name}",
            "parties": self.parties,
            "lead": self.parties[0],
            "latent_dim": self.latent_dim,
            "anchor": {"kind": "haar", "rows": self.features},
            "table_schema": self.table_schema,
            "model": self.model,
        }


def bundled() -> list[Work]:
    """Return the data sets that need no download."""
    tables = breast_cancer()
    schema = corrected_draft(tables.by_hospital, tables.label, tables.exclude).content()
    return [
        Work("breast_cancer", tables.by_hospital, tables.hold_out, schema, 15),
        _digits(),
    ]


def real(data: Path) -> list[Work]:
    """Return MNIST and the heart data of four hospitals, from a directory as in docs/benchmarks.md."""
    tables = own_table(data / "heart" / "heart_uci_4site.csv.gz", "label", "site", ("num",))
    schema = corrected_draft(tables.by_hospital, tables.label, tables.exclude).content()
    heart = Work("heart", tables.by_hospital, tables.hold_out, schema, 13)
    return [_mnist(data / "mnist"), heart]


def large_uplinks(rows: int) -> Work:
    """Return made-up rows for two parties whose uplinks have ``400 * rows`` bytes; only the size matters."""
    features, rng = 100, np.random.default_rng(0)
    names = [f"x{index}" for index in range(features)]

    def table(count: int) -> pa.Table:
        values = rng.uniform(-1, 1, (count, features)).round(4)
        labels = np.where(values[:, :10].sum(axis=1) > 0, "yes", "no")
        return pa.table({**dict(zip(names, values.T, strict=True)), "label": labels})

    schema = {
        "columns": [{"kind": "numeric", "name": name, "low": -1, "high": 1} for name in names],
        "label_column": {"name": "label", "classes": ["no", "yes"]},
    }
    by_party = {"party-0": table(rows), "party-1": table(rows)}
    return Work("large_uplinks", by_party, table(1000), schema, features, {"kind": "logistic", "epochs": 50})


def _digits() -> Work:
    """Return scikit-learn's digits, 1797 rows of 64 pixels, divided evenly."""
    rows, labels = load_digits(return_X_y=True)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=HOLD_OUT, stratify=labels, random_state=0
    )
    parts = np.array_split(np.random.default_rng(0).permutation(train), DIGITS_PARTIES)
    return _images("digits", rows, labels, parts, test, highest=16, latent_dim=20)


def _mnist(directory: Path) -> Work:
    """Return MNIST in the paper's setting: 10 parties of 100 rows, drawn from the training images."""
    with np.load(directory / "mnist_train60k.npz") as stored:
        rows, labels = stored["X"], stored["y"]
    with np.load(directory / "mnist_t10k.npz") as stored:
        test_rows, test_labels = stored["X"], stored["y"]
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(labels), MNIST_PARTIES * MNIST_ROWS, replace=False)
    test = rng.choice(len(test_labels), MNIST_HOLD_OUT, replace=False)
    all_rows = np.vstack([rows[chosen], test_rows[test]])
    all_labels = np.concatenate([labels[chosen], test_labels[test]])
    parts = np.array_split(np.arange(len(chosen)), MNIST_PARTIES)
    return _images(
        "mnist", all_rows, all_labels, parts, len(chosen) + np.arange(len(test)), highest=255, latent_dim=50
    )


def _images(
    name: str,
    rows: NDArray[Any],
    labels: NDArray[Any],
    parts: list[NDArray[np.intp]],
    test: NDArray[np.intp],
    *,
    highest: int,
    latent_dim: int,
) -> Work:
    """Return the work of images: one column per pixel, with the pixel's range."""
    names = [f"p{index}" for index in range(rows.shape[1])]

    def table(chosen: NDArray[np.intp]) -> pa.Table:
        pixels = {column: rows[chosen, index] for index, column in enumerate(names)}
        return pa.table({**pixels, "label": labels[chosen].astype(str)})

    schema = {
        "columns": [{"kind": "numeric", "name": column, "low": 0, "high": highest} for column in names],
        "label_column": {"name": "label", "classes": [str(digit) for digit in range(10)]},
    }
    return Work(
        name,
        {f"party-{index}": table(part) for index, part in enumerate(parts)},
        table(test),
        schema,
        latent_dim,
        {"kind": "mlp", "epochs": IMAGE_EPOCHS},
    )
