import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
HEART = "heart/heart_uci_4site.csv.gz"
DATA_FILE = re.compile(r'\.csv\.gz"|mnist\w*\{?\w*\}?\.npz"')
CHECKED = re.compile(r"(read_(checked|table|typed_table|arrays)|checked_path)\(")
STROKE = "ist_stroke/ist.csv.gz"


def _write(directory: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(text.encode())
    (directory / name).parent.mkdir(parents=True)
    (directory / name).write_bytes(content)
    monkeypatch.setattr(data, "SHA256", {name: hashlib.sha256(content).hexdigest()})


def test_a_file_that_is_not_the_one_measured_is_refused(tmp_path: Path) -> None:
    (tmp_path / "heart").mkdir()
    (tmp_path / HEART).write_bytes(b"something else")
    with pytest.raises(data.DataFileError, match="expected 59a42de6"):
        data.heart(tmp_path)


def test_a_missing_file_names_the_page_that_lists_it(tmp_path: Path) -> None:
    with pytest.raises(data.DataFileError, match=r"mnist_train60k\.npz.*docs/benchmarks\.md"):
        data.mnist(tmp_path)


def test_no_program_reads_a_data_file_past_its_checksum() -> None:
    """Whoever names a data file hands the name to `read_table`, or to another that checks it."""
    past = set()
    for path in (DOCUMENT.parents[1] / "benchmarks").rglob("*.py"):
        name = str(path.relative_to(DOCUMENT.parents[1] / "benchmarks"))
        if name == "data.py" or name.startswith(("tests/", "flower/")):
            continue
        lines = [line for line in path.read_text().splitlines() if DATA_FILE.search(line)]
        if not all(CHECKED.search(line) for line in lines):
            past.add(name)
    assert not past


@pytest.mark.parametrize("name", data.SHA256)
def test_every_checksum_stands_in_the_document(name: str) -> None:
    assert f"| `{name}` | `{data.SHA256[name]}` |" in DOCUMENT.read_text()


@pytest.mark.parametrize("load", [data.digits, data.breast_cancer])
def test_bundled_data_lie_between_0_and_1_and_hold_out_a_fifth_of_each_class(
    load: Callable[[int], data.Dataset],
) -> None:
    dataset = load(3)
    for rows in (dataset.train, dataset.test):
        assert rows.min() >= 0
        assert rows.max() <= 1
    for label in range(dataset.classes):
        held_out, kept = np.sum(dataset.test_labels == label), np.sum(dataset.train_labels == label)
        assert held_out == round(data.HELD_OUT * (held_out + kept))


def test_another_seed_holds_out_other_rows() -> None:
    assert not np.array_equal(data.digits(0).test, data.digits(1).test)


def test_heart_keeps_hospitals_apart_and_reads_cholesterol_0_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "site,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num,label\n"
    known = "a,50,1,4,140,250,0.0,2,130,0,1.5,2,,3,0,0\n"
    unknown = "b,50,1,4,140,0,0.0,2,130,0,1.5,2,,3,1,1\n"
    _write(tmp_path, HEART, header + 4 * known + 4 * unknown, monkeypatch)
    dataset = data.heart(tmp_path)
    assert dataset.train_sites is not None
    assert np.bincount(dataset.train_sites).tolist() == [3, 3]
    assert np.array_equal(dataset.train_labels, dataset.train_sites)
    # 250 is the middle of the range, so both hospitals' rows come out the same
    assert np.all(dataset.train == dataset.train[0])


def test_adult_has_its_publishers_split_and_says_which_column_a_feature_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "age,workclass,fnlwgt,education,education_num,capital_gain,capital_loss,hours_per_week,income\n"
    lines = ["17,Private,0,BA,1,0,0,1,<=50K\n", "90,?,1500000,MA,16,100000,5000,100,>50K\n"]
    files = {
        "adult/adult_train.csv.gz": gzip.compress((header + lines[0]).encode()),
        "adult/adult_test.csv.gz": gzip.compress((header + lines[1]).encode()),
    }
    (tmp_path / "adult").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(
        data, "SHA256", {name: hashlib.sha256(each).hexdigest() for name, each in files.items()}
    )
    found = data.adult(tmp_path)
    assert (found.train_labels.tolist(), found.test_labels.tolist()) == ([0], [1])
    assert found.columns is not None
    assert found.columns.tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7]
    assert found.train.tolist() == [[0, 0, 0, 0, 0, 0, 0, 1, 1, 0]]  # `?` is before Private
    assert found.test.tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0, 1]]


def test_stroke_leaves_out_small_hospitals_and_unknown_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["HOSPNUM", "RDELAY", "RCONSC", "SEX", "AGE", "RSLEEP", "RATRIAL", "RCT", "RVISINF", "RHEP24"]
    names += ["RASP3", "RSBP", *(f"RDEF{number}" for number in range(1, 9)), "STYPE"]
    features = "17,D,M,69,Y,,Y,Y,,,140,N,N,N,Y,N,Y,N,Y,PACS"
    patients = 6 * [("1", "0")] + 3 * [("2", "1")] + 9 * [("3", "")]
    lines = [f"{hospital},{features},{outcome}" for hospital, outcome in patients]
    text = "\n".join([",".join([*names, "y_dead_or_dependent_6m"]), *lines]) + "\n"
    _write(tmp_path, STROKE, text, monkeypatch)
    dataset = data.stroke(tmp_path, least_patients=4)
    assert len(dataset.train) + len(dataset.test) == 6
    assert dataset.train.sum(axis=1) == pytest.approx(
        # three numbers, then one column per known category: 3 + 8 of deficits, type, sex, consciousness
        np.full(len(dataset.train), 17 / 48 + 53 / 84 + 70 / 180 + 3 + 3 + 8)
    )
