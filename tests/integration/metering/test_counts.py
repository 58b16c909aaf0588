"""What the kernel and our own sockets count on real connections."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Self

import pytest

from metering.counts import Counter, CountingSocket, KernelCount, count_of, kernel_counts, read_tcp_info

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts bytes for us")


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


@linux
def test_a_connection_that_is_gone_has_carried_what_it_had(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.sendall(b"abc")
    assert near.recv(3) == b"abc"
    count = KernelCount(near)
    before = count.read()
    count.release()
    assert before.received_bytes == 3
    assert count.read() == before


# the count of one accepted connection


@pytest.mark.parametrize(
    "counter",
    [
        pytest.param(
            "kernel", marks=pytest.mark.skipif(not kernel_counts(), reason="it does not count here")
        ),
        "transport",
    ],
)
def test_either_counts_what_asyncio_reads_and_writes(counter: Counter) -> None:
    with CountingSocket.around(socket.create_server(("127.0.0.1", 0))) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        found = count_of(far, counter)
        assert found is not None
        near.sendall(bytes(1000))
        left = 1000 - far.recv_into(bytearray(600))
        while left:
            left -= len(far.recv(left))
        far.send(bytes(30))
        far.sendmsg([bytes(4), bytes(5)])
        assert len(near.recv(39, socket.MSG_WAITALL)) == 39
        assert (found.read().received_bytes, found.read().sent_bytes) == (1000, 39)
        assert found.unread_bytes() == 0
        found.release()
        assert far.fileno() >= 0  # the connection is not ours to close


@pytest.mark.skipif(not kernel_counts(), reason="it does not count here")
def test_the_kernel_counts_what_nobody_has_read_and_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        near.sendall(bytes(70))
        far.recv(70, socket.MSG_PEEK | socket.MSG_WAITALL)
        found = count_of(far, "kernel")
        assert found is not None
        assert (found.read().received_bytes, found.unread_bytes()) == (70, 70)
        found.release()


def test_without_a_free_descriptor_a_connection_is_not_counted() -> None:
    class Full(socket.socket):
        def dup(self) -> Self:
            raise OSError(24, "Too many open files")

    with Full() as full:
        assert count_of(full, "kernel") is None
