from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import report, scale


def test_a_round_of_four_has_every_step_and_no_error(tmp_path: Path) -> None:
    scene = scale.play(tmp_path, 4)
    assert scene.errors == []
    assert [row["phase"] for row in scene.rows] == [
        "ask to join",
        "join",
        "accept",
        "prepare",
        "contribute",
        "status",
        "receive",
        "receive all",
    ]
    assert {row["parties"] for row in scene.rows} == {4}
    contributed = next(row for row in scene.rows if row["phase"] == "contribute")
    assert contributed["steps"] == 4
    assert 0 < contributed["p50_ms"] <= contributed["p99_ms"] <= 1000 * contributed["longest_s"]
    assert contributed["server_ms_per_step"] > 0


def test_an_error_of_a_member_is_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr("user_client.sdk.round.Round.status", fail)
    scene = scale.play(tmp_path, 2)
    assert set(scene.errors) == {f"status, clinic-{number:05}: ValueError: no" for number in range(2)}
    assert len(scene.errors) == scale.MOST_POLLS


def test_slopes_are_powers_of_the_number_of_institutions() -> None:
    found = report.Report("scale")
    for parties, contribute, status in ((100, 10.0, 2.0), (1000, 10.0, 20.0)):
        for phase, cost in (("contribute", contribute), ("status", status)):
            found.rows.append(
                {"parties": parties, "phase": phase, "server_ms_per_step": cost, "longest_s": parties / 1000}
            )
    scale.add_claims(found, {100: [], 1000: ["one"]})
    values = {claim.id: claim.value for claim in found.claims}
    assert values == pytest.approx(
        {
            "parties_1000_errors": 1,
            "cost_slope_parties_contribute": 1.0,
            "cost_slope_parties_status": 1.0,
            "scale_longest_step": 1.0,
        }
    )
