"""A round that predicts survival, by the commands that people type, on made-up patients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from odc_demo.actors import CommandError
from tests.harness.consortium import consortium

NAMES = ("lead-hospital", "hospital-b", "hospital-c")
LABEL = ("--label", "days", "--event", "died", "--seen", "1")


def patients(seed: int, rows: int = 250) -> pa.Table:
    """Survival that depends on two columns of four; the study ends before half of the events."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, 4))
    until = rng.exponential(400 * np.exp(-values[:, 0] + 0.5 * values[:, 1]))
    end = rng.uniform(100, 1000, rows)
    columns = {f"x{index}": column for index, column in enumerate(values.T)}
    return pa.table(
        {**columns, "days": np.round(np.minimum(until, end), 1), "died": (until <= end).astype(int)}
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with consortium(tmp_path_factory.mktemp("survival"), *NAMES) as made:
        for seed, name in enumerate(NAMES):
            pyarrow.csv.write_csv(patients(seed), made.institution(name).home / "rows.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        times = ("--time", "100", "--time", "365")
        drafted = lead.odc(
            "terms", "draft", "rows.csv", *LABEL, *parties, "--task", "survival", *times, "--dither", "0"
        )
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        (row,) = json.loads(made.analyst.run("collaboration", "list", "--json"))
        shown = lead.odc("terms", "show")
        made.play_by_command(row["collaboration_id"], "rows.csv")
        fresh = patients(99, 1000)
        pyarrow.csv.write_csv(fresh.drop_columns(["days", "died"]), lead.home / "fresh.csv")
        lead.odc("predict", "fresh.csv", "--out", "fresh-predictions.csv")
        exported = lead.odc("export")
        yield {
            "drafted": drafted,
            "shown": shown,
            "evaluated": made.run_all(NAMES, "evaluate", "rows.csv", "--send"),
            "report": lead.odc("report", "--wait", "60")["report"],
            "page": made.analyst.run("collaboration", "report", row["collaboration_id"], "--wait", "60"),
            "predictions": pyarrow.csv.read_csv(lead.home / "fresh-predictions.csv"),
            "fresh": fresh,
            "exported": exported,
            "lead": lead,
        }


def test_predicted_survival_is_calibrated_and_orders_patients(played: dict[str, Any]) -> None:
    found, fresh = played["predictions"], played["fresh"]
    assert found.column_names == ["prediction", "survival_100", "survival_365"]
    survival = {at: found.column(f"survival_{at}").to_numpy() for at in (100, 365)}
    assert (survival[100] >= survival[365]).all()
    np.testing.assert_allclose(found.column("prediction").to_numpy(), 1 - survival[365], atol=1e-6)
    scores = -fresh.column("x0").to_numpy() + 0.5 * fresh.column("x1").to_numpy()
    truth = np.exp(-365 / (400 * np.exp(scores)))
    assert np.corrcoef(survival[365], truth)[0, 1] > 0.9
    assert abs(survival[365].mean() - truth.mean()) < 0.08


def test_the_report_and_the_institutions_have_the_concordance(played: dict[str, Any]) -> None:
    judgement = played["report"]["results"]["judgement"]
    assert set(judgement["within"]) == {"c_index", "ibs", "by_party"}
    assert 0.6 < judgement["within"]["c_index"]["mean"] < 0.9
    assert 0 < judgement["within"]["ibs"]["mean"] < 0.25
    for found in played["evaluated"]:
        assert found["metric"] == "c_index"
        assert found["gain_low"] <= found["together"] - found["alone"] <= found["gain_high"]
        assert found["local_fit"]["kind"] == "cox"
    assert "C-index" in played["page"]
    assert "ROC-AUC" not in played["page"]


def test_the_terms_say_what_is_predicted(played: dict[str, Any]) -> None:
    assert played["drafted"]["signal"]["measure"] == "concordance"
    assert (
        "the column died whether that ended with the event (1) or not (0)" in played["shown"]["plain_words"]
    )
    assert played["exported"]["largest_difference"] < 1e-5


def test_a_time_without_its_event_column_is_refused(played: dict[str, Any]) -> None:
    lead = played["lead"]
    table = patients(0, 20).drop_columns(["died"])
    pyarrow.csv.write_csv(table, lead.home / "without.csv")
    with pytest.raises(CommandError, match="died"):
        lead.odc("evaluate", "without.csv")
    with pytest.raises(CommandError, match="survival needs the column"):
        lead.odc(
            "terms", "draft", "rows.csv", "--label", "days", "--party", "a", "--task", "survival", "--force"
        )
