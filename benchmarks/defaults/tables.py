"""Tables as an institution has them: columns of numbers and words, nothing encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.data import Labels
from protocol.table_schema import CategoricalColumn, LevelsColumn, NumericColumn, Schema

LABEL: Final = "label"
MOST_ROWS: Final = 6000
"""A larger table is cut to so many rows, drawn with a fixed seed."""
FINGERPRINT_BITS: Final = 256
MOST_IMAGES: Final = 12_500


@dataclass(frozen=True)
class Source:
    """One table; ``sites`` says which institution a row came from, where the data do."""

    name: str
    table: pa.Table
    sites: Labels | None = None

    @property
    def labels(self) -> Labels:
        """The class numbers."""
        return np.unique(self.table[LABEL].to_numpy(zero_copy_only=False), return_inverse=True)[1]


def bundled() -> dict[str, Callable[[], Source]]:
    """Return the tables that need no download: scikit-learn's, and made-up ones with heavy tails."""
    names = ("breast_cancer", "digits", "wine", "diabetes")
    return {
        **{name: partial(_scikit_learn, name) for name in names},
        **{f"lognormal_{sigma}": partial(heavy_tails, sigma) for sigma in (1, 2, 3)},
    }


def real(folder: Path) -> dict[str, Callable[[], Source]]:
    """Return the tables in a directory as in docs/benchmarks.md."""
    loaders = {"heart": _heart, "stroke": _stroke, "adult": _adult}
    loaders |= {"pima": _pima, "tcga": _tcga, "ames": _ames, "mnist": _mnist}
    loaders |= {"stroke_hospitals": partial(_stroke, least_patients=1)}
    return {name: partial(load, folder) for name, load in loaders.items()}


def heavy_tails(sigma: float, *, rows: int = 4000, columns: int = 16) -> Source:
    """Return a table half of whose columns are log-normal, with a label that the first of them carries.

    Parameters
    ----------
    sigma : float
        Standard deviation of the logarithm: the tail index.
    """
    rng = np.random.default_rng([7, rows, columns])
    mixing = np.eye(columns) + 0.3 * rng.standard_normal((columns, columns)) / np.sqrt(columns)
    latent = rng.standard_normal((rows, columns)) @ mixing
    chance = 1 / (1 + np.exp(-(2.5 * latent[:, 0] + 0.7 * latent[:, 1] - 0.5 * latent[:, -1])))
    values = latent.copy()
    values[:, : columns // 2] = np.exp(sigma * values[:, : columns // 2])
    label = np.where(rng.random(rows) < chance, "yes", "no")
    return Source(f"lognormal_{sigma:g}", _of_matrix(values, label))


def _scikit_learn(name: str) -> Source:
    import sklearn.datasets

    values, label = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":  # progression of the disease, above its median or not
        label = label > np.median(label)
    return Source(name, _of_matrix(values, np.array([f"class {int(value)}" for value in label])))


def _of_matrix(values: NDArray[Any], label: NDArray[Any]) -> pa.Table:
    columns = {f"x{index}": column for index, column in enumerate(values.T)}
    return pa.table({**columns, LABEL: label})


def _heart(folder: Path) -> Source:
    rows = data.read_table(folder, "heart/heart_uci_4site.csv.gz")
    return _source("heart", rows, "label", exclude=("num",), site="site")


def _stroke(folder: Path, least_patients: int = 200) -> Source:
    rows = [row for row in data.read_table(folder, "ist_stroke/ist.csv.gz") if row["y_dead_or_dependent_6m"]]
    hospitals, patients = np.unique([row["HOSPNUM"] for row in rows], return_counts=True)
    large = set(hospitals[patients >= least_patients])
    names = ["RDELAY", "AGE", "RSBP", "RCONSC", "SEX", "STYPE", "RSLEEP", "RATRIAL", "RCT", "RVISINF"]
    names += ["RHEP24", "RASP3", *(f"RDEF{number}" for number in range(1, 9))]
    kept = [row for row in rows if row["HOSPNUM"] in large]
    wanted = (*names, "y_dead_or_dependent_6m", "HOSPNUM")
    exclude = tuple(name for name in kept[0] if name not in wanted)
    return _source("stroke", kept, "y_dead_or_dependent_6m", exclude=exclude, site="HOSPNUM")


def _adult(folder: Path) -> Source:
    return _source("adult", _cut(data.read_table(folder, "adult/adult_train.csv.gz")), "income")


def _pima(folder: Path) -> Source:
    return _source("pima", data.read_table(folder, "pima_diabetes/diabetes.csv.gz"), "Outcome")


def _tcga(folder: Path) -> Source:
    rows = [row for row in data.read_table(folder, "tcga_brca/tcga_brca.csv.gz") if row["region"] != "Other"]
    outside = ("T", "tss", "source_site", "fold", "fold2", "pid", "center")
    exclude = tuple(name for name in outside if name in rows[0])
    return _source("tcga", rows, "E", exclude=exclude, site="region")


def _ames(folder: Path) -> Source:
    rows = data.read_table(folder, "molecules/ames.csv.gz")
    fingerprints = data.morgan_fingerprints([row["smiles"] for row in rows], bits=FINGERPRINT_BITS)
    known = [(bits, row["y"]) for bits, row in zip(fingerprints, rows, strict=True) if bits is not None]
    kept = _cut(known)
    return Source("ames", _of_matrix(np.array([bits for bits, _ in kept]), np.array([y for _, y in kept])))


def _mnist(folder: Path) -> Source:
    images = data.mnist(folder)
    chosen = np.random.default_rng(0).permutation(len(images.train))[:MOST_IMAGES]
    labels = np.array([f"class {digit}" for digit in images.train_labels[chosen]])
    return Source("mnist", _of_matrix(images.train[chosen], labels))


def _cut(rows: list[Any]) -> list[Any]:
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return [rows[index] for index in sorted(chosen)]


def _source(
    name: str,
    rows: Sequence[Mapping[str, str]],
    label: str,
    *,
    exclude: Sequence[str] = (),
    site: str | None = None,
) -> Source:
    names = [column for column in rows[0] if column and column not in (label, site, *exclude)]
    columns = {column: [row[column] for row in rows] for column in names}
    table = pa.table({**columns, LABEL: [row[label] for row in rows]})
    sites = None if site is None else np.unique([row[site] for row in rows], return_inverse=True)[1]
    return Source(name, table, sites)


def for_all_members(schema: Schema, source: Source) -> Schema:
    """Return a schema drafted by one member with the levels and ranges of every member's rows.

    So the members would correct it, after `odc terms check`. A column with a level for all other texts needs
    no correction.

    Parameters
    ----------
    source : Source
        The rows that the members check: whatever it has besides shapes the schema as well.
    """
    return schema.model_copy(
        update={"columns": tuple(_widened(column, schema, source) for column in schema.columns)}
    )


def levels_added(drafted: Schema, corrected: Schema) -> int:
    """Return how many levels a corrected schema has that the draft has not."""
    return sum(
        len(after.levels) - len(before.levels)
        for before, after in zip(drafted.columns, corrected.columns, strict=True)
        if isinstance(before, CategoricalColumn | LevelsColumn)
        and isinstance(after, CategoricalColumn | LevelsColumn)
    )


def of_known_levels(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the rows all of whose levels the schema has: `odc predict` refuses any other."""
    known = np.ones(table.num_rows, np.bool_)
    for column in schema.columns:
        if isinstance(column, CategoricalColumn | LevelsColumn) and not _takes_others(column):
            texts = {*column.levels, *schema.missing_in(column)}
            known &= [
                field is None or str(field).strip() in texts for field in table[column.name].to_pylist()
            ]
    return table.filter(pa.array(known))


def raw_rows(table: pa.Table, schema: Schema) -> NDArray[Any]:
    """Return rows as trees take them: numbers as they are, an empty field as NaN, 0/1 for each level."""
    columns = []
    for column in schema.columns:
        texts = [
            None if field is None or str(field).strip() in schema.missing else str(field).strip()
            for field in table[column.name].to_pylist()
        ]
        levels = getattr(column, "levels", None)
        if levels is not None:
            columns += [[float(text == level) for text in texts] for level in levels]
        else:
            columns.append([np.nan if text is None else float(text) for text in texts])
    return np.array(columns, dtype=np.float64).T


def _widened(column: Any, schema: Schema, source: Source) -> Any:
    fields = source.table[column.name].drop_null().to_pylist()
    texts = {str(field).strip() for field in fields} - set(schema.missing)
    if isinstance(column, NumericColumn):
        numbers = [float(text) for text in texts]
        return column.model_copy(update={"low": min(numbers), "high": max(numbers)})
    if not isinstance(column, CategoricalColumn | LevelsColumn) or _takes_others(column):
        return column
    more = sorted(texts - set(column.levels))
    update: dict[str, Any] = {"levels": (*column.levels, *more)}
    if isinstance(column, LevelsColumn):
        update["shares"] = (*column.shares, *[0.0] * len(more))
    return column.model_copy(update=update)


def _takes_others(column: CategoricalColumn | LevelsColumn) -> bool:
    """Return whether one level of a column takes every text that is not listed."""
    return isinstance(column, LevelsColumn) and column.other is not None
