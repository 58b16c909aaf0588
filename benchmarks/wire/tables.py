"""The work for both sides: the same rows at the same parties, and one hold-out to score on.

Terms are those that `odc terms draft` writes for the lead's rows. The hand-picked terms of a second arm send
32-bit floats without noise, with a latent dimension and epochs that we chose after looking at the hold-outs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.data import checked_path, read_arrays
from odc_demo.corrections import corrected_draft
from odc_demo.tables import HOLD_OUT, breast_cancer, own_table, source_of
from protocol.table_schema import Schema
from user_client.sdk import draft_terms

LABEL: Final = "label"
EPOCHS: Final = 40
"""Of hand-picked terms: as many as there are federated rounds."""
IMAGE_EPOCHS: Final = 80
"""Of hand-picked terms: ten classes take longer to learn than two."""
MNIST_PARTIES, MNIST_ROWS, MNIST_HOLD_OUT = 10, 100, 2000
DIGITS_PARTIES = 5


@dataclass(frozen=True)
class Work:
    """One data set divided among its parties, the lead first, with the terms of the round."""

    name: str
    by_party: dict[str, pa.Table]
    hold_out: pa.Table
    agreed: dict[str, Any]
    """Fields of the terms: schema, latent dimension, model, and what else is not left out."""

    @property
    def parties(self) -> list[str]:
        return list(self.by_party)

    @property
    def schema(self) -> Schema:
        return Schema.model_validate(self.agreed["table_schema"], strict=False)

    @property
    def latent_dim(self) -> int:
        return int(self.agreed["latent_dim"])

    @property
    def features(self) -> int:
        """Return the number of encoded features, the paper's m."""
        return self.schema.width

    def terms(self) -> dict[str, Any]:
        """Return the draft of the terms the analyst publishes."""
        return {
            "title": f"Benchmark: {self.name}",
            "parties": self.parties,
            "lead": self.parties[0],
            "anchor": {"kind": "haar", "rows": self.features},
            **self.agreed,
            "hold_out": 0.0,  # as with Flower, all rows train: what both are scored on is apart
        }


def bundled() -> list[Work]:
    """Return the data sets that need no download, with drafted terms."""
    return [_breast_cancer(), _digits()]


def real(data: Path) -> list[Work]:
    """Return MNIST and the heart data of four hospitals, from a directory as in docs/benchmarks.md."""
    return [_mnist(data), _heart(data)]


def hand_picked(data: Path | None) -> list[Work]:
    """Return the same data sets with terms that nobody gets who does not write them."""
    works = [
        _with(_breast_cancer(), latent_dim=15, epochs=EPOCHS),
        _with(_digits(), latent_dim=20, epochs=IMAGE_EPOCHS, highest=16),
    ]
    if data:
        works.append(_with(_mnist(data), latent_dim=50, epochs=IMAGE_EPOCHS, highest=255))
        works.append(_with(_heart(data), latent_dim=13, epochs=EPOCHS))
    return works


def _drafted(
    name: str, by_party: dict[str, pa.Table], hold_out: pa.Table, label: str, exclude: tuple[str, ...] = ()
) -> Work:
    """Return the work under what `odc terms draft` writes, corrected until all tables fit."""
    corrected = corrected_draft(by_party, label, exclude)
    drafted = draft_terms(
        by_party[next(iter(by_party))],
        label=label,
        exclude=exclude,
        classes=corrected.classes,
        others=corrected.others,
        parties=list(by_party),
        title=f"Benchmark: {name}",
    )
    return Work(name, by_party, hold_out, drafted.content)


def _with(work: Work, *, latent_dim: int, epochs: int, highest: int | None = None) -> Work:
    """Return the work under hand-picked terms; of images, each pixel has the range of all."""
    schema = work.agreed["table_schema"]
    if highest is not None:
        names = [name for name in work.hold_out.column_names if name != LABEL]
        columns = [{"kind": "numeric", "name": name, "low": 0, "high": highest} for name in names]
        schema = {"columns": columns, "label_column": schema["label_column"]}
    agreed = {"latent_dim": latent_dim, "model": {"kind": "mlp", "epochs": epochs}, "table_schema": schema}
    return Work(f"{work.name}, hand-picked terms", work.by_party, work.hold_out, agreed)


def _breast_cancer() -> Work:
    tables = breast_cancer()
    return _drafted("breast_cancer", tables.by_hospital, tables.hold_out, tables.label, tables.exclude)


def _heart(data: Path) -> Work:
    path = checked_path(data, "heart/heart_uci_4site.csv.gz")
    tables = own_table(source_of(path), LABEL, "site", ("num",))
    return _drafted("heart", tables.by_hospital, tables.hold_out, tables.label, tables.exclude)


def large_uplinks(rows: int) -> Work:
    """Return made-up rows for two parties whose uplinks have ``400 * rows`` bytes; only the size matters."""
    features, rng = 100, np.random.default_rng(0)
    names = [f"x{index}" for index in range(features)]

    def table(count: int) -> pa.Table:
        values = rng.uniform(-1, 1, (count, features)).round(4)
        labels = np.where(values[:, :10].sum(axis=1) > 0, "yes", "no")
        return pa.table({**dict(zip(names, values.T, strict=True)), LABEL: labels})

    schema = {
        "columns": [{"kind": "numeric", "name": name, "low": -1, "high": 1} for name in names],
        "label_column": {"name": "label", "classes": ["no", "yes"]},
    }
    by_party = {"party-0": table(rows), "party-1": table(rows)}
    model = {"kind": "logistic", "epochs": 50}
    agreed = {"latent_dim": features, "model": model, "table_schema": schema}
    return Work("large_uplinks", by_party, table(1000), agreed)


def _digits() -> Work:
    """Return scikit-learn's digits, 1797 rows of 64 pixels, divided evenly."""
    rows, labels = load_digits(return_X_y=True)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=HOLD_OUT, stratify=labels, random_state=0
    )
    parts = np.array_split(np.random.default_rng(0).permutation(train), DIGITS_PARTIES)
    return _images("digits", rows, labels, parts, test)


def _mnist(directory: Path) -> Work:
    """Return MNIST in the paper's setting: 10 parties of 100 rows, drawn from the training images."""
    stored, held_out = (read_arrays(directory, f"mnist/mnist_{part}.npz") for part in ("train60k", "t10k"))
    rows, labels, test_rows, test_labels = stored["X"], stored["y"], held_out["X"], held_out["y"]
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(labels), MNIST_PARTIES * MNIST_ROWS, replace=False)
    test = rng.choice(len(test_labels), MNIST_HOLD_OUT, replace=False)
    all_rows = np.vstack([rows[chosen], test_rows[test]])
    all_labels = np.concatenate([labels[chosen], test_labels[test]])
    parts = np.array_split(np.arange(len(chosen)), MNIST_PARTIES)
    return _images("mnist", all_rows, all_labels, parts, len(chosen) + np.arange(len(test)))


def _images(
    name: str,
    rows: NDArray[Any],
    labels: NDArray[Any],
    parts: list[NDArray[np.intp]],
    test: NDArray[np.intp],
) -> Work:
    """Return the work of images: one column per pixel."""
    names = [f"p{index}" for index in range(rows.shape[1])]

    def table(chosen: NDArray[np.intp]) -> pa.Table:
        pixels = {column: rows[chosen, index] for index, column in enumerate(names)}
        return pa.table({**pixels, LABEL: labels[chosen].astype(str)})

    by_party = {f"party-{index}": table(part) for index, part in enumerate(parts)}
    return _drafted(name, by_party, table(test), LABEL)
