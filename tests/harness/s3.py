"""A real S3 server that the environment names, and a place of its own there for each test.

`.ci/run` starts one and sets ``ODC_REQUIRE_S3``: from then on a missing server is a failure.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import obstore
import pytest
from obstore.store import S3Store

_NAMES = ("ODC_TEST_S3_ENDPOINT", "ODC_TEST_S3_ACCESS_KEY", "ODC_TEST_S3_SECRET_KEY")
BUCKET = "odc-tests"


@dataclass(frozen=True)
class S3:
    """A server that answers, with a bucket."""

    endpoint: str
    access_key: str
    secret_key: str

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
        }

    def client(self) -> S3Store:
        config: Any = {name.lower(): value for name, value in self.environment.items()}
        return S3Store(BUCKET, config=config, client_options={"allow_http": True})

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects below a prefix."""
        return sorted(one["path"] for page in self.client().list(f"{prefix}/") for one in page)

    @contextmanager
    def prefix(self) -> Iterator[str]:
        """Yield a new prefix in the bucket; what lies there is deleted afterwards."""
        found = f"test-{secrets.token_hex(6)}"
        yield found
        if names := self.names(found):
            self.client().delete(names)


@contextmanager
def arrays_in_s3() -> Iterator[dict[str, str]]:
    """Yield what the environment of an analyst says that keeps its arrays there."""
    server = s3_server()
    with server.prefix() as prefix:
        yield {**server.environment, "ODC_ANALYST_BLOB_URL": f"s3://{BUCKET}/{prefix}"}


def s3_server() -> S3:
    """Return the server; the tests that need it are skipped where the environment names none."""
    given = [os.environ.get(name, "") for name in _NAMES]
    if not all(given):
        reason = f"no S3 server: {', '.join(_NAMES)} are not set"
        if os.environ.get("ODC_REQUIRE_S3"):
            pytest.fail(f"ODC_REQUIRE_S3 is set, but {reason}")
        pytest.skip(reason)
    found = S3(*given)
    address = obstore.sign(found.client(), "PUT", "", timedelta(minutes=1))
    httpx.put(address, timeout=30).raise_for_status()  # again is fine
    return found
