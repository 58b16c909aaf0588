from __future__ import annotations

import struct

from metering.counts import TcpCount, count_of, parse_tcp_info

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


def test_a_connection_without_a_socket_is_not_counted() -> None:
    assert count_of(None, "kernel") is None
