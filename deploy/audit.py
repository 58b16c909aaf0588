"""Ask an index of advisories about every library that the lock files name: `make audit`.

pip-audit ends with success where the index knows no package at all, as a mirror does that has no advisories.
Here that is no result: "NOT RUN", as where no index can be reached.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 300


@dataclass(frozen=True)
class Verdict:
    """What is said of a lock file, and whether a library in it has a known weakness."""

    text: str
    is_bad: bool = False


def verdict(report: str, complaint: str) -> Verdict:
    """Return what pip-audit's report (JSON) says; ``complaint`` is the reason if there is none."""
    try:
        rows = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = complaint.strip().splitlines() or ["no reason was given"]
        return Verdict(f"NOT RUN: the index of advisories did not answer ({lines[-1]})")
    known = [row for row in rows if "skip_reason" not in row]
    if not known:
        return Verdict("NOT RUN: the index of advisories knows none of the libraries; a mirror may have none")
    found = [f"{row['name']} {row['version']}: {one['id']}" for row in known for one in row["vulns"]]
    skipped = f"; {len(rows) - len(known)} are unknown to the index" if len(known) < len(rows) else ""
    if found:
        return Verdict("\n".join([f"{len(found)} known weaknesses{skipped}", *found]), is_bad=True)
    return Verdict(f"{len(known)} libraries, no known weakness{skipped}")


def audit(lock: Path) -> Verdict:
    """Ask about one lock file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        asked = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
        try:
            done = subprocess.run(  # noqa: S603  # a program of this environment
                [*asked, "--progress-spinner", "off", "-r", str(lock), "-f", "json", "-o", str(report)],
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return verdict("", f"nothing within {LIMIT_S} seconds")
        return verdict(report.read_text() if report.exists() else "", done.stderr)


def main(locks: Sequence[str]) -> int:
    """Print a verdict for each lock file; return 1 if any is bad."""
    verdicts = {name: audit(Path(name)) for name in locks}
    for name, said in verdicts.items():
        sys.stdout.write(f"{name}: {said.text}\n")
    return int(any(said.is_bad for said in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
