"""The data sets of the benchmarks as matrices: read from ``--data DIR``, or included in scikit-learn.

Every file is checked against the SHA-256 it had when the figures in docs/methods.md were measured, so that
a benchmark never runs on other data unnoticed. docs/benchmarks.md names the publishers.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]

SHA256: Final[Mapping[str, str]] = {
    "mnist/mnist_train60k.npz": "a053f604ce606963274dfe1a1a92ee243d95b5686279ff1a5ae08da4726dc2e3",
    "mnist/mnist_t10k.npz": "96ec6a9c413a1e20a45398cb23275e33c439c12ee65564d4b8ff0a0ef4d64f14",
    "fashion_mnist/fashion_train60k.npz": "519cdc25e59d0a170bdbd574c5ca00cc7ff7794b845310c786c4f346cebad77c",
    "fashion_mnist/fashion_test10k.npz": "3372dc142a34ae2ec0ac64854c06c903b4a8ff0b38f42bec01cdae1161f16db5",
    "adult/adult_train.csv.gz": "a833df349bf96e939cb2de65a084d3a21cd64c4781a95551430453ac6892bb3b",
    "adult/adult_test.csv.gz": "8b1e351af7a41f3745edeff5bf1aaf280319e11af13ee030b230d8ad83115396",
    "pima_diabetes/diabetes.csv.gz": "8d201a64433915f1253fa6c0c05f9f01d7b064a2b00875025b501262b8c4e3f9",
    "tcga_brca/tcga_brca.csv.gz": "fa87af457f0e9a487774759ceec1ecab97cfbbff47f980153bc7d7f39cd8e05f",
    "heart/heart_1025.csv.gz": "683aa47e2be0703572a8a1a50dfe5e8396f32239b3e229dd81b178f1a1bbcba5",
    "heart/heart_uci_4site.csv.gz": "59a42de61a937b57c012f88d0c7bbdbc3cded46f69b87db501df04fe337af976",
    "ist_stroke/ist.csv.gz": "dc1df8611cc5713083af5305f8feab3577340ae724a2df92a867ba7f8864ee43",
    "molecules/ames.csv.gz": "357a0b179b11731207ca9fb41cd4c19a9f16f81d3dbe0e4251c0504fe5eff654",
    "molecules/cyp2d6_veith.csv.gz": "888b639c3c038df802ccb9ed304f8a595218514e56f5a81d7e763e83d882a161",
    "molecules/cyp3a4_veith.csv.gz": "e4609f5ec95500a63aa29f0257d21a1c1b379d9f676206ed8ac118194a62ca2e",
    "molecules/tox21_sr_are.csv.gz": "711cdc37a89e1dde81f8b0c21f8cd04474ec31cacb6d0f356384ac66b2e3127c",
}
MOLECULES: Final[Mapping[str, str]] = {
    "AMES": "molecules/ames.csv.gz",
    "Tox21 SR-ARE": "molecules/tox21_sr_are.csv.gz",
    "CYP3A4": "molecules/cyp3a4_veith.csv.gz",
    "CYP2D6": "molecules/cyp2d6_veith.csv.gz",
}
FINGERPRINT_BITS, FINGERPRINT_RADIUS = 2048, 2
HELD_OUT: Final = 0.2
"""Share of the rows used only for testing, where the publisher made no split."""


class DataFileError(ValueError):
    """A data file is missing or is not the one the figures were measured on."""


@dataclass(frozen=True)
class Dataset:
    """Rows to divide among parties, and rows to test on.

    Attributes
    ----------
    name : str
    train, test : (n, m) ndarrays of float64
        Entries in [0, 1], scaled by ranges that do not depend on the rows.
    train_labels, test_labels : (n,) ndarrays of int
        Class numbers from 0.
    train_sites, test_sites : (n,) ndarrays of int, optional
        The hospital each row came from, where the data say so.
    columns : (m,) ndarray of int, optional
        The number of the table's column that each feature encodes, where the data set says so.
    """

    name: str
    train: Matrix
    train_labels: Labels
    test: Matrix
    test_labels: Labels
    train_sites: Labels | None = None
    test_sites: Labels | None = None
    columns: Labels | None = None

    @property
    def classes(self) -> int:
        return int(self.train_labels.max()) + 1


def read_checked(directory: Path, name: str) -> bytes:
    """Return the bytes of a data file; raise `DataFileError` if it is missing or a different one."""
    path = directory / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror}; docs/benchmarks.md lists it") from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise DataFileError(f"{path} has SHA-256 {found}, expected {SHA256[name]} (docs/benchmarks.md)")
    return content


def checked_path(directory: Path, name: str) -> Path:
    """Return the path of a data file for what reads a user's file, checked as `read_checked` does."""
    read_checked(directory, name)
    return directory / name


def read_table(directory: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a ``.csv.gz`` file, checked as `read_checked` does."""
    return _table(read_checked(directory, name))


def read_typed_table(directory: Path, name: str) -> pa.Table:
    """Return a ``.csv.gz`` file with the types that pyarrow sees in it, checked as `read_checked` does."""
    return pyarrow.csv.read_csv(io.BytesIO(gzip.decompress(read_checked(directory, name))))


def read_arrays(directory: Path, name: str) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` file, checked as `read_checked` does."""
    with np.load(io.BytesIO(read_checked(directory, name))) as stored:
        return {key: stored[key] for key in stored.files}


def mnist(directory: Path) -> Dataset:
    """Return MNIST in its official split, grey values divided by 255."""
    return _images("MNIST", directory, "mnist/mnist_train60k.npz", "mnist/mnist_t10k.npz")


def fashion_mnist(directory: Path) -> Dataset:
    """Return Fashion-MNIST, grey values divided by 255; its split is not the official one."""
    train, test = "fashion_mnist/fashion_train60k.npz", "fashion_mnist/fashion_test10k.npz"
    return _images("Fashion-MNIST", directory, train, test)


def molecules(directory: Path, name: str) -> Dataset:
    """Return a set of `MOLECULES` as Morgan fingerprints, a fixed fifth of each class held out.

    SMILES that RDKit cannot read are left out: 7 of Tox21's, none of the others'.
    """
    table = read_table(directory, MOLECULES[name])
    fingerprints = morgan_fingerprints([row["smiles"] for row in table])
    known = [index for index, bits in enumerate(fingerprints) if bits is not None]
    rows = np.array([fingerprints[index] for index in known], dtype=np.float64)
    return _split(name, rows, np.array([int(table[index]["y"]) for index in known]), seed=0)


def morgan_fingerprints(
    smiles: Sequence[str], *, bits: int = FINGERPRINT_BITS
) -> list[NDArray[np.uint8] | None]:
    """Return the bits of each molecule, None if it cannot be parsed. Needs the extra ``bench``."""
    from rdkit import Chem, rdBase
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=FINGERPRINT_RADIUS, fpSize=bits)
    with rdBase.BlockLogs():  # it would print a paragraph for each SMILES it cannot read
        parsed = [Chem.MolFromSmiles(text) for text in smiles]
    return [None if molecule is None else generator.GetFingerprintAsNumPy(molecule) for molecule in parsed]


def heart(directory: Path, seed: int = 0) -> Dataset:
    """Return the heart disease data of four hospitals (UCI); the label is any disease.

    ``seed`` decides which fifth of each class in each hospital is held out for testing.
    """
    table = read_table(directory, "heart/heart_uci_4site.csv.gz")
    for row in table:
        if row["chol"] and float(row["chol"]) == 0:  # how two of the hospitals wrote a missing value
            row["chol"] = ""
    ranges = {"age": (20, 80), "trestbps": (80, 200), "chol": (100, 400), "thalach": (60, 200)}
    ranges |= {"oldpeak": (-3, 6), "ca": (0, 3)}
    categories = {"sex": "0 1", "cp": "1 2 3 4", "fbs": "0 1", "restecg": "0 1 2"}
    categories |= {"exang": "0 1", "slope": "1 2 3", "thal": "3 6 7"}
    rows = _encode(table, ranges, categories)
    labels = np.array([int(row["label"]) for row in table])
    return _split("heart", rows, labels, seed, _numbered(row["site"] for row in table))


def stroke(directory: Path, seed: int = 0, *, least_patients: int = 100) -> Dataset:
    """Return the International Stroke Trial's hospitals with at least ``least_patients`` patients.

    The label is death or dependence after six months; only what was known at admission is a feature.
    """
    table = [row for row in read_table(directory, "ist_stroke/ist.csv.gz") if row["y_dead_or_dependent_6m"]]
    hospitals, patients = np.unique([row["HOSPNUM"] for row in table], return_counts=True)
    large = set(hospitals[patients >= least_patients])
    table = [row for row in table if row["HOSPNUM"] in large]
    ranges = {"RDELAY": (0, 48), "AGE": (16, 100), "RSBP": (70, 250)}
    categories = {"RCONSC": "F D U", "SEX": "F M", "STYPE": "LACS PACS POCS TACS OTH"}
    categories |= dict.fromkeys(("RSLEEP", "RATRIAL", "RCT", "RVISINF", "RHEP24", "RASP3"), "N Y")
    categories |= {f"RDEF{number}": "N Y C" for number in range(1, 9)}
    rows = _encode(table, ranges, categories)
    labels = np.array([int(row["y_dead_or_dependent_6m"]) for row in table])
    return _split("stroke", rows, labels, seed, _numbered(row["HOSPNUM"] for row in table))


def pima(directory: Path, seed: int = 0) -> Dataset:
    """Return the Pima diabetes table, each column divided by its largest value; a 0 stays a 0."""
    table = read_table(directory, "pima_diabetes/diabetes.csv.gz")
    labels = np.array([int(row.pop("Outcome")) for row in table])
    rows = np.array([[float(value) for value in row.values()] for row in table])
    return _split("pima", rows / rows.max(axis=0), labels, seed)


ADULT_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hours_per_week": (1, 100),
}


def adult(directory: Path) -> Dataset:
    """Return Adult in its publisher's split; the label is an income above 50,000 dollars.

    A category has one feature for each value in either file, and `?` is such a value.
    """
    files = ("adult/adult_train.csv.gz", "adult/adult_test.csv.gz")
    train, test = (read_table(directory, name) for name in files)
    both = [*train, *test]
    names = [name for name in both[0] if name not in ADULT_RANGES and name != "income"]
    words = {name: sorted({row[name] for row in both}) for name in names}
    features = [_encode(both, {name: found}, {}) for name, found in ADULT_RANGES.items()]
    for name, levels in words.items():
        place = {level: index for index, level in enumerate(levels)}
        features.append(np.eye(len(levels))[[place[row[name]] for row in both]])
    rows = np.hstack(features)
    labels = np.array([row["income"].startswith(">") for row in both], dtype=np.int64)
    columns = np.repeat(np.arange(len(features)), [each.shape[1] for each in features])
    count = len(train)
    return Dataset(
        "Adult", rows[:count], labels[:count], rows[count:], labels[count:], columns=columns.astype(np.int64)
    )


def digits(seed: int = 0) -> Dataset:
    """Return the 8 x 8 digits included in scikit-learn, grey values divided by 16."""
    rows, labels = _digits()
    return _split("digits", rows / 16, labels, seed)


def breast_cancer(seed: int = 0) -> Dataset:
    """Return scikit-learn's breast cancer table, each column divided by its largest value."""
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    return _split("breast cancer", rows / rows.max(axis=0), labels, seed)


@functools.cache
def _digits() -> tuple[Matrix, Labels]:
    """Return the table, read once: the search for a broken party needs it hundreds of times."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    return rows, labels


def _images(name: str, directory: Path, train: str, test: str) -> Dataset:
    parts = [read_arrays(directory, path) for path in (train, test)]
    (rows, labels), (test_rows, test_labels) = [
        (part["X"].reshape(len(part["y"]), -1) / 255.0, part["y"].astype(np.int64)) for part in parts
    ]
    return Dataset(name, rows, labels, test_rows, test_labels)


def _table(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(gzip.decompress(content).decode("utf-8"))))


def _encode(
    table: Sequence[Mapping[str, str]],
    ranges: Mapping[str, tuple[float, float]],
    categories: Mapping[str, str],
) -> Matrix:
    """Return numbers scaled by fixed ranges, and one column per category.

    A missing number is replaced by the middle of its range, a missing category by zeros. Nothing is
    estimated from the rows, so no hospital learns from another's.
    """
    columns = []
    for name, (low, high) in ranges.items():
        values = [float(row[name]) if row[name] else (low + high) / 2 for row in table]
        columns.append(np.clip((np.array(values) - low) / (high - low), 0, 1))
    for name, words in categories.items():
        found = [_without_fraction(row[name]) for row in table]
        columns += [np.array([value == word for value in found], dtype=np.float64) for word in words.split()]
    return np.stack(columns, axis=1)


def _without_fraction(value: str) -> str:
    return value.removesuffix(".0")


def _numbered(names: Iterable[str]) -> Labels:
    return np.unique(list(names), return_inverse=True)[1].astype(np.int64)


def _split(
    name: str, rows: Matrix, labels: NDArray[np.integer], seed: int, sites: Labels | None = None
) -> Dataset:
    """Hold out a fixed share of each class, in each site if there are sites."""
    groups = labels if sites is None else labels + (labels.max() + 1) * sites
    order = np.random.default_rng(seed).permutation(len(rows))
    tests = np.zeros(len(rows), dtype=bool)
    for group in np.unique(groups):
        members = order[groups[order] == group]
        tests[members[: round(HELD_OUT * len(members))]] = True
    numbers = labels.astype(np.int64)
    return Dataset(
        name,
        rows[~tests],
        numbers[~tests],
        rows[tests],
        numbers[tests],
        None if sites is None else sites[~tests],
        None if sites is None else sites[tests],
    )
