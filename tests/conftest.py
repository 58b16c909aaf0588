"""What every test gets: one Hypothesis profile, without a clock, and the usual umask."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "odc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", settings.get_profile("odc"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "odc"))


def pytest_runtest_setup() -> None:
    """Undo the umask that `odc-analyst` sets, which a test may have run in this process."""
    os.umask(0o022)
