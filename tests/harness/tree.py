"""Where the source files are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    "protocol",
    "metering",
    "runtime",
    "pages",
    "analyst_server",
    "user_client",
    "orthonormal_data_collaboration",
    "odc_demo",
    "fake_analyst",
    "benchmarks",
    "manual",
    "tests",
)
