"""A hostile network: trailers, pipelining, slow heads and bodies, idle connections, floods; and a bad member.

A consortium plays one round after another meanwhile. Its server is a process of its own with mutual TLS, and
so are the strangers. It takes one minute, ten with
`--full`, or `--minutes N`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.abuse import campaign


def main(arguments: list[str]) -> int:
    """Run the benchmark; return 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float)
    given, others = parser.parse_known_args(arguments)

    def measure(options: report.Options) -> report.Report:
        minutes = given.minutes or (10 if options.full else 1)
        with tempfile.TemporaryDirectory(prefix="odc-abuse-") as folder:
            found = campaign.measure(Path(folder), 60 * minutes)
        for row in found.rows:
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        return found

    return report.main(measure, others)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
