from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks import alignment, timing
from benchmarks.alignment import Kind, Size, parties
from benchmarks.plots import write_log_log
from benchmarks.report import Options, Report
from benchmarks.timing import slope, take_turns

SMALL = Size(60, 5, 4)
NAMED = {"c1000": (SMALL, 1.0), "a20000": (SMALL, 1.0)}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here reads the seconds, so no call waits until the machine has settled."""
    monkeypatch.setattr(timing, "SETTLE_S", 0)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Report:
    """All of the benchmark on sizes that take no time."""
    monkeypatch.setattr(alignment, "SIZES", (SMALL,))
    monkeypatch.setattr(alignment, "MEMORY_SIZE", SMALL)
    monkeypatch.setattr(alignment, "BASELINE_SIZES", NAMED)
    monkeypatch.setattr(alignment, "SWEEP_BASE", {"a": 60, "l": 5, "c": 4})
    monkeypatch.setattr(alignment, "SMALL_SWEEPS", {"l": (3, 5), "a": (40, 60), "c": (3, 5)})
    return alignment.measure(Options(full=False, data=None, folder=tmp_path))


def test_every_fixed_claim_is_made(report: Report, tmp_path: Path) -> None:
    assert [claim.id for claim in report.claims] == [
        "odc_vs_reference_f64",
        "odc_vs_reference_f32",
        "odc_vs_reference_f64_any_condition",
        "imakura_randomized_vs_odc_c1000",
        "imakura_randomized_vs_odc_a20000",
        "isotropic_vs_odc",
        "isotropic_vs_odc_different_spans",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"alignment-{free}.svg" for free in "acl"]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("one span", 1, 1e3), ("different spans", 1, 1e5), ("badly conditioned", 1e5, 1e6)],
)
def test_the_parties_are_conditioned_as_they_are_called(kind: Kind, low: float, high: float) -> None:
    reps = parties(SMALL, kind, np.float64)
    assert [rep.shape for rep in reps] == [(60, 5)] * 4
    assert low < np.linalg.cond(reps[1].T @ reps[0]) < high


def test_parties_of_one_span_have_one_span_and_the_others_have_not() -> None:
    ranks = {kind: np.linalg.matrix_rank(np.hstack(parties(SMALL, kind, np.float64))) for kind in KINDS}
    assert ranks == {"one span": 5, "different spans": 10}


KINDS: tuple[Kind, Kind] = ("one span", "different spans")


def test_functions_take_turns_after_one_to_warm_up() -> None:
    called: list[str] = []
    seconds = take_turns({name: lambda name=name: called.append(name) for name in "ab"}, rounds=4)  # type: ignore[misc]
    assert "".join(called) == "ab" * 5
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4}


def test_a_spent_budget_ends_the_turns_after_three() -> None:
    assert len(take_turns({"a": lambda: None}, rounds=9, budget_s=0)["a"]) == 3


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_slope_is_the_exponent_of_a_power_law(exponent: float) -> None:
    assert slope([50, 100, 400], [3 * size**exponent for size in (50, 100, 400)]) == pytest.approx(exponent)


def test_a_picture_has_every_line_with_its_name(tmp_path: Path) -> None:
    lines: dict[str, Any] = {"odc": [(50, 0.1), (500, 4)], "a < b": [(50, 1), (100, 2), (500, 9)]}
    write_log_log(tmp_path / "deep" / "picture.svg", "Title", ("size", "seconds"), lines)
    svg = "{http://www.w3.org/2000/svg}"
    picture = ET.parse(tmp_path / "deep" / "picture.svg").getroot()  # noqa: S314 - our own file
    assert [len(line.attrib["points"].split()) for line in picture.iter(f"{svg}polyline")] == [2, 3]
    assert {"odc", "a < b", "Title", "size", "seconds", "100", "0.1"} <= {
        text.text for text in picture.iter(f"{svg}text")
    }
