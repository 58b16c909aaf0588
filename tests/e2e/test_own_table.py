"""The demo on a table a person brings, split by its site column."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.e2e.test_demo import run_demo


def own_table(path: Path) -> Path:
    """Numbers, categories, gaps, and a label both explain; three sites of different size and mix."""
    rng = np.random.default_rng(20240304)
    count = 360
    site = rng.choice(["Ward A", "Ward B", "Ward C"], count, p=[0.5, 0.3, 0.2])
    age = rng.normal(60, 12, count) + 5 * (site == "Ward C")
    pressure = rng.normal(130, 18, count)
    smoker = rng.choice(["never", "former", "current"], count, p=[0.5, 0.3, 0.2])
    risk = (age - 60) / 8 + (pressure - 130) / 12 + 2.0 * (smoker == "current") - 0.4
    outcome = np.where(risk + rng.normal(0, 0.5, count) > 0, "ill", "well")

    def with_gaps(values: list[str]) -> list[str]:
        gone = rng.random(count) < 0.05
        return ["" if missing else value for value, missing in zip(values, gone, strict=True)]

    table = {
        "ward": site.tolist(),
        "age": with_gaps([f"{value:.1f}" for value in age]),
        "pressure": with_gaps([f"{value:.0f}" for value in pressure]),
        "smoker": with_gaps(smoker.tolist()),
        "noise": [f"{value:.3f}" for value in rng.normal(size=count)],
        "outcome": outcome.tolist(),
    }
    pyarrow.csv.write_csv(pa.table(table), path)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("own")
    table = own_table(directory / "own.csv")
    words = ("--data", str(table), "--label", "outcome", "--site", "ward", "--latent-dim", "5")
    found, _ = run_demo(directory / "out", *words)
    return found


def test_each_site_becomes_an_institution_and_the_largest_leads(report: dict[str, Any]) -> None:
    assert [party["name"] for party in report["parties"]] == [f"hospital-ward-{site}" for site in "abc"]
    rows = [party["rows"] for party in report["parties"]]
    assert rows == sorted(rows, reverse=True)


def test_categories_become_one_feature_each_and_the_site_none(report: dict[str, Any]) -> None:
    assert report["features"] == 3 + 3  # three numbers, three levels
    assert report["dataset"] == "own.csv"


def test_gaps_do_not_keep_the_round_from_ending_well(report: dict[str, Any]) -> None:
    assert report["state"] == "released"
    scores = report["scores"]
    assert report["latent_dim"] == 5
    assert scores["collaboration"]["accuracy"] > 0.85
    assert scores["collaboration"]["accuracy"] >= scores["central"]["accuracy"] - 0.05


def test_the_heart_data_of_four_hospitals_plays_a_whole_round(tmp_path: Path) -> None:
    shared = os.environ.get("ODC_SHARED_DATA")
    table = Path(shared or ".") / "heart" / "heart_uci_4site.csv.gz"
    if not shared or not table.is_file():
        pytest.skip("ODC_SHARED_DATA names no folder with heart/heart_uci_4site.csv.gz")
    words = ("--data", str(table), "--label", "label", "--site", "site", "--exclude", "num")
    report, _ = run_demo(tmp_path / "out", *words)
    assert len(report["parties"]) == 4
    assert report["state"] == "released"
    scores = report["scores"]
    assert scores["collaboration"]["accuracy"] >= scores["local_mean"]["accuracy"] - 0.02
