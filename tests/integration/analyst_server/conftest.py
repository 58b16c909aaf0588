from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analyst_server import cli, cli_options
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


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command of the analyst whose stores are those of ``world``."""
    monkeypatch.setattr(cli_options, "open_analyst", lambda _settings, **_options: world.analyst)
    runner = CliRunner()

    def call(*arguments: Any) -> Any:
        return runner.invoke(cli.app, [str(argument) for argument in arguments])

    return call


@pytest.fixture(params=["sqlite", "postgresql"])
def on_each_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The analyst, on every kind of database that it may have."""
    if request.param == "sqlite":
        with closing(World(tmp_path)) as made:
            yield made
        return
    with (
        request.getfixturevalue("postgres").records() as url,
        closing(World(tmp_path, database=url)) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def nobody_acts() -> None:
    """Forget who ran the commands of other tests in this process."""
    act_as(None)
