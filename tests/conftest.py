"""What every test gets: one Hypothesis profile, without a clock, the usual umask, and its turn."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from zlib import crc32

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


def pytest_collection_finish() -> None:
    """Let the garbage collector look seldom: with all modules loaded it took a tenth of the tests' time."""
    gc.freeze()
    gc.set_threshold(5_000)


def pytest_unconfigure() -> None:
    configuration.close()


SHARE = os.environ.get("ODC_TEST_SHARE", "0/1")
"""Which files of tests run, as NUMBER/PARTS: of all files, those that fall into one of so many parts."""
LONGEST_FIRST = ("test_compose.py", "e2e", "integration", "security", "property")
"""In this order files and rooms of tests begin, so that no worker ends long after the others."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [
        item for item in items if _is_in_share(item) and (not configuration.MANY or _is_concerned(item))
    ]
    left = set(items).difference(chosen)
    config.hook.pytest_deselected(items=list(left))
    items[:] = sorted(chosen, key=_place)


def _is_concerned(item: pytest.Item) -> bool:
    """Return whether a test, or a fixture of its rooms, gets an analyst of the configuration."""
    rooms = Path(item.path).relative_to(item.config.rootpath).with_suffix("").parts
    conftests = {".".join([*rooms[:depth], "conftest"]) for depth in range(2, len(rooms))}
    return any(map(configuration.concerns, [".".join(rooms), *conftests & sys.modules.keys()]))


def _is_in_share(item: pytest.Item) -> bool:
    number, parts = map(int, SHARE.split("/"))
    return crc32(item.nodeid.partition("::")[0].encode()) % parts == number % parts


def _place(item: pytest.Item) -> tuple[int, bool]:
    rooms = Path(item.path).relative_to(item.config.rootpath).parts
    place = next((place for place, room in enumerate(LONGEST_FIRST) if room in rooms), len(LONGEST_FIRST))
    has_containers = item.get_closest_marker("compose") is not None
    return place, has_containers  # the others of its room first: one file at a time has the engine
