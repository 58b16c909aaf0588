"""What every test gets: one Hypothesis profile, without a clock, the usual umask, and a worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "odc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", settings.get_profile("odc"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "odc"))


def pytest_runtest_setup() -> None:
    """Undo the umask that `odc-analyst` sets, which a test may have run in this process."""
    os.umask(0o022)


LONGEST_FIRST = ("e2e", "integration", "security", "property")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, and all containers on one: two demos at once crawl on few cores.

    What takes longest begins first, so that no worker ends long after the others.
    """
    for item in items:
        group = "compose" if item.get_closest_marker("compose") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, int]:
    rooms = Path(item.path).relative_to(item.config.rootpath).parts
    place = next((index for index, room in enumerate(LONGEST_FIRST) if room in rooms), len(LONGEST_FIRST))
    return item.get_closest_marker("compose") is None, place
