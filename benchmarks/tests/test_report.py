import importlib
import json
import math
from pathlib import Path

import pytest

from benchmarks.report import NOTHING_CLAIMED, Claim, Options, Report, main


def _measure(options: Options) -> Report:
    """A benchmark that measures whether it was asked for the full size."""
    report = Report("example", {"full": options.full}, [{"name": "a", "value": 2}])
    report.claim("small_enough", 2.0, "s", "<=", 3 if options.full else 1)
    return report


@pytest.mark.parametrize(
    ("op", "value", "holds"),
    [("<=", 1.0, True), ("<=", 1.1, False), (">=", 0.9, False), ("==", 1.0, True), ("<=", math.nan, False)],
)
def test_a_claim_holds_when_its_value_keeps_the_bound(op: str, value: float, holds: bool) -> None:
    assert Claim("id", value, "x", op, 1.0).holds is holds  # type: ignore[arg-type]


def test_the_file_has_the_form_that_checks_are_written_against(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.json"
    assert main(_measure, ["--full", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert list(found) == ["benchmark", "machine", "conditions", "rows", "claims", "figures"]
    assert found["claims"] == [
        {"id": "small_enough", "value": 2.0, "unit": "s", "op": "<=", "bound": 3, "holds": True}
    ]


def test_a_claim_that_does_not_hold_ends_the_command_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_measure, []) == 1
    assert "small_enough: 2 s (<= 1) DOES NOT HOLD" in capsys.readouterr().out


def test_where_no_claim_was_made_the_command_says_so_and_ends_with_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measure(_: Options) -> Report:
        report = Report("example", rows=[{"name": "a"}])
        report.figure("as_it_is", 95.0, "%")
        return report

    path = tmp_path / "report.json"
    assert main(measure, ["--json", str(path)]) == NOTHING_CLAIMED
    out = capsys.readouterr().out
    assert "as_it_is: 95 % (published without a bound)" in out
    assert "example: no claim was made" in out
    assert json.loads(path.read_text())["figures"] == [{"id": "as_it_is", "value": 95.0, "unit": "%"}]


@pytest.mark.parametrize("name", ["flamby", "groups", "accuracy.users", "accuracy.nri_dc"])
def test_what_needs_real_data_does_not_end_well_without(name: str) -> None:
    measure = importlib.import_module(f"benchmarks.{name}").measure
    assert main(measure, []) == NOTHING_CLAIMED


def test_a_claim_cannot_be_made_twice() -> None:
    report = Report("example")
    report.claim("one", 1, "x", "<=", 1)
    with pytest.raises(ValueError, match="twice"):
        report.claim("one", 0, "x", "<=", 1)
    with pytest.raises(ValueError, match="twice"):
        report.figure("one", 0, "x")


def test_a_data_directory_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(_measure, ["--data", "/nowhere"])
    assert "/nowhere is not a directory" in capsys.readouterr().err
