from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.store import Records


@pytest.fixture(params=["file", "memory", "postgresql"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """A database of one thread, in a file, in memory and at a server."""
    if request.param == "postgresql":
        yield from of_postgresql(request)
    else:
        yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}" if request.param == "file" else "sqlite://")


@pytest.fixture(params=["file", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """A database that several connections open at once: one in memory belongs to its thread."""
    if request.param == "postgresql":
        yield from of_postgresql(request)
    else:
        yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}")


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Records]:
    """SQLite in a file."""
    yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}")


def of_postgresql(request: pytest.FixtureRequest) -> Iterator[Records]:
    with request.getfixturevalue("postgres").records() as url:
        yield from opened(url)


def opened(url: str) -> Iterator[Records]:
    made = Records(url)
    made.migrate()
    yield made
    made.dispose()
