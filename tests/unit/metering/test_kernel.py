from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator

import pytest

from metering.kernel import TcpCount, parse_tcp_info, read_tcp_info

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts bytes for us")
ESTABLISHED, CLOSE_WAIT = 1, 8


def tcp_info(state: int = ESTABLISHED) -> bytes:
    info = bytearray(280)
    info[0] = state
    struct.pack_into("=QQII", info, 120, 901, 500, 12, 7)  # acknowledged, received, segments out and in
    struct.pack_into("=QQ", info, 200, 1000, 100)  # sent, of which again
    return bytes(info)


def test_what_was_sent_is_counted_once_and_what_was_sent_again_beside_it() -> None:
    assert parse_tcp_info(tcp_info()) == TcpCount(900, 100, 500, 12, 7)


def test_the_other_sides_farewell_is_no_byte() -> None:
    found = parse_tcp_info(tcp_info(CLOSE_WAIT))
    assert found is not None
    assert found.received_bytes == 499


def test_an_old_kernel_that_tells_less_is_not_misread() -> None:
    assert parse_tcp_info(tcp_info()[:215]) is None
    assert parse_tcp_info(tcp_info()[:216]) is not None


def test_where_the_kernel_does_not_tell_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with socket.socket() as sock:
        assert read_tcp_info(sock) is None


def test_a_closed_socket_has_no_count() -> None:
    sock = socket.socket()
    sock.close()
    assert read_tcp_info(sock) is None


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


@linux
def test_both_ends_count_the_same_bytes(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    for source, sink, count in ((near, far, 70_001), (far, near, 234)):
        source.sendall(bytes(count))
        while count:
            count -= len(sink.recv(count))
    near.shutdown(socket.SHUT_WR)
    assert far.recv(1) == b""
    ours, theirs = read_tcp_info(near), read_tcp_info(far)
    assert ours is not None
    assert theirs is not None
    assert (ours.sent_bytes, ours.received_bytes) == (70_001, 234)
    assert (theirs.received_bytes, theirs.sent_bytes) == (70_001, 234)
