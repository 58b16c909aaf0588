"""The process that computes with what institutions sent reaches no key, no records and no server."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from analyst_server.blobs import S3Blobs
from analyst_server.compute import process_pool, stop_process_pool
from analyst_server.compute.pool import MOST_OPEN_FILES
from analyst_server.compute.sequence import load_libraries
from protocol.errors import StorageBusyError
from runtime.confinement import landlock_version, see_only

T = TypeVar("T")

LIMIT_S = 120
MEMORY_BYTES = 2**29
needs_landlock = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    for name in ("identity/key.pem", "odc.sqlite", "blobs/of-a-round"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "data"


@pytest.fixture
def pool(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPoolExecutor]:
    monkeypatch.setenv("ODC_ANALYST_DATABASE_URL", "postgresql://odc:hunter2@db/odc")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    made = process_pool(1, memory_bytes=MEMORY_BYTES, blob_dir=data_dir / "blobs")
    yield made
    stop_process_pool(made)


def asked(pool: ProcessPoolExecutor, function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function of a library says there: this file is not among those that it may read."""
    return pool.submit(function, *arguments).result(LIMIT_S)


@needs_landlock
@pytest.mark.parametrize("name", ["identity/key.pem", "odc.sqlite"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY])
def test_it_opens_neither_key_nor_records(
    pool: ProcessPoolExecutor, data_dir: Path, name: str, flags: int
) -> None:
    os.close(os.open(data_dir / name, flags))
    with pytest.raises(PermissionError):
        asked(pool, os.open, data_dir / name, flags)


@needs_landlock
@pytest.mark.parametrize("name", ["mem", "environ", "maps"])
def test_it_reads_nothing_of_the_server(pool: ProcessPoolExecutor, name: str) -> None:
    with pytest.raises(PermissionError):
        asked(pool, os.open, f"/proc/{os.getpid()}/{name}", os.O_RDONLY)


@needs_landlock
def test_it_reads_and_writes_what_a_round_needs(pool: ProcessPoolExecutor, data_dir: Path) -> None:
    blobs = data_dir / "blobs"
    assert asked(pool, Path.read_text, blobs / "of-a-round") == "blobs/of-a-round"
    asked(pool, Path.write_text, blobs / "new.part", "result")
    asked(pool, os.rename, blobs / "new.part", blobs / "new")
    assert (blobs / "new").read_text() == "result"
    asked(pool, load_libraries)


@pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock does not know TCP")
def test_it_connects_to_nobody(pool: ProcessPoolExecutor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        socket.create_connection(address).close()
        with pytest.raises(PermissionError):
            asked(pool, socket.create_connection, address)


@pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock does not know TCP")
def test_it_connects_to_the_ports_of_the_blobs_and_no_other(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as named, socket.create_server(("127.0.0.1", 0)) as other:
        port = named.getsockname()[1]
        made = process_pool(1, memory_bytes=0, blob_dir=data_dir / "blobs", ports=[port])
        try:
            with suppress(TypeError, OSError):  # it may write no file through which it could send its socket
                asked(made, socket.create_connection, named.getsockname())
            named.settimeout(LIMIT_S)
            named.accept()[0].close()
            with pytest.raises(PermissionError):
                asked(made, socket.create_connection, other.getsockname())
        finally:
            stop_process_pool(made)


@needs_linux
def test_credentials_of_the_blobs_are_in_its_memory_and_not_in_its_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    made = process_pool(1, memory_bytes=0, blob_dir=data_dir / "blobs", ports=[9])
    try:
        assert asked(made, os.getenv, "AWS_SECRET_ACCESS_KEY") is None
        with pytest.raises(StorageBusyError):  # it has credentials, and nobody listens there
            asked(made, S3Blobs("s3://bucket", data_dir / "blobs").exists, "key")
    finally:
        stop_process_pool(made)


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock does not know signals")
def test_it_signals_no_other_process(pool: ProcessPoolExecutor) -> None:
    with pytest.raises(PermissionError):
        asked(pool, os.kill, os.getpid(), 0)


@needs_linux
def test_it_has_no_secret_of_the_environment(pool: ProcessPoolExecutor) -> None:
    with suppress(PermissionError):  # what nobody may trace, only root may read
        assert b"hunter2" not in asked(pool, Path.read_bytes, Path("/proc/self/environ"))
    assert asked(pool, os.getenv, "PATH")
    assert asked(pool, os.getenv, "PGPASSWORD") is None


@needs_linux
def test_it_has_no_open_file_of_the_server(pool: ProcessPoolExecutor, data_dir: Path) -> None:
    path = data_dir / "identity/key.pem"
    with path.open("rb") as key, socket.create_server(("127.0.0.1", 0)) as listening:
        for opened in (key.fileno(), listening.fileno()):
            os.set_inheritable(opened, True)  # as a library might
        numbers = asked(pool, os.listdir, "/proc/self/fd")
    links = []
    for number in numbers:
        with suppress(FileNotFoundError):  # the listing itself
            links.append(asked(pool, os.readlink, f"/proc/self/fd/{number}"))
    assert len(links) > 3
    assert [link for link in links if "key.pem" in link or link.startswith("socket")] == []


@pytest.mark.parametrize(("name", "most"), [("RLIMIT_CORE", 0), ("RLIMIT_NOFILE", MOST_OPEN_FILES)])
def test_its_limits_cannot_be_raised_again(pool: ProcessPoolExecutor, name: str, most: int) -> None:
    soft, hard = asked(pool, resource.getrlimit, getattr(resource, name))
    assert soft == hard
    assert 0 <= hard <= most


@needs_linux
def test_it_takes_no_more_memory_than_it_may(pool: ProcessPoolExecutor) -> None:
    with pytest.raises(MemoryError):
        asked(pool, bytes, 2 * MEMORY_BYTES)
    assert asked(pool, bytes, 1000) == bytes(1000)


@needs_landlock
def test_it_reads_libraries_wherever_they_are_installed(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that a user has installed for itself alone."""
    library = tmp_path / ".local" / "site-packages" / "library.py"
    library.parent.mkdir(parents=True)
    library.write_text("A = 1")
    monkeypatch.syspath_prepend(str(library.parent))
    made = process_pool(1, memory_bytes=0, blob_dir=data_dir / "blobs")
    try:
        assert asked(made, Path.read_text, library) == "A = 1"
    finally:
        stop_process_pool(made)


@needs_landlock
def test_a_child_that_is_not_confined_opens_the_key(data_dir: Path) -> None:
    """The mutation: all but what the kernel has to be asked for."""
    key, pool = data_dir / "identity/key.pem", ProcessPoolExecutor(1)
    try:
        assert asked(pool, Path.read_text, key) == "identity/key.pem"
        assert asked(pool, see_only, [], [data_dir / "blobs"])
        with pytest.raises(PermissionError):
            asked(pool, Path.read_text, key)
    finally:
        stop_process_pool(pool)
