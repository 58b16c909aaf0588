"""Eight institutions upload at once: the analyst beside servers that only store or discard the same bytes.

256 MB in all, 2 GB with `--full`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.ingest import experiment

SMALL_BYTES: Final = 256 * 10**6
FULL_BYTES: Final = 2 * 10**9
PAIRS: Final = 5


def measure(options: report.Options) -> report.Report:
    """Measure in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="odc-ingest-") as folder:
        return experiment.measure(Path(folder), FULL_BYTES if options.full else SMALL_BYTES, PAIRS)


if __name__ == "__main__":
    raise SystemExit(report.main(measure))
