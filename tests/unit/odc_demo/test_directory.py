"""The directory of a demo: an earlier demo gives way, whatever else is there stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from odc_demo import play
from odc_demo.directory import MARKER, begin
from protocol.errors import InputError
from runtime.terminal import exit_code


def left(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


def test_a_directory_with_a_persons_files_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the command, which would start processes after it."""

    def never(_data_dir: Path) -> NoReturn:
        raise RuntimeError("the demo was started")

    (tmp_path / "thesis.txt").write_text("years")
    monkeypatch.setattr(play, "Analyst", never)
    monkeypatch.setattr(sys, "argv", ["odc-demo", "--out", str(tmp_path)])
    assert play.main() == exit_code(InputError)
    assert left(tmp_path) == ["thesis.txt"]
    told = " ".join(capsys.readouterr().err.split())
    assert "not empty" in told
    assert "name another directory with --out" in told


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_that_is_empty_or_not_there_is_begun(exists: bool, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    if exists:
        out.mkdir(parents=True)
    begin(out, ["hospital-a"])
    assert left(out) == [MARKER]


def test_a_second_demo_removes_what_the_first_made_and_nothing_else(tmp_path: Path) -> None:
    begin(tmp_path, ["site-1"])
    for folder in ("analyst", "site-1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("x")
    for file in ("terms.toml", "notes-of-a-person.txt"):
        (tmp_path / file).write_text("x")
    begin(tmp_path, ["site-2"])
    assert left(tmp_path) == [MARKER, "notes-of-a-person.txt"]


def test_the_report_of_a_version_without_a_marker_is_known(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"parties": [{"name": "site-1"}]}))
    (tmp_path / "site-1").mkdir()
    begin(tmp_path, ["site-1"])
    assert left(tmp_path) == [MARKER]


@pytest.mark.parametrize("report", ["[]", "no JSON", '{"parties": [{"name": "../thesis"}]}'])
def test_a_report_of_another_program_is_no_sign_of_a_demo(report: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(report)
    with pytest.raises(InputError):
        begin(tmp_path, ["site-1"])
    assert left(tmp_path) == ["report.json"]


def test_a_persons_file_with_the_name_of_a_hospital_is_not_overwritten(tmp_path: Path) -> None:
    begin(tmp_path, ["site-1"])
    (tmp_path / "site-2").write_text("a person's")
    with pytest.raises(InputError, match="site-2"):
        begin(tmp_path, ["site-2"])
    assert (tmp_path / "site-2").exists()


def test_a_file_is_not_a_directory_to_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not a directory"):
        begin(tmp_path / "file", [])
