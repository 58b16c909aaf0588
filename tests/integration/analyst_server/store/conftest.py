from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst_server.store import Records


@pytest.fixture(params=["file", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    """A database of one thread, in a file and in memory."""
    yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}" if request.param == "file" else "sqlite://")


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Records]:
    """A database that several connections open at once: one in memory belongs to its thread."""
    yield from opened(f"sqlite:///{tmp_path / 'odc.sqlite'}")


def opened(url: str) -> Iterator[Records]:
    made = Records(url)
    made.migrate()
    yield made
    made.dispose()
