"""Run every benchmark, one after another, each in its own process: `make bench`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

BENCHMARKS: Final[tuple[str, ...]] = (
    "abuse",
    "accuracy",
    "alignment",
    "conformance",
    "dask",
    "defaults",
    "encodings",
    "fits",
    "flamby",
    "footprint",
    "groups",
    "ingest",
    "instead",
    "judging",
    "knobs",
    "memory",
    "model_privacy",
    "models",
    "nri",
    "numbers",
    "predicted",
    "privacy",
    "scale",
    "sums",
    "uplink",
    "wire",
)


def main() -> int:
    """Run all benchmarks and return 1 if one of them failed, 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"), metavar="DIR")
    parser.add_argument("--full", action="store_true", help="the papers' sizes: hours instead of minutes")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the real data sets (docs/benchmarks.md)")
    given = parser.parse_args()
    passed_on = [*(["--full"] if given.full else []), *(["--data", str(given.data)] if given.data else [])]
    failed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(given.out / f"{name}.json")]
        if subprocess.run([*command, *passed_on], check=False).returncode:
            failed.append(name)
    if failed:
        print("a claim did not hold or the program failed:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
