"""What the tests between containers share, and the installed wheel."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.compose import Project, missing_engine
from tests.harness.wheel import build_wheel, install_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of an environment are that has the wheel, and the libraries of this one."""
    return install_wheel(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def images() -> Iterator[None]:
    """Build the images, or skip: without an engine there is nothing to see.

    One file at a time has the engine: the containers of two would crawl on few cores.
    """
    reason = missing_engine()
    if reason and os.environ.get("ODC_REQUIRE_DOCKER"):
        pytest.fail(f"ODC_REQUIRE_DOCKER is set, but {reason}")
    if reason:
        pytest.skip(f"no Docker engine: {reason}")
    with (Path(tempfile.gettempdir()) / "odc-test-engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Project("odc-test-images").run("build")
        yield
