"""What the tests between containers share."""

from __future__ import annotations

import os

import pytest

from tests.harness.compose import Project, missing_engine


@pytest.fixture(scope="session")
def images() -> None:
    """Build the images, or skip: without an engine there is nothing to see."""
    reason = missing_engine()
    if reason and os.environ.get("ODC_REQUIRE_DOCKER"):
        pytest.fail(f"ODC_REQUIRE_DOCKER is set, but {reason}")
    if reason:
        pytest.skip(f"no Docker engine: {reason}")
    Project("odc-test-images").run("build")
