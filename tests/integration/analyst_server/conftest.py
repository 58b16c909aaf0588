from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.services.acts import act_as
from tests.harness.postgresql import PostgreSql, analysts_postgresql
from tests.harness.world import World


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSql]:
    with analysts_postgresql() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.records.dispose()


@pytest.fixture(autouse=True)
def nobody_acts() -> None:
    """Forget who ran the commands of other tests in this process."""
    act_as(None)
