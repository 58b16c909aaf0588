"""Bugs planted in the client in Node, one at a time: what share the test vectors find. Needs `node`."""

from __future__ import annotations

from benchmarks import report
from benchmarks.conformance import running


def measure(_options: report.Options) -> report.Report:
    """Plant every bug of the list, and name those that survive."""
    found = running.measure()
    for row in found.rows:
        if not row["killed"]:
            print(f"survived: {row['module']}: {row['bug']}", flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(report.main(measure))
