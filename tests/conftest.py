"""What every test gets: one Hypothesis profile, without a clock, the usual umask, and its turn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import configuration

settings.register_profile(
    "odc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", settings.get_profile("odc"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "odc"))


def pytest_runtest_setup() -> None:
    """Undo the umask that `odc-analyst` sets, which a test may have run in this process."""
    os.umask(0o022)


def pytest_unconfigure() -> None:
    configuration.close()


LONGEST_FIRST = (
    "test_compose.py",
    "e2e",
    "test_compose_scale.py",
    "integration",
    "test_virtual_machine.py",
    "security",
    "test_compose_apart.py",
    "property",
)
"""In this order files and rooms of tests begin, so that no worker ends long after the others.

The files that have containers stand apart: one at a time has the engine, and a second one would wait for it.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    file = Path(item.path)
    for name in (file.name, *file.relative_to(item.config.rootpath).parts):
        if name in LONGEST_FIRST:
            return LONGEST_FIRST.index(name)
    return len(LONGEST_FIRST)
