"""A round on columns as hospitals have them.

Dates, durations, codes that others lack, levels in an order, logarithms, fields that are left empty for "no".
"""

from __future__ import annotations

import datetime as dt
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
GRADES = ("low", "mid", "high")
BEGIN = dt.date(2015, 1, 1)


def patients(seed: int, rows: int = 400) -> pa.Table:
    """Who is old, stays long, has a high grade, smokes or has the code I21 is ill more often.

    So is who came late, and every doubling of the marker adds the same.
    """
    rng = np.random.default_rng(seed)
    first, stay = rng.integers(0, 3000, rows), rng.integers(0, 30, rows)
    age, grade = rng.integers(20 * 365, 90 * 365, rows), rng.integers(0, 3, rows)
    rare = [f"site {seed} code {number}" for number in rng.integers(0, 200, rows)]
    codes = np.where(rng.random(rows) < 0.2, rare, rng.choice(["I21", "J18", "N39"], rows))
    marker, smokes = 2 ** rng.normal(2, 2, rows), rng.random(rows) < 0.4
    came = [BEGIN + dt.timedelta(days=int(day)) for day in first]
    risk = (age / 365 - 55) / 20 + (stay - 15) / 10 + grade - 1 + 2 * (codes == "I21") + (first - 1500) / 1500
    risk += (np.log2(marker) - 2) / 2 + 2 * smokes - 0.8
    return pa.table(
        {
            "born": [day - dt.timedelta(days=int(days)) for day, days in zip(came, age, strict=True)],
            "came": [f"{day:%d.%m.%Y}" for day in came],
            "admitted": came,
            "discharged": [day + dt.timedelta(days=int(days)) for day, days in zip(came, stay, strict=True)],
            "code": codes,
            "grade": [GRADES[index] for index in grade],
            "marker": marker.round(3),
            "smoker": ["yes" if each else None for each in smokes],
            "ill": np.where(risk + 0.3 * rng.standard_normal(rows) > np.median(risk), "yes", "no"),
        }
    )


COLUMNS = (
    "--duration", "admitted=born", "--duration", "discharged=admitted", "--exclude", "born",
    "--ordinal", "grade=low,mid,high", "--logarithm", "marker", "--impute", "smoker=no",
)  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with consortium(tmp_path_factory.mktemp("columns"), *NAMES) as made:
        for seed, name in enumerate(NAMES):
            pyarrow.csv.write_csv(patients(seed), made.institution(name).home / "rows.csv")
        lead = made.institution(NAMES[0])
        parties = [word for name in NAMES for word in ("--party", name)]
        draft = ("terms", "draft", "rows.csv", "--label", "ill", *parties, "--dither", "0", *COLUMNS)
        drafted = lead.odc(*draft)
        made.analyst.run("collaboration", "create", str(lead.home / "terms.toml"))
        (row,) = json.loads(made.analyst.run("collaboration", "list", "--json"))
        checked = made.run_all(NAMES, "terms", "check", "rows.csv")
        shown = lead.odc("terms", "show")
        made.play_by_command(row["collaboration_id"], "rows.csv")
        fresh = patients(99, 1000)
        pyarrow.csv.write_csv(fresh.drop_columns(["ill"]), lead.home / "fresh.csv")
        lead.odc("predict", "fresh.csv", "--out", "fresh-predictions.csv")
        yield {
            "drafted": drafted,
            "checked": checked,
            "shown": shown,
            "evaluated": made.run_all(NAMES, "evaluate", "rows.csv"),
            "exported": lead.odc("export"),
            "card": (lead.home / "model.md").read_text(),
            "predictions": pyarrow.csv.read_csv(lead.home / "fresh-predictions.csv"),
            "fresh": fresh,
            "lead": lead,
        }


def test_new_patients_are_predicted(played: dict[str, Any]) -> None:
    found, truth = played["predictions"].column("prediction"), played["fresh"].column("ill")
    assert np.mean(found.to_numpy() == truth.to_numpy()) > 0.85
    for evaluated in played["evaluated"]:
        assert evaluated["together"] > 0.85


def test_codes_that_the_lead_does_not_have_fit_the_terms(played: dict[str, Any]) -> None:
    assert [found["misfits"] for found in played["checked"]] == [[], [], []]
    assert any("texts count as 'other'" in remark for remark in played["drafted"]["remarks"])
    assert "; any other text counts as other" in played["shown"]["plain_words"]


def test_the_terms_say_what_becomes_of_fields(played: dict[str, Any]) -> None:
    words = played["shown"]["plain_words"]
    assert "- came: a date written as dd.mm.yyyy, its rank among the 21 quantiles 2015-" in words
    assert "- admitted: the days since the date in born, both written as iso" in words
    assert "- grade: one of low, mid, high, as its place in this order" in words
    assert "- marker: its logarithm, between those of " in words
    assert "an empty field counts as no\n" in words
    assert "Warning: dates: " in words
    assert any(remark.startswith("came: who knows a date") for remark in played["drafted"]["remarks"])


def test_the_exported_model_takes_days_in_the_place_of_dates(played: dict[str, Any]) -> None:
    assert played["exported"]["largest_difference"] < 1e-5
    assert "| came | 64-bit float, NaN for an empty field: the days since 1970-01-01" in played["card"]
    assert "the days since the date in born" in played["card"]


def test_a_date_that_is_none_is_refused_by_its_row(played: dict[str, Any]) -> None:
    lead, made = played["lead"], played["fresh"].slice(0, 3)
    broken = made.set_column(1, "came", pa.array(["01.02.2020", "31.02.2020", "01.02.2020"]))
    pyarrow.csv.write_csv(broken, lead.home / "broken.csv")
    with pytest.raises(
        CommandError, match=r"column 'came', data row 2: expected a date written as dd\.mm\.yyyy"
    ):
        lead.odc("predict", "broken.csv", "--out", "broken-predictions.csv")
