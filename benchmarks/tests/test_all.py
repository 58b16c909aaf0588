from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import benchmarks.__main__ as every
from benchmarks.report import NOTHING_CLAIMED

FOLDER = Path(every.__file__).parent
CLAIMS = re.compile(r"\.claim\(|add_claims\(")
RUNS_AS_REPORT = re.compile(r"(report\.)?main\(measure\b")
PARTS_OF_ANOTHER = {"accuracy.nri_dc", "accuracy.users"}
"""They are commands, and `benchmarks.accuracy` measures them too."""


def _programs() -> set[str]:
    """Return every command among the benchmarks that makes claims or writes a report of its own."""
    found = set()
    for path in FOLDER.rglob("*.py"):
        text, name = path.read_text(), ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        is_command = 'if __name__ == "__main__"' in text
        if name.startswith(("tests.", "flower.")) or name == "__main__" or not is_command:
            continue
        if CLAIMS.search(text) or RUNS_AS_REPORT.search(text) or name.endswith(".__main__"):
            found.add(name.removesuffix(".__main__"))
    return found


def test_every_program_with_claims_is_run() -> None:
    assert set(every.BENCHMARKS) == _programs() - PARTS_OF_ANOTHER
    assert list(every.BENCHMARKS) == sorted(every.BENCHMARKS)


def test_every_module_with_claims_belongs_to_a_program_that_is_run() -> None:
    for path in FOLDER.rglob("*.py"):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        if name == "report" or name.startswith("tests.") or not CLAIMS.search(path.read_text()):
            continue
        assert name in every.BENCHMARKS or name.rpartition(".")[0] in every.BENCHMARKS, name


@pytest.mark.parametrize(
    ("codes", "expected", "told"),
    [
        ({}, 0, ""),
        ({"flamby": NOTHING_CLAIMED}, NOTHING_CLAIMED, "made no claim"),
        ({"flamby": NOTHING_CLAIMED, "fits": 1}, 1, "did not hold or the program failed: fits"),
    ],
)
def test_what_was_not_claimed_is_said_and_is_no_success(
    codes: dict[str, int],
    expected: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def run(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        assert not check
        return subprocess.CompletedProcess(command, codes.get(command[2].removeprefix("benchmarks."), 0))

    monkeypatch.setattr(subprocess, "run", run)
    assert every.main(["--out", str(tmp_path)]) == expected
    out = capsys.readouterr().out
    assert told in out
    assert ("flamby" in out.split("== wire")[1]) is ("flamby" in codes)
