from __future__ import annotations

import socket
from typing import Any

import pytest

from analyst_server.api.counting import CountingSocket, count_of
from metering.counts import Counter
from metering.kernel import kernel_counts


class Transport:
    """An asyncio transport, as far as it is asked."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def get_extra_info(self, _name: str) -> Any:
        return self._sock


def count(sock: Any, counter: Counter) -> Any:
    return count_of(Transport(sock), counter)  # type: ignore[arg-type]


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
        found = count(far, counter)
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
        found = count(far, "kernel")
        assert (found.read().received_bytes, found.unread_bytes()) == (70, 70)
        found.release()


def test_a_transport_without_a_socket_is_not_counted() -> None:
    assert count(None, "kernel") is None


def test_without_a_free_descriptor_a_connection_is_not_counted() -> None:
    class Full:
        def dup(self) -> None:
            raise OSError(24, "Too many open files")

    assert count(Full(), "kernel") is None
