"""Summarise a round between containers: read every party's results, and print the demo's tables.

Comparing with all rows in one place needs all rows in one place, so this runs in a container of the demo,
without a key and without a network; nobody could do it in practice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from odc_demo.report import assemble, compare, print_tables
from user_client.tables import read_table


def summarize(desks: Path, analyst_report: Path) -> dict[str, Any]:
    """Return the report of the round of the hospitals in ``desks``."""
    hospitals = sorted(path.name for path in desks.iterdir())
    terms = tomllib.loads((desks / hospitals[0] / "terms.toml").read_text())
    analyst = json.loads(analyst_report.read_text())
    compared = compare(
        rows={name: read_table(desks / name / "rows.csv") for name in hospitals},
        hold_out=read_table(desks / hospitals[0] / "hold-out.csv"),
        predictions={name: desks / name / "predictions.csv" for name in hospitals},
        terms=terms,
    )
    moments = [entry["at"] for entry in analyst["history"]]
    return assemble(
        dataset=terms["title"].removeprefix("Demo: "),
        analyst=analyst,
        members=[json.loads((desks / name / "status.json").read_text()) for name in hospitals],
        evaluated=[_evaluated(desks / name / "evaluated.json") for name in hospitals],
        received=[json.loads((desks / name / "received.json").read_text()) for name in hospitals],
        terms=terms,
        compared=compared,
        seconds={"total": max(moments) - min(moments)},
    )


def _evaluated(path: Path) -> Any:
    """Return what a hospital's ``odc evaluate`` found; None if it had no row to evaluate on."""
    text = path.read_text()
    return json.loads(text) if text else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m odc_demo.summary", description=__doc__)
    parser.add_argument("--desks", type=Path, required=True, help="one directory for each hospital")
    parser.add_argument("--analyst-report", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where to write report.json")
    given = parser.parse_args()
    report = summarize(given.desks, given.analyst_report)
    (given.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print_tables(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
