from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.accuracy import markdown, nri_dc

PATIENTS = 240


def _tables(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write made-up tables in the form of the two real ones; half of the heart rows are copies."""
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, PATIENTS)
    numbers = np.round(rng.standard_normal((PATIENTS, 5)) + 2 * ill[:, None] + 10, 3)
    names = [
        "age",
        "trestbps",
        "chol",
        "thalach",
        "oldpeak",
        "sex",
        "cp",
        "fbs",
        "restecg",
        "exang",
        "slope",
        "ca",
        "thal",
        "target",
    ]
    levels = rng.integers(0, 3, (PATIENTS, 8))
    heart = [",".join(map(str, [*n, *c, y])) for n, c, y in zip(numbers, levels, ill, strict=True)]
    pima_names = [
        "Pregnancies",
        "Glucose",
        "BloodPressure",
        "SkinThickness",
        "Insulin",
        "BMI",
        "Pedigree",
        "Age",
        "Outcome",
    ]
    pima = [",".join(map(str, [*n, *n[:3], y])) for n, y in zip(numbers, ill, strict=True)]
    pima[0] = ",".join(["1", "0", *pima[0].split(",")[2:]])
    for name, header, lines in (
        ("heart/heart_1025.csv.gz", names, heart + heart[: PATIENTS // 2]),
        ("pima_diabetes/diabetes.csv.gz", pima_names, pima),
    ):
        content = gzip.compress("\n".join([",".join(header), *lines]).encode())
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_bytes(content)
        monkeypatch.setitem(data.SHA256, name, hashlib.sha256(content).hexdigest())


def test_the_papers_figures_are_those_of_its_tables() -> None:
    assert len(nri_dc.FIGURES) == 6 * 8
    mean, half = nri_dc.FIGURES["heart", "logistic", "GEP"]
    assert (mean, round(half, 3)) == (76.0, 2.262)  # 11.4 times 1.984 over 10
    assert nri_dc.TABLES["heart", "random forest"] == "7"


def test_tables_are_prepared_as_the_paper_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tables(tmp_path, monkeypatch)
    rows, labels = nri_dc.pima(tmp_path)
    assert rows.shape == (PATIENTS, 8)
    np.testing.assert_allclose(rows.std(axis=0), 1)
    assert abs(rows[0, 1]) < 0.05  # a 0 of Glucose became the mean
    assert set(labels) == {0, 1}
    all_rows, _ = nri_dc.heart(tmp_path)
    once, _ = nri_dc.heart(tmp_path, distinct=True)
    assert (len(all_rows), len(once)) == (PATIENTS * 3 // 2, PATIENTS)
    assert all_rows.shape[1] == 5 + 8 * 2  # the first of three levels has no column


def test_workers_have_fifty_rows_and_none_is_tested_on() -> None:
    rows = np.arange(500, dtype=float)[:, None]
    workers = nri_dc.deal(rows, np.arange(500) % 2, 400, 0)
    assert [len(each) for each in workers.rows] == [50] * 6
    assert len(workers.test) == 100
    everything = np.vstack([*workers.rows, workers.test])
    assert len(np.unique(everything)) == len(everything) == 400


@pytest.mark.parametrize("method", [*nri_dc.METHODS_OF_FIGURES[2:], "isotropic"])
def test_every_method_aligns_bases_of_one_span(method: str) -> None:
    rng = np.random.default_rng(0)
    span = np.linalg.qr(rng.standard_normal((10, 4)))[0]
    bases = [span @ np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(3)]
    anchor = rng.standard_normal((200, 10))
    changes = nri_dc.align(method, [anchor @ basis for basis in bases])
    first = bases[0] @ changes[0]
    assert np.linalg.matrix_rank(first) == 4
    for basis, change in zip(bases[1:], changes[1:], strict=True):
        np.testing.assert_allclose(basis @ change, first, atol=1e-3 * np.abs(first).max())


def test_own_models_learn_from_what_h_says_of_the_anchor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tables(tmp_path, monkeypatch)
    monkeypatch.setattr(nri_dc, "MODELS", ("logistic",))
    monkeypatch.setitem(nri_dc.DATA, "pima", (nri_dc.pima, PATIENTS))
    found = nri_dc.run(("pima", 0, 1), folder=tmp_path)
    assert min(found["logistic", way] for way in ("central", "OPP", "isotropic")) > 90
    # the columns of its target are so small that h says one class of every anchor row
    assert found["logistic", "GEP"] == 50


def test_a_row_says_whether_and_why_it_differs() -> None:
    each = [{("logistic", "LS"): 90.0}, {("logistic", "LS"): 90.2}]
    (row,) = nri_dc.rows("pima", each)
    assert (row["table"], row["paper"], row["differs"]) == ("NRI-DC 1", 53.6, True)
    assert "versions" in row["why"]
    (other,) = nri_dc.rows("heart, each patient once", each)
    assert "paper" not in other


def test_the_table_has_the_papers_figure_beside_ours() -> None:
    each = [{("logistic", "LS"): 53.0, ("logistic", "isotropic"): 82.0}] * 2
    text = markdown.tables(nri_dc.rows("pima", each))
    assert "| table | dataset | model | LS | isotropic |" in text
    assert "| NRI-DC 1 | pima | logistic | 53.0±0.0 (53.6) | 82.0±0.0 |" in text
