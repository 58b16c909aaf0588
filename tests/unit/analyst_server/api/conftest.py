from __future__ import annotations

import pytest

from tests.unit.analyst_server.api.client import Api
from tests.unit.analyst_server.world import World


@pytest.fixture
def api(world: World) -> Api:
    return Api(world)
