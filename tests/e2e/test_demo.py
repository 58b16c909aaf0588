"""The demo, as a person starts it, and the report it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


def run_demo(out: Path, *words: str) -> tuple[dict[str, Any], str]:
    """Run the demo; return its report and what it printed."""
    command = [sys.executable, "-m", "odc_demo", "--out", str(out), *words]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "report.json").read_text()), done.stdout


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    return run_demo(tmp_path_factory.mktemp("demo") / "out")


@pytest.fixture
def report(demo: tuple[dict[str, Any], str]) -> dict[str, Any]:
    return demo[0]


def test_the_report_has_the_keys_others_read(report: dict[str, Any]) -> None:
    keys = ("dataset", "task", "parties", "alignment", "anchor", "latent_dim", "scores", "bytes", "seconds")
    assert {*keys, "state"} <= set(report)
    assert len(report["parties"]) == 5
    assert all(party["name"] and party["rows"] > 0 for party in report["parties"])
    assert report["seconds"]["total"] > 0
    assert {"central", "local_mean", "collaboration"} <= set(report["scores"])
    assert {"formula", "payload", "wire"} <= set(report["bytes"])
    for scores in (report["scores"][key] for key in ("central", "local_mean", "collaboration")):
        assert 0.5 < scores["accuracy"] <= 1
        assert 0.5 < scores["roc_auc"] <= 1


def test_the_round_ends_released(report: dict[str, Any]) -> None:
    assert report["state"] == "released"


def test_collaboration_is_within_two_points_of_central_and_above_local(report: dict[str, Any]) -> None:
    found = {key: report["scores"][key]["accuracy"] for key in ("central", "local_mean", "collaboration")}
    assert found["collaboration"] >= found["central"] - 0.02
    assert found["collaboration"] > found["local_mean"]


def test_every_direction_costs_at_least_its_payload_on_the_wire(report: dict[str, Any]) -> None:
    sizes = report["bytes"]
    if not sizes["wire"]["total"]:
        pytest.skip("this system does not count bytes per connection")
    for direction in ("uplink", "downlink"):
        assert sizes["wire"][direction] >= sizes["payload"][direction]


def test_the_uplink_payload_is_the_formula_and_the_labels(report: dict[str, Any]) -> None:
    sizes = report["bytes"]
    labels = sum(party["rows"] for party in report["parties"])  # one byte each
    assert sizes["payload"]["uplink"] == sizes["formula"]["uplink"] + labels


def test_a_person_sees_hospitals_scores_and_bytes(demo: tuple[dict[str, Any], str]) -> None:
    report, shown = demo
    assert all(party["name"] in shown for party in report["parties"])
    assert f"{report['scores']['collaboration']['accuracy']:.1%}" in shown
    assert f"{report['bytes']['wire']['total']:,}" in shown or "B control" in shown
