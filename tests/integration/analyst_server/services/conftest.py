from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.world import World


@pytest.fixture
def in_a_file(tmp_path: Path) -> Iterator[World]:
    """The analyst with SQLite, for tests that look at its file."""
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The analyst, on every kind of database that it may have."""
    if request.param == "sqlite":
        yield request.getfixturevalue("in_a_file")
        return
    with request.getfixturevalue("postgres").records() as url:
        made = World(tmp_path, database=url)
        yield made
        made.close()


@pytest.fixture
def ready(world: World) -> World:
    """The analyst once it has the anchor and waits for uplinks."""
    return world.until_anchored()
