"""A round whose label is a number: by the commands that people type, on a real table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import load_diabetes

from odc_demo.actors import CommandError
from tests.harness.consortium import Consortium, consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
FIGURES = {"r2", "rmse", "mae"}


def progression() -> pa.Table:
    """442 patients and a measure of their disease a year later, from 25 to 346 (Efron et al., 2004)."""
    found = load_diabetes(scaled=False)
    columns = dict(zip(found.feature_names, found.data.T, strict=True))
    return pa.table({**columns, "progression": found.target})


@dataclass
class Played:
    """What the commands of a round gave."""

    made: Consortium
    drafted: Any
    evaluated: list[Any]
    report: Any
    page: str
    prediction_errors: dict[str, Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    table = progression()
    parts = np.array_split(np.random.default_rng(0).permutation(len(table)), len(NAMES))
    with consortium(tmp_path_factory.mktemp("numbers"), *NAMES) as made:
        for name, part in zip(NAMES, parts, strict=True):
            pyarrow.csv.write_csv(table.take(part), made.institution(name).home / "rows.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        number = ("--task", "number", "--label-range", "0:400", "--dither", "0")
        drafted = lead.odc("terms", "draft", "rows.csv", "--label", "progression", *parties, *number)
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        (row,) = json.loads(made.analyst.run("collaboration", "list", "--json"))
        made.play_by_command(row["collaboration_id"], "rows.csv")
        errors = {}
        for name, part in zip(NAMES, parts, strict=True):
            predicted = pyarrow.csv.read_csv(made.institution(name).home / "predictions.csv")
            assert predicted.column_names == ["prediction"]
            truth = table.take(part).column("progression").to_numpy()
            errors[name] = predicted.column("prediction").to_numpy() - truth
        evaluated = made.run_all(NAMES, "evaluate", "rows.csv", "--send")
        report = lead.odc("report", "--wait", "60")["report"]
        page = made.analyst.run("collaboration", "report", row["collaboration_id"], "--wait", "60")
        yield Played(made, drafted, evaluated, report, page, errors)


def test_numbers_are_predicted_in_the_unit_of_their_column(played: Played) -> None:
    spread = float(np.std(progression().column("progression").to_numpy()))
    for name, errors in played.prediction_errors.items():
        assert abs(float(np.mean(errors))) < spread / 4, name
        assert 0.3 < 1 - float(np.mean(errors**2)) / spread**2 < 0.9, name


def test_each_compares_it_with_a_model_of_its_own_rows(played: Played) -> None:
    for found in played.evaluated:
        assert found["metric"] == "r2"
        assert found["kept_back"]
        assert found["gain_low"] < found["together"] - found["alone"] < found["gain_high"]
        assert found["local_fit"]["kind"] == "averaged"
    # each is of 29 rows, chosen by chance
    assert np.mean([found["together"] for found in played.evaluated]) > 0.15


def test_the_report_has_the_figures_of_numbers_and_not_those_of_classes(played: Played) -> None:
    judgement = played.report["results"]["judgement"]
    assert set(judgement["within"]) == {*FIGURES, "by_party"}
    assert 0.25 < judgement["within"]["r2"]["mean"] < 0.7
    assert 40 < judgement["within"]["rmse"]["mean"] < 70  # in the unit of the column
    assert [score["metric"] for score in played.report["member_scores"]] == ["r2"] * 3
    assert "R squared" in played.page
    assert "RMSE" in played.page
    assert "ROC-AUC" not in played.page


def test_the_draft_measures_what_the_rows_say_about_the_number(played: Played) -> None:
    assert played.drafted["signal"]["measure"] == "concordance"
    assert 0.7 < played.drafted["signal"]["auc"] < 0.8


def test_a_label_outside_the_range_fits_no_terms_and_is_scored_all_the_same(played: Played) -> None:
    lead = played.made.institution(NAMES[0])
    table = progression().slice(0, 20)
    numbers = table.column("progression").to_numpy().copy()
    numbers[6] = 401.5
    at = table.column_names.index("progression")
    pyarrow.csv.write_csv(table.set_column(at, "progression", pa.array(numbers)), lead.home / "wrong.csv")
    with pytest.raises(CommandError, match="1 column does not fit the terms") as caught:
        lead.odc("terms", "check", "wrong.csv")
    assert "401" not in caught.value.stderr
    found = lead.odc("evaluate", "wrong.csv")
    assert (found["rows"] + found["left_out"], found["sent"]) == (20, False)  # some of the 20 were sent
    assert found["left_out"] > 0
