"""A hospital that lacks columns takes part: by its commands, with a table that does not have them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.csv
import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import WAIT_S, Consortium, consortium, rows

NAMES = ("lead-hospital", "hospital-b", "small-hospital")
SMALL = NAMES[2]
LACKED = ["x1", "x2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("absent"), *NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def released(made: Consortium) -> dict[str, Any]:
    """A round whose third member has neither of two columns, and what its commands said."""
    found = made.anchored(latent_dim=2, absent_columns=[{"party": SMALL, "columns": LACKED}], hold_out=0.25)
    for seed, name in enumerate(NAMES[:2]):
        made.contribute(name, found, rows(seed, 120))
    small = made.institution(SMALL)
    path = small.home / "rows.csv"
    pyarrow.csv.write_csv(rows(2, 120).drop_columns(LACKED), path)
    checked = small.odc("terms", "check", str(path))
    prepared = small.odc("prepare", str(path))
    small.odc("contribute", "--yes", str(path))
    made.wait_for(found, "released")
    for name in NAMES:
        made.institution(name).odc("receive", "--wait", str(WAIT_S))
    return {"id": found, "checked": checked, "prepared": prepared, "table": str(path)}


def predicted(made: Consortium, name: str, table: pa.Table, directory: Path) -> np.ndarray:
    fresh, out = (Path(tempfile.mkdtemp(dir=directory)) / name for name in ("fresh.csv", "predictions.csv"))
    pyarrow.csv.write_csv(table, fresh)
    made.institution(name).odc("predict", str(fresh), "--out", str(out))
    found = pyarrow.csv.read_csv(out)
    return np.stack([found[f"probability_{each}"] for each in ("no", "yes")], axis=1)


def test_what_leaves_has_the_features_that_it_has(released: dict[str, Any]) -> None:
    assert released["checked"]["features"] == released["prepared"]["features"] == 2
    assert [column["name"] for column in released["checked"]["columns"]] == ["x0", "x3"]


def test_it_predicts_from_its_own_columns_and_reads_no_others(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    table = rows(99, 400)
    without = predicted(made, SMALL, table.drop_columns([*LACKED, "label"]), tmp_path)
    spoilt = table.drop_columns([*LACKED, "label"])
    for name in LACKED:
        spoilt = spoilt.append_column(name, pa.array(["no number"] * 400))
    np.testing.assert_array_equal(predicted(made, SMALL, spoilt, tmp_path), without)
    right = np.where(without[:, 1] > 0.5, "yes", "no") == np.array(table["label"].to_pylist())
    assert right.mean() > 0.6  # half of what the label is made of is not there
    whole = predicted(made, NAMES[0], table.drop_columns(["label"]), tmp_path)
    assert (np.where(whole[:, 1] > 0.5, "yes", "no") == np.array(table["label"].to_pylist())).mean() > 0.7


def test_the_others_still_need_every_column(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="x1"):
        predicted(made, NAMES[0], rows(99, 20).drop_columns(LACKED), tmp_path)


def test_evaluation_explanation_and_export_are_of_its_own_columns(
    made: Consortium, released: dict[str, Any], tmp_path: Path
) -> None:
    small, out = made.institution(SMALL), tmp_path / "model.onnx"
    assert small.odc("evaluate", released["table"])["rows"] == 30
    explained = small.odc("explain", released["table"])
    assert {column["name"] for column in explained["columns"]} == {"x0", "x3"}
    small.odc("export", "--out", str(out))
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["x0", "x3"]
    table = rows(99, 50)
    given = {name: np.array(table[name].to_pylist(), np.float64)[:, None] for name in ("x0", "x3")}
    answers = dict(zip([each.name for each in session.get_outputs()], session.run(None, given), strict=True))
    own = predicted(made, SMALL, table.drop_columns([*LACKED, "label"]), tmp_path)
    np.testing.assert_allclose(answers["probabilities"], own, rtol=0, atol=1e-5)


def test_the_report_says_who_lacks_what_and_how_far_from_the_others_it_stays(
    made: Consortium, released: dict[str, Any]
) -> None:
    text = made.analyst.run("collaboration", "report", released["id"])
    assert f"warning: {SMALL} takes part without x1, x2, and is aligned approximately: its anchor is " in text
    results = made.lead.round(released["id"]).report()["results"]
    assert results is not None
    alignment = results["alignment"]
    assert alignment["party_gaps"][SMALL] > 0
    assert f"its anchor is {alignment['party_gaps'][SMALL]:.2f} from the common one" in text
    assert alignment["suspicions"] == []
