"""Tries a million hostile inputs: ``python -m tests.fuzz [--target NAME] [--runs N] [--seconds S]``."""

from __future__ import annotations

import argparse
import re
import secrets
import subprocess
import sys
import warnings
from pathlib import Path

from tests.fuzz.kept import BUILD, minimise
from tests.fuzz.one import DONE, has_atheris
from tests.fuzz.target import ready
from tests.fuzz.targets import TARGETS

_RUNS = re.compile(rf"^(?:stat::number_of_executed_units:|{DONE})\s+([0-9]+)", re.MULTILINE)


def main() -> int:
    """Fuzz, try one input again, or keep what was new."""
    given = _arguments()
    names = given.target or list(TARGETS)
    if given.input:
        return _try_again(names[0], given.input)
    if given.keep:
        return _keep(names)
    engine = "atheris, guided by coverage" if has_atheris() else "our own mutations (no atheris here)"
    print(f"inputs are made by {engine}; seed {given.seed}")
    shares = sum(TARGETS[name].share for name in names)
    all_runs, is_found = 0, False
    for name in names:
        part = TARGETS[name].share / shares
        runs, kept, finding = _fuzz(name, round(given.runs * part), round(given.seconds * part), given.seed)
        all_runs += runs
        print(
            f"{name:<12} {runs:>8} runs, {kept:>5} inputs kept, {'1 finding' if finding else 'no findings'}"
        )
        if finding:
            is_found = True
            print(f"  again: python -m tests.fuzz --target {name} --input {finding}")
        sys.stdout.flush()
    print(f"{'all':<12} {all_runs:>8} runs")
    return 1 if is_found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="try hostile inputs on every decoder"
    )
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), help="one of several; all without it"
    )
    parser.add_argument(
        "--runs", type=int, default=1_000_000, help="inputs, over all targets by their shares"
    )
    parser.add_argument(
        "--seconds", type=int, default=0, help="end after so long, over all targets; 0: never"
    )
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**31), help="what the inputs are drawn by"
    )
    parser.add_argument("--input", type=Path, help="try this one file on the target")
    parser.add_argument(
        "--keep", action="store_true", help="put what was new and short into tests/fuzz/corpus"
    )
    return parser.parse_args()


def _fuzz(name: str, runs: int, seconds: int, seed: int) -> tuple[int, int, Path | None]:
    """Return how many inputs were run, how many were kept, and the one that failed."""
    inputs, findings, log = (BUILD / name / part for part in ("inputs", "findings", "log.txt"))
    findings.mkdir(parents=True, exist_ok=True)
    before, failed_before = set(inputs.glob("*")), set(findings.glob("*"))
    command = [sys.executable, "-m", "tests.fuzz.one", name, str(max(runs, 1)), str(seconds), str(seed)]
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    said = log.read_text(errors="replace")
    counted = _RUNS.findall(said)
    failed = [
        path for path in set(findings.glob("*")) - failed_before if not path.name.startswith("slow-unit")
    ]
    if code:
        print(said[-3000:])
    finding = failed[0] if failed else (log if code else None)
    return int(counted[-1]) if counted else 0, len(set(inputs.glob("*")) - before), finding


def _try_again(name: str, path: Path) -> int:
    with ready(TARGETS[name]) as run:
        print(f"{name}: {run(path.read_bytes())}")
    return 0


def _keep(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    for name in names:
        with ready(TARGETS[name]) as run:
            print(f"{name:<12} {minimise(name, run, TARGETS[name].seeds()):>5} inputs in the repository")
    return 0


if __name__ == "__main__":
    sys.exit(main())
