"""What a real connection has carried, after it is gone."""

from __future__ import annotations

import socket

import pytest

from metering.counts import KernelCount, kernel_counts


@pytest.mark.skipif(not kernel_counts(), reason="the kernel counts no connection")
def test_a_connection_that_is_gone_has_carried_what_it_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with ours, theirs:
            theirs.sendall(b"abc")
            assert ours.recv(3) == b"abc"
            count = KernelCount(ours)
            before = count.read()
            count.release()
            assert count.read() == before
            assert before.received_bytes == 3
