"""The configurations that the same tests run on.

By default an analyst has SQLite, a directory, and processes of its own that compute. With
``ODC_TEST_CONFIGURATION=many`` (`make test-many`) it has PostgreSQL, S3, and Dask with two workers, and a
second analyst stands beside it behind a balancer. Tests without an analyst run in the first alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.harness.dask import cluster
from tests.harness.postgresql import PostgreSql, analysts_postgresql
from tests.harness.s3 import arrays_in_s3

MANY: Final = {"one": False, "many": True}[os.environ.get("ODC_TEST_CONFIGURATION", "one")]
_OWN: Final = ("ODC_ANALYST_DATABASE_URL", "ODC_ANALYST_BLOB_URL", "ODC_ANALYST_COMPUTE_URL")
_servers = ExitStack()


def is_many(settings: Mapping[str, str]) -> bool:
    """Return whether an analyst has several of everything: unless a test says itself what it has."""
    return MANY and not settings.keys() & set(_OWN)


@cache
def concerns(module: str) -> bool:
    """Return whether a module of tests gets an analyst from here, by whatever it imports of the tests."""
    seen, waiting = set[str](), [module]
    while waiting:
        seen.add(name := waiting.pop())
        for value in vars(sys.modules[name]).values():
            found = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(found, str) and found.startswith("tests.") and found in sys.modules.keys() - seen:
                waiting.append(found)
    return __name__ in seen


@cache
def _postgresql() -> PostgreSql:
    return _servers.enter_context(analysts_postgresql())


def close() -> None:
    """Stop what all tests of this process share."""
    _servers.close()


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Yield what the environment of an analyst says of a database and a place in S3 of its own.

    How S3 is reached is in the environment of this process too, for commands that run in it.
    """
    with (
        _postgresql().database(has_tables=True) as name,
        arrays_in_s3() as arrays,
        pytest.MonkeyPatch.context() as patch,
    ):
        for variable in arrays.keys() - {"ODC_ANALYST_BLOB_URL"}:
            patch.setenv(variable, arrays[variable])
        yield {"ODC_ANALYST_DATABASE_URL": _postgresql().records_url(name), **arrays}


@contextmanager
def stores_and_workers(directory: Path) -> Iterator[dict[str, str]]:
    """Yield the same, and two workers of a Dask scheduler."""
    with stores() as found, cluster(directory / "dask", directory, arrays=found) as workers:
        yield {**found, "ODC_ANALYST_COMPUTE_URL": workers.url}
