"""Plant one bug at a time in a copy of the client, and run its tests on the vectors."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from benchmarks.conformance.mutants import MUTANTS, Mutant
from benchmarks.report import Report

REPOSITORY: Final = Path(__file__).parents[2]
NODE: Final = shutil.which("node") or "node"
CLIENT: Final = REPOSITORY / "examples" / "node-institution"
VECTORS: Final = REPOSITORY / "tests" / "vectors"
TESTS: Final = (
    "more.test.js",
    "rest.test.js",
    "ledger.test.js",
    "models.test.js",
    "table.test.js",
    "messages.test.js",
    "usage.test.js",
)
"""The quick ones first: one that fails is enough."""
PATIENCE_S: Final = 120
"""A client that does not end is as broken as one that fails: the tests take some seconds."""


def passes(folder: Path, mutant: Mutant | None = None) -> bool:
    """Return whether a copy of the client in ``folder``, with a bug or none, passes all vectors."""
    copy = folder / "client"
    shutil.copytree(CLIENT, copy)
    if mutant is not None:
        module = copy / "src" / f"{mutant.module}.js"
        module.write_text(mutant.planted(module.read_text()))
    return all(_passes(copy, test) for test in TESTS)


def _passes(copy: Path, test: str) -> bool:
    """Return whether one file of tests passes: by itself it is a program that ends with 1 if it does not."""
    environment = {**os.environ, "ODC_VECTORS": str(VECTORS)}
    try:
        done = subprocess.run(
            [NODE, f"test/{test}"],
            cwd=copy,
            env=environment,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def survives(mutant: Mutant) -> bool:
    """Return whether no vector finds the bug."""
    with tempfile.TemporaryDirectory(prefix="odc-mutant-") as folder:
        return passes(Path(folder), mutant)


def measure(mutants: Iterable[Mutant] = MUTANTS, *, workers: int | None = None) -> Report:
    """Plant each bug and return the report, with the share that was found."""
    tried = list(mutants)
    with tempfile.TemporaryDirectory(prefix="odc-client-") as folder:
        if not passes(Path(folder)):
            raise RuntimeError(
                "the client fails without a bug: run `node --test` in examples/node-institution"
            )
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        alive = list(pool.map(survives, tried))
    rows: list[dict[str, Any]] = [
        {"module": each.module, "bug": each.means, "killed": not lives}
        for each, lives in zip(tried, alive, strict=True)
    ]
    report = Report("conformance", {"bugs": len(tried), "client": "examples/node-institution"}, rows)
    report.claim("conformance_mutants_killed", 1 - sum(alive) / len(tried), "share", ">=", 0.95)
    return report
