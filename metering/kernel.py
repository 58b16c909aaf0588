"""The kernel's count of a connection: TCP_INFO, read from a socket that somebody else has opened.

The one place in this package that asks the system for something, here because both sides must read
the same fields in the same way. `bytes_sent` less `bytes_retrans` is every byte of the stream that has
left, each once. `bytes_acked` would be the same a round trip later, and counts the handshake's
sequence number as a byte.
"""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass
from typing import Final

_TCP_INFO: Final = 11
_STATE_OFFSET: Final = 0
_RECEIVED_OFFSET: Final = 128
_SEGMENTS_OFFSET: Final = 136
_SENT_OFFSET: Final = 200
_NEEDED_BYTES: Final = 216
"""Up to and with tcpi_bytes_retrans, which came with Linux 4.19."""
_FIN_RECEIVED: Final = (6, 8, 9, 11)
"""TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: the peer's FIN stands in bytes_received as one byte."""


@dataclass(frozen=True)
class TcpCount:
    """What a connection has carried until now."""

    sent_bytes: int = 0
    """Each byte of the stream once."""
    retransmitted_bytes: int = 0
    received_bytes: int = 0
    segments_out: int = 0
    segments_in: int = 0


def read_tcp_info(sock: socket.socket) -> TcpCount | None:
    """Return the count of a connection, or None where the kernel does not tell."""
    if sys.platform != "linux":
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
    except OSError:  # no TCP socket, or closed
        return None
    return parse_tcp_info(info)


def kernel_counts() -> bool:
    """Whether the kernel of this machine counts the bytes of a connection."""
    with socket.socket() as probe:
        return read_tcp_info(probe) is not None


def parse_tcp_info(info: bytes) -> TcpCount | None:
    """Return what ``struct tcp_info`` says, or None if the kernel is too old to say it."""
    if len(info) < _NEEDED_BYTES:
        return None
    (received,) = struct.unpack_from("=Q", info, _RECEIVED_OFFSET)
    segments_out, segments_in = struct.unpack_from("=II", info, _SEGMENTS_OFFSET)
    sent, retransmitted = struct.unpack_from("=QQ", info, _SENT_OFFSET)
    is_fin_received = info[_STATE_OFFSET] in _FIN_RECEIVED
    return TcpCount(
        sent - retransmitted, retransmitted, received - is_fin_received, segments_out, segments_in
    )
