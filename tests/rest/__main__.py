"""Schemathesis against the analyst, longer and by a seed: `make openapi EXAMPLES=200 SEED=7`."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.described import CALLERS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rest", description=__doc__)
    parser.add_argument("--examples", type=int, default=50, help="of each operation")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to repeat it")
    parser.add_argument("--caller", choices=CALLERS, action="append", help="only this one")
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    print(f"seed {seed}")
    found = 0
    for caller in given.caller or CALLERS:
        began = time.monotonic()
        with TemporaryDirectory() as directory:
            outcome = run(Path(directory), caller, given.examples, seed)
        seconds = time.monotonic() - began
        answered, failures = len(outcome.answered), len(outcome.findings)
        print(
            f"{caller}: {outcome.requests} requests in {seconds:.0f} s,"
            f" {answered} operations answered, {failures} failures"
        )
        for one in outcome.findings:
            print(f"  {one}")
        found += failures
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
