from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from user_client.transport.traffic import Traffic, read_tcp_info, total

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts bytes for us")
Pair = tuple[socket.socket, socket.socket]


def connect() -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = connect()
    with near, far:
        yield near, far


def carry(pair: Pair, sent: int, received: int) -> None:
    """Send so many bytes each way and wait until the kernel has them acknowledged."""
    near, far = pair
    for source, sink, count in ((near, far, sent), (far, near, received)):
        source.sendall(bytes(count))
        while count:
            count -= len(sink.recv(count))
    far.sendall(b"x")  # an answer carries the acknowledgement of what came before it
    near.recv(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


@linux
def test_the_kernel_counts_every_byte(pair: Pair) -> None:
    before = read_tcp_info(pair[0])
    carry(pair, 1000, 234)
    after = read_tcp_info(pair[0])
    assert before is not None
    assert after is not None
    # the kernel counts the sequence number of the handshake as a byte that was acknowledged
    assert (after[0] - before[0], after[1] - before[1]) == (1000, 234 + 1)


@linux
def test_bytes_go_to_the_kind_of_request_that_carried_them(pair: Pair, path: Path) -> None:
    meter = Traffic(path)
    carry(pair, 10, 20)
    meter.note(pair[0], "control")
    carry(pair, 5000, 30)
    meter.note(pair[0], "uplink")
    found = total(path)
    assert found["uplink"] == {"sent": 5000, "received": 30 + 1}
    assert abs(found["control"]["sent"] - 10) <= 1


@linux
def test_a_new_connection_is_counted_from_its_start(path: Path) -> None:
    """Even when it has the file number of one that was closed."""
    meter = Traffic(path)
    for sent in (10, 7000):
        near, far = connect()
        with near, far:
            carry((near, far), sent, 0)
            meter.note(near, "uplink")
    assert abs(total(path)["uplink"]["sent"] - 7010) <= 2


@linux
def test_what_several_processes_count_is_added_up(path: Path) -> None:
    for _ in range(2):
        near, far = connect()
        with near, far:
            carry((near, far), 100, 0)
            Traffic(path).note(near, "anchor")
    assert abs(total(path)["anchor"]["sent"] - 200) <= 2


def test_a_closed_connection_is_not_counted(path: Path) -> None:
    near, far = connect()
    near.close()
    far.close()
    Traffic(path).note(near, "control")
    assert total(path) == {}


def test_without_a_socket_nothing_is_counted(path: Path) -> None:
    Traffic(path).note(None, "control")
    assert not path.exists()


def test_where_the_kernel_does_not_tell_nothing_is_guessed(
    pair: Pair, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    Traffic(path).note(pair[0], "control")
    assert total(path) == {}


def test_an_old_kernel_that_tells_less_is_not_misread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def fileno(self) -> int:
            return 3

        def getsockopt(self, *_: int) -> bytes:
            return bytes(104)

    monkeypatch.setattr(sys, "platform", "linux")
    assert read_tcp_info(Old()) is None  # type: ignore[arg-type]


@linux
def test_a_meter_without_a_file_keeps_nothing(pair: Pair, tmp_path: Path) -> None:
    Traffic().note(pair[0], "control")
    assert not list(tmp_path.iterdir())


def test_nothing_counted_is_nothing(path: Path) -> None:
    assert total(path) == {}
