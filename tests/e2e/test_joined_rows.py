"""A hospital and a laboratory hold different columns of the same patients: from tables to predictions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium
from tests.harness.joined import (
    ALONE,
    COLUMNS,
    KEY,
    LAB,
    LEAD,
    held_by_lab,
    held_by_lead,
    joining,
    patients,
    shuffled,
)
from tests.harness.needles import Needles

NAMES = (LEAD, LAB, ALONE)
TOGETHER = patients(0, 360)
FRESH = patients(9, 600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("joined"), *NAMES) as found:
        yield found


def written(made: Consortium, name: str, table: pa.Table, file: str) -> str:
    path = made.institution(name).home / file
    pyarrow.csv.write_csv(table, path)
    return str(path)


@pytest.fixture(scope="module")
def released(made: Consortium) -> dict[str, Any]:
    """A round in which 300 of 360 rows are in both tables, and 100 are of a hospital with all columns."""
    tables = {
        LEAD: held_by_lead(shuffled(TOGETHER.slice(0, 330), 1)),
        LAB: held_by_lab(shuffled(TOGETHER.slice(30), 2)),
        ALONE: patients(5, 100).drop_columns([KEY]),
    }
    found = made.anchored(**joining(dither=0.1, rep_dtype="i1"))
    said = {}
    for name, table in tables.items():
        path = written(made, name, table, "rows.csv")
        said[name] = made.institution(name).odc("terms", "check", path)
        made.institution(name).odc("contribute", "--yes", path)
    made.wait_for(found, "released")
    for name in NAMES:
        made.institution(name).odc("receive", "--wait", str(WAIT_S))
    return {"id": found, "checked": said}


def part_of(made: Consortium, name: str, table: pa.Table, file: str) -> str:
    path = written(made, name, table, f"{file}.csv")
    out = made.institution(name).home / f"{file}.odcpart"
    assert made.institution(name).odc("part", path, "--out", str(out))["rows"] == table.num_rows
    return str(out)


def predicted(made: Consortium, name: str, table: pa.Table, out: Path, *words: str) -> pa.Table:
    path = written(made, name, table, "fresh.csv")
    made.institution(name).odc("predict", path, "--out", str(out), *words)
    return pyarrow.csv.read_csv(out)


def area(table: pa.Table, predictions: pa.Table) -> float:
    labels = dict(zip(table[KEY].to_pylist(), table["label"].to_pylist(), strict=True))
    truth = [labels[key] == "yes" for key in predictions[KEY].to_pylist()]
    return float(roc_auc_score(truth, predictions["probability_yes"]))


def test_each_is_checked_by_its_own_columns(released: dict[str, Any]) -> None:
    assert [released["checked"][name]["features"] for name in NAMES] == [3, 3, 6]
    assert not any(found["misfits"] for found in released["checked"].values())
    assert released["checked"][LEAD]["signal"] is not None
    assert released["checked"][LAB]["signal"] is None  # it has no labels


def test_joined_predictions_are_near_those_of_one_table(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    whole = np.column_stack([TOGETHER.slice(30, 300)[name] for name in COLUMNS])
    central = LogisticRegression().fit(whole, TOGETHER.slice(30, 300)["label"])
    reference = roc_auc_score(
        FRESH["label"], central.predict_proba(np.column_stack([FRESH[name] for name in COLUMNS]))[:, 1]
    )
    # the laboratory has 550 of the 600 rows, in another order
    part = part_of(made, LAB, held_by_lab(shuffled(FRESH.slice(50), 4)), "of-lab")
    found = predicted(
        made, LEAD, held_by_lead(FRESH).drop_columns(["label"]), tmp_path / "lead.csv", "--with", part
    )
    assert found[KEY].to_pylist() == FRESH.slice(50)[KEY].to_pylist()  # in the order of its own table
    assert area(FRESH, found) > reference - 0.03
    half = LogisticRegression().fit(whole[:, :3], TOGETHER.slice(30, 300)["label"])
    alone = roc_auc_score(
        FRESH["label"], half.predict_proba(np.column_stack([FRESH[name] for name in COLUMNS[:3]]))[:, 1]
    )
    assert area(FRESH, found) > alone + 0.05


def test_a_member_without_labels_predicts_the_same(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    few = FRESH.slice(0, 40)
    by_lead = predicted(
        made,
        LEAD,
        held_by_lead(few),
        tmp_path / "a.csv",
        "--with",
        part_of(made, LAB, held_by_lab(few), "lab-40"),
    )
    by_lab = predicted(
        made,
        LAB,
        held_by_lab(few),
        tmp_path / "b.csv",
        "--with",
        part_of(made, LEAD, held_by_lead(few), "lead-40"),
    )
    assert by_lead[KEY].equals(by_lab[KEY])
    np.testing.assert_allclose(by_lead["probability_yes"], by_lab["probability_yes"], rtol=0, atol=1e-5)


def test_whoever_has_all_columns_predicts_as_ever(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    found = predicted(made, ALONE, FRESH, tmp_path / "alone.csv", "--keep", KEY)
    assert area(FRESH, found) > 0.8


def test_the_report_says_how_many_rows_were_joined(made: Consortium, released: dict[str, Any]) -> None:
    report = made.institution(ALONE).odc("report")["report"]
    (joined,) = report["results"]["joined_rows"]
    assert joined == {"labels": LEAD, "rows": 300, "sent": {LEAD: 330, LAB: 330}}
    assert report["results"]["rows"] == 400
    assert "have 300 rows in common" in made.analyst.run("collaboration", "report", released["id"])
    for name, may_evaluate in ((LEAD, False), (LAB, False), (ALONE, True)):
        words = [sys.executable, "-m", "user_client", "--home", str(made.institution(name).home), "report"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
        assert "have 300 rows in common" in said
        assert ("odc evaluate TABLE" in said) is may_evaluate


def test_no_key_reaches_the_analyst_in_the_clear(made: Consortium, released: dict[str, Any]) -> None:
    """Neither in its records, its arrays nor its logs; and what it does have is found by the same search."""
    keys = [*TOGETHER[KEY].to_pylist(), *FRESH[KEY].to_pylist()]
    needles = Needles({**{key: key.encode() for key in keys}, "an id": released["id"].encode()})
    files = [path for path in made.analyst.data_dir.rglob("*") if path.is_file()]
    assert needles.found_in_all(path.read_bytes() for path in files if path.stat().st_size) == {"an id"}


def test_what_needs_whole_rows_is_refused_in_words(made: Consortium, released: dict[str, Any]) -> None:
    few = written(made, LEAD, held_by_lead(FRESH.slice(0, 20)), "few.csv")
    for words in (("evaluate", few), ("export",), ("explain", few), ("coefficients", few)):
        with pytest.raises(CommandError, match=f"{LEAD}, {LAB} holds some of their columns"):
            made.institution(LEAD).odc(*words)
    with pytest.raises(CommandError, match=f"needs the parts of {LAB}"):
        made.institution(LEAD).odc("predict", few)
    serve = [sys.executable, "-m", "user_client", "--home", str(made.institution(LEAD).home), "serve"]
    refused = subprocess.run(serve, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert refused.returncode == 3
    assert f"{LEAD}, {LAB} holds some of their columns" in refused.stderr


def test_a_part_of_another_round_and_a_changed_one_are_refused(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    few = FRESH.slice(0, 20)
    path = written(made, LEAD, held_by_lead(few), "few.csv")
    part = Path(part_of(made, LAB, held_by_lab(few), "lab-20"))
    content = bytearray(part.read_bytes())
    content[-50] ^= 1
    changed = tmp_path / "changed.odcpart"
    changed.write_bytes(content)
    with pytest.raises(CommandError, match="was changed"):
        made.institution(LEAD).odc("predict", path, "--with", str(changed))
    with pytest.raises(CommandError, match="second part"):
        made.institution(LEAD).odc("predict", path, "--with", str(part), "--with", str(part))
    own = part_of(made, LEAD, held_by_lead(few), "lead-20")
    with pytest.raises(CommandError, match=f"is a part of {LEAD}, not of one of {LAB}"):
        made.institution(LEAD).odc("predict", path, "--with", own)
    other = made.anchored(**joining())
    for name, table in (
        (LEAD, held_by_lead(TOGETHER)),
        (LAB, held_by_lab(TOGETHER)),
        (ALONE, patients(5, 60)),
    ):
        made.contribute(name, other, table)
    made.wait_for(other, "released")
    made.sessions[LEAD].round(other).receive()
    with pytest.raises(CommandError, match="is a part of another collaboration"):
        made.institution(LEAD).odc("predict", path, "--with", str(part), "--collaboration", other)
