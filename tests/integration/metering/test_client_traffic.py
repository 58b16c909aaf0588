"""What a client's requests cost on real connections, and to whom it is put down."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from metering.client_traffic import Line, Traffic, recorded, total
from metering.counts import Counts, Flow, kernel_counts

needs_kernel = pytest.mark.skipif(not kernel_counts(), reason="this kernel does not count for us")
ONE, OTHER = "c0" * 16, "c1" * 16
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


def carry(pair: Pair, sent: int, received: int) -> None:
    """Send so many bytes each way and wait until they have come."""
    near, far = pair
    for source, sink, count in ((near, far, sent), (far, near, received)):
        source.sendall(bytes(count))
        while count:
            count -= len(sink.recv(count))


def request(meter: Traffic, line: Line, pair: Pair, url_path: str, head: int, body: int, answer: int) -> None:
    """A request without TLS whose answer is all body."""
    with meter.during(url_path) as exchange:
        carry(pair, head + body, answer)
        meter.sent(line, head)
        meter.sent(line, body)
        meter.received(line, answer)
        exchange.received_body += answer


@needs_kernel
def test_a_request_is_taken_apart_into_head_and_body(pair: Pair, path: Path) -> None:
    meter = Traffic(path)
    line = meter.open(pair[0])
    request(meter, line, pair, f"/v1/collaborations/{ONE}/uplinks", 100, 5000, 30)
    (counts,) = recorded(path).counts.values()
    assert (counts.up.wire_bytes, counts.up.plain_bytes, counts.up.body_bytes) == (5100, 5100, 5000)
    assert (counts.down.wire_bytes, counts.down.plain_bytes, counts.down.body_bytes) == (30, 30, 30)
    meter.closing(line)


@needs_kernel
def test_bytes_go_to_the_collaboration_and_kind_of_the_request_that_carried_them(
    pair: Pair, path: Path
) -> None:
    meter = Traffic(path)
    line = meter.open(pair[0])
    request(meter, line, pair, "/v1/enrolments", 10, 5, 20)
    request(meter, line, pair, f"/v1/collaborations/{ONE}/uplinks", 10, 500, 30)
    request(meter, line, pair, "/v1/uploads/u1", 10, 7000, 40)  # its address names no collaboration
    request(meter, line, pair, f"/v1/collaborations/{OTHER}/downlink", 10, 0, 900)
    found = recorded(path)
    assert set(found.counts) == {("", "control"), (ONE, "uplink"), (OTHER, "downlink")}
    assert found.of(ONE)["uplink"].up.body_bytes == 7500
    assert found.of(OTHER)["downlink"].down.wire_bytes == 900
    meter.closing(line)


@needs_kernel
def test_a_connection_that_closes_itself_is_counted_to_the_end(path: Path) -> None:
    meter = Traffic(path)
    pair = connect()
    line = meter.open(pair[0])
    with meter.during("/v1/collaborations"):
        carry(pair, 70, 80)
        meter.sent(line, 70)
        for end in pair:
            end.close()
        meter.closing(line)
    assert total(path) == {"control": {"sent": 70, "received": 80}}


@needs_kernel
def test_what_is_carried_outside_of_requests_is_control(pair: Pair, path: Path) -> None:
    meter = Traffic(path)
    line = meter.open(pair[0])
    carry(pair, 300, 400)
    meter.handshaken(line)
    request(meter, line, pair, f"/v1/collaborations/{ONE}/downlink", 10, 0, 50)
    carry(pair, 24, 24)
    meter.closing(line)
    assert total(path) == {
        "control": {"sent": 324, "received": 424},
        "downlink": {"sent": 10, "received": 50},
    }


@needs_kernel
def test_a_request_that_fails_has_cost_its_bytes(pair: Pair, path: Path) -> None:
    meter = Traffic(path)
    line = meter.open(pair[0])

    def fail() -> None:
        with meter.during(f"/v1/collaborations/{ONE}/uplinks"):
            carry(pair, 60, 0)
            meter.sent(line, 60)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    meter.closing(line)
    assert total(path)["uplink"]["sent"] == 60


@needs_kernel
def test_what_several_processes_count_is_added_up(path: Path) -> None:
    for _ in range(2):
        pair, meter = connect(), Traffic(path)
        with pair[0], pair[1]:
            line = meter.open(pair[0])
            request(meter, line, pair, "/v1/collaborations", 100, 0, 0)
            meter.closing(line)
    assert total(path)["control"]["sent"] == 200


def test_the_file_says_who_counted(pair: Pair, path: Path) -> None:
    meter = Traffic(path, counter="transport")
    line = meter.open(pair[0])
    with meter.during("/v1/collaborations"):
        meter.sent(line, 5)
    meter.closing(line)
    found = recorded(path)
    assert found.counter == "transport"
    assert found.counts == {("", "control"): Counts(up=Flow(plain_bytes=5))}


def test_a_meter_without_a_file_keeps_nothing(pair: Pair, tmp_path: Path) -> None:
    meter = Traffic()
    line = meter.open(pair[0])
    carry(pair, 1, 1)
    meter.closing(line)
    assert not list(tmp_path.iterdir())
