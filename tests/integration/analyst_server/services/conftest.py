from __future__ import annotations

import pytest

from tests.harness.world import World


@pytest.fixture
def ready(world: World) -> World:
    """The analyst once it has the anchor and waits for uplinks."""
    return world.until_anchored()
