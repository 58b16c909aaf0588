from __future__ import annotations

import pytest

from tests.harness.app import Api
from tests.harness.world import World


@pytest.fixture
def api(world: World) -> Api:
    return Api(world)
