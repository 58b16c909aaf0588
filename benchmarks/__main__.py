"""Run every benchmark, one after another, each in its own process: `make bench`.

It ends with 1 if a claim did not hold or a program failed, and otherwise with 3 if one made no claim.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.report import NOTHING_CLAIMED

BENCHMARKS: Final[tuple[str, ...]] = (
    "abuse",
    "accuracy",
    "alignment",
    "conformance",
    "dask",
    "defaults",
    "encodings",
    "fewer_numbers",
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
    "own_maps",
    "predicted",
    "privacy",
    "scale",
    "sums",
    "uplink",
    "uplink.lattice",
    "wire",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all benchmarks, say which failed and which claimed nothing, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"), metavar="DIR")
    parser.add_argument("--full", action="store_true", help="the papers' sizes: hours instead of minutes")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the real data sets (docs/benchmarks.md)")
    given = parser.parse_args(arguments)
    passed_on = [*(["--full"] if given.full else []), *(["--data", str(given.data)] if given.data else [])]
    failed, silent = list[str](), list[str]()
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(given.out / f"{name}.json")]
        status = subprocess.run([*command, *passed_on], check=False).returncode
        if status == NOTHING_CLAIMED:
            silent.append(name)
        elif status:
            failed.append(name)
    if silent:
        print("made no claim, and may have measured nothing without --data or --full:", ", ".join(silent))
    if failed:
        print("a claim did not hold or the program failed:", ", ".join(failed))
    return 1 if failed else NOTHING_CLAIMED if silent else 0


if __name__ == "__main__":
    sys.exit(main())
