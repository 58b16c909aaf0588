from __future__ import annotations

import pickle
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from distributed import KilledWorker

from analyst_server.blobs import DirectoryBlobs, S3Blobs
from analyst_server.compute.dask_pool import (
    ComputeUnreachableError,
    DaskPool,
    error_of,
    require_dask,
    scheduler_of,
)
from analyst_server.compute.dask_step import apart
from analyst_server.compute.sums import SumsSpec
from analyst_server.settings import Settings
from odc_demo.actors import free_port
from protocol.errors import InputError


class Ended:
    """A step of Dask that has ended."""

    def __init__(self, status: str, error: Any = None) -> None:
        self.status, self._error = status, error

    def exception(self) -> Any:
        return self._error


def test_a_scheduler_is_named_by_host_and_port() -> None:
    assert scheduler_of("tcp://scheduler:9000") == ("scheduler", 9000)
    assert scheduler_of("tls://10.0.0.1") == ("10.0.0.1", 8786)


@pytest.mark.parametrize("url", ["http://host:1", "tcp://", "tcp://host/path", "host:8786"])
def test_what_is_no_address_of_a_scheduler_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="tcp://HOST:PORT"):
        scheduler_of(url)


@pytest.mark.parametrize("url", ["http://host:1", "tcp://", "tcp://user@host:1"])
def test_the_settings_refuse_it_as_well(url: str) -> None:
    with pytest.raises(ValueError, match="compute_url"):
        Settings(compute_url=url)


def test_a_scheduler_that_does_not_answer_is_an_error_of_its_own() -> None:
    with pytest.raises(ComputeUnreachableError, match="no Dask scheduler answers"):
        DaskPool(f"tcp://127.0.0.1:{free_port()}")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match="distributed") as caught:
        require_dask()
    assert "[dask]" in caught.value.hint


def test_a_step_that_ended_its_workers_looks_like_one_that_ended_its_process() -> None:
    worker: Any = None
    killed = KilledWorker("align", worker, 3)
    assert isinstance(error_of(Ended("error", killed)), BrokenProcessPool)


def test_an_error_of_a_step_stays_what_it_was_and_a_lost_step_may_come_again() -> None:
    error = ValueError("class number 1")
    assert error_of(Ended("error", error)) is error
    assert error_of(Ended("finished")) is None
    for status in ("cancelled", "lost"):
        assert isinstance(error_of(Ended(status)), ComputeUnreachableError)


def test_two_runs_of_one_step_write_to_folders_of_their_own() -> None:
    nothing: Any = None
    given = SumsSpec((), nothing, 1, 0, None, 0.0, 1.0, 0, 0, "round/work-1")
    first, second = apart(given), apart(given)
    assert first.folder != second.folder
    assert all(one.folder.startswith("round/work-1/") for one in (first, second))
    assert apart("anything else") == "anything else"


def test_a_store_of_blobs_travels_by_its_address(tmp_path: Path) -> None:
    for store in (DirectoryBlobs(tmp_path / "blobs"), S3Blobs("s3://bucket/prefix", tmp_path)):
        data = pickle.dumps(store)
        assert len(data) < 1024
        assert repr(pickle.loads(data)) == repr(store)  # noqa: S301  # our own bytes
