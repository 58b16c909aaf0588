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


@pytest.fixture
def world(on_each_database: World) -> World:
    return on_each_database


@pytest.fixture
def ready(world: World) -> World:
    """The analyst once it has the anchor and waits for uplinks."""
    return world.until_anchored()
