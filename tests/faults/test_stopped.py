"""SIGTERM: requests under way come to an end, uploads are kept, and after the restart nobody has noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.harness.consortium import WAIT_S, Consortium, consortium, rows
from tests.harness.line import line
from tests.harness.stranger import HEALTH, answer, plain, secured

MIB = 2**20
LARGE = {"features": 20, "latent_dim": 20, "anchor": {"kind": "haar", "rows": 20}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    directory = tmp_path_factory.mktemp("stopped")
    with consortium(directory, "lead-hospital", "hospital-b", ODC_ANALYST_DRAIN_S="2") as found:
        yield found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose uplink is 80 bytes a row: ten chunks of a mebibyte."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    pyarrow.parquet.write_table(rows(3, 130_000, features=20), path)
    return path


def arrived_bytes(made: Consortium, collaboration_id: str) -> int:
    parts = (made.analyst.data_dir / "blobs" / collaboration_id / "uplinks").glob("*[0-9a-f].part")
    return sum(path.stat().st_size for path in parts)


def test_an_upload_under_way_goes_on_after_the_restart_and_its_command_ends_well(
    made: Consortium, large: Path
) -> None:
    found = made.anchored(**LARGE)
    b = made.sessions["hospital-b"]
    b.round(found).prepare(large)
    with line(made.analyst.port, up_bytes_per_s=MIB) as slow:
        made.go_through("hospital-b", slow.port)
        done: list[Any] = []
        sending = threading.Thread(target=lambda: done.append(b.round(found).contribute()))
        sending.start()
        deadline = time.monotonic() + WAIT_S
        while arrived_bytes(made, found) < 2 * MIB:
            assert time.monotonic() < deadline, "the upload did not begin"
            time.sleep(0.02)
        made.analyst.stop()
        kept = arrived_bytes(made, found)
        made.analyst.start()
        carried = slow.carried_up
        sending.join(timeout=WAIT_S)
        assert done, "the upload did not end well"
        assert slow.carried_up - carried < done[0].payload_bytes - kept + 2 * MIB  # it went on where it stood
    made.go_through("hospital-b", made.analyst.port)
    made.contribute("lead-hospital", found, rows(0, 40, features=20))
    made.wait_for(found, "released")
    assert b.round(found).receive().uplink_digest == done[0].uplink_digest


def test_a_request_under_way_is_answered_while_nobody_new_comes_in(made: Consortium) -> None:
    with secured(made.analyst) as under_way:
        under_way.sendall(b"POST /v1/enrolments HTTP/1.1\r\nhost: analyst\r\ncontent-length: 4\r\n")
        under_way.sendall(b"content-type: application/vnd.odc.v1+msgpack\r\nexpect: 100-continue\r\n\r\n")
        assert under_way.recv(100).startswith(b"HTTP/1.1 100")
        server = made.analyst.server
        assert server is not None
        server.terminate()
        with pytest.raises(OSError):  # noqa: PT011, PT012  # whichever the system gives
            while True:
                plain(made.analyst, "127.0.0.2").close()
        under_way.sendall(b"none")
        told = answer(under_way)
        assert told.startswith(b"HTTP/1.1 4")
        assert b"connection: close" in told
        server.wait(timeout=60)
    made.analyst.start()


def test_a_request_that_does_not_end_is_told_to_come_back(made: Consortium) -> None:
    """What a client takes for a server that is being restarted, and not for a fault."""
    with secured(made.analyst) as under_way:
        under_way.sendall(b"POST /v1/enrolments HTTP/1.1\r\nhost: analyst\r\ncontent-length: 4\r\n")
        under_way.sendall(b"content-type: application/vnd.odc.v1+msgpack\r\nexpect: 100-continue\r\n\r\n")
        assert under_way.recv(100).startswith(b"HTTP/1.1 100")
        made.analyst.stop()
        told = answer(under_way)
    assert told.startswith(b"HTTP/1.1 503")
    assert b"\r\nretry-after: 2\r\n" in told
    made.analyst.start()


def test_idle_connections_do_not_hold_up_a_stop(made: Consortium) -> None:
    cut_off = made.log().count("timeout graceful shutdown exceeded")
    with secured(made.analyst) as idle:
        idle.sendall(HEALTH)
        answer(idle)
        made.analyst.stop()
    assert made.log().count("timeout graceful shutdown exceeded") == cut_off
    made.analyst.start()
