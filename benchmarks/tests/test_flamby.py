"""FLamby's tables are read as it reads them, and played by drafted terms; on files made up for the test."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from benchmarks import data
from benchmarks.flamby import Centre, Job, heart, measure, run, tcga
from benchmarks.report import Options

NAMES = ("heart/heart_uci_4site.csv.gz", "tcga_brca/tcga_brca.csv.gz")


def written(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    plain = path.with_suffix("")
    pyarrow.csv.write_csv(table, plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with tables of our own, whose checksums stand for those of the real ones."""
    digests = {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in NAMES}
    monkeypatch.setattr(data, "SHA256", digests)
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top, rng = tmp_path_factory.mktemp("flamby"), np.random.default_rng(0)
    ill = rng.integers(0, 2, 240)
    told = ill + 0.5 * rng.standard_normal(240)
    patients = {
        "site": np.repeat(["a", "b", "c", "d"], 60),
        "age": 50 + 10 * told,
        "chol": pa.array(told, mask=np.arange(240) % 10 == 0),
        **{name: rng.standard_normal(240) for name in ("slope", "ca", "thal", "num")},
        "label": ill,
    }
    written(top / "heart" / "heart_uci_4site.csv.gz", pa.table(patients))
    risk = rng.standard_normal(360)
    until, end = rng.exponential(500 * np.exp(-risk)), rng.uniform(100, 900, 360)
    parts = [f"{'test' if index % 5 == 0 else 'train'}_{index % 6}" for index in rng.permutation(360)]
    tumours = {
        **{name: ["x"] * 360 for name in ("tss", "source_site", "region", "fold")},
        "fold2": parts,
        "age": risk,
        "other": rng.standard_normal(360),
        "E": (until <= end).astype(float),
        "T": np.minimum(until, end),
    }
    written(top / "tcga_brca" / "tcga_brca.csv.gz", pa.table(tumours))
    return top


def test_rows_with_gaps_and_dropped_columns_are_left_out(folder: Path) -> None:
    centres = heart(folder, 0)
    assert [len(centre.train) + len(centre.test) for centre in centres] == [54] * 4
    assert centres[0].train.column_names == ["age", "chol", "label"]
    assert {len(centre.test) for centre in centres} == {19}  # a third


def test_the_split_of_the_tumours_is_flambys(folder: Path) -> None:
    centres = tcga(folder)
    assert len(centres) == 6
    assert sum(len(centre.train) + len(centre.test) for centre in centres) == 360
    assert centres[0].train.column_names == ["age", "other", "E", "T"]


@pytest.mark.parametrize(("table", "least"), [("heart", 70), ("tcga", 60)])
def test_both_are_played_by_drafted_terms(folder: Path, table: str, least: float) -> None:
    found = run(Job(table, 0), folder)
    assert found["features"] == 2
    assert least < found["together_undefended"] <= 100
    assert abs(found["together_undefended"] - found["central"]) < 10


@pytest.mark.parametrize("read", [lambda folder: heart(folder, 0), tcga])
def test_another_file_than_the_one_measured_is_refused(
    made: Path, read: Callable[[Path], list[Centre]]
) -> None:
    with pytest.raises(data.DataFileError, match="expected"):
        read(made)


def test_without_the_tables_nothing_is_claimed() -> None:
    assert measure(Options(full=False, data=None)).claims == []
