"""Where the source files are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    "protocol",
    "metering",
    "runtime",
    "analyst_server",
    "user_client",
    "odc_demo",
    "benchmarks",
    "tests",
)
