from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analyst_server.store import Records
from benchmarks import report, scale
from odc_demo.actors import Analyst


def test_a_round_of_four_has_every_step_and_no_error(tmp_path: Path) -> None:
    scene = scale.play(tmp_path, 4)
    assert scene.errors == []
    assert [row["phase"] for row in scene.rows] == [
        "ask to join",
        "approve all",
        "join",
        "accept",
        "create anchor",
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
    assert 0 < contributed["longest_request_s"] <= contributed["longest_s"]


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
                {
                    "parties": parties,
                    "phase": phase,
                    "server_ms_per_step": cost,
                    "longest_s": parties / 1000,
                    "longest_request_s": parties / 2000,
                }
            )
    scale.add_claims(found, {100: [], 1000: ["one"]})
    values = {claim.id: claim.value for claim in found.claims}
    assert values == pytest.approx(
        {
            "parties_1000_errors": 1,
            "cost_slope_parties_contribute": 1.0,
            "cost_slope_parties_status": 1.0,
            "scale_longest_request": 0.5,
            "scale_longest_step": 1.0,
        }
    )


def test_a_crowd_joins_signs_and_sends_without_an_error(tmp_path: Path) -> None:
    scene = scale.play_crowd(tmp_path, 4)
    assert scene.errors == []
    steps = {row["phase"]: row["steps"] for row in scene.rows}
    assert (steps["ask to join"], steps["join"], steps["accept"], steps["contribute"]) == (3, 3, 3, 3)
    records = Records(f"sqlite:///{tmp_path / 'analyst' / 'odc.sqlite'}")
    with records.begin() as unit:
        (collaboration,) = unit.collaborations()
        assert unit.count_received(collaboration.id) == 4
    records.dispose()


def test_a_number_of_institutions_takes_the_place_of_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def note(_folder: Path, parties: int) -> scale.Scene:
        played.append(parties)
        scene = scale.Scene(Analyst(tmp_path), tmp_path, [])
        scene.errors.append("one")
        return scene

    monkeypatch.setattr(scale, "play_crowd", note)
    written = tmp_path / "found.json"
    assert scale.main(["--parties", "10000", "--json", str(written)]) == 1
    (claim,) = json.loads(written.read_text())["claims"]
    assert (claim["id"], claim["value"], claim["holds"]) == ("parties_10000_errors", 1, False)
    assert scale.main(["--parties", "7"]) == report.NOTHING_CLAIMED
    assert played == [10_000, 7]
