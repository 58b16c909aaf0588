"""Strangers who send what no client sends, or nothing at all: the analyst lets go of them and goes on."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import psutil
import pytest

from tests.harness.consortium import Consortium, consortium
from tests.harness.stranger import HEALTH, answer, stranger, until_closed

MIB = 2**20
POST = b"POST /v1/enrolments HTTP/1.1\r\nhost: analyst\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
REFUSED = b"GET /v1/collaborations HTTP/1.1\r\nhost: analyst\r\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    directory = tmp_path_factory.mktemp("doors")
    with consortium(directory, "lead-hospital", ODC_ANALYST_CONNECTION_TIMEOUT_S="2") as found:
        yield found


def rss_mib(made: Consortium) -> float:
    assert made.analyst.server is not None
    return float(psutil.Process(made.analyst.server.pid).memory_info().rss / MIB)


def sent_until_refused(line: ssl.SSLSocket, piece: bytes, times: int) -> int:
    """Send a piece again and again; return how many bytes went before the analyst hung up."""
    sent = 0
    with contextlib.suppress(OSError):
        for _ in range(times):
            line.sendall(piece)
            sent += len(piece)
    return sent


# bytes


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (HEALTH[:-2], b"x-padding: " + b"p" * 1000 + b"\r\n"),
        (HEALTH[:-2], b"x-padding:1\r\n" * 100),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"x-trailer: " + b"p" * 1000 + b"\r\n"),
        (CHUNKED + b"1\r\nx\r\n0\r\nx-trailer: ", b"p" * 1000),
        (CHUNKED + b"1;extension=", b"p" * 1000),
        (
            REFUSED + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
            b"x-trailer: " + b"p" * 1000 + b"\r\n",
        ),
        (HEALTH, b"\r\n" * 500),
    ],
    ids=[
        "head",
        "lines of a head",
        "trailers",
        "one trailer",
        "chunk extension",
        "trailers after the answer",
        "blank lines",
    ],
)
def test_what_is_neither_a_head_nor_a_body_is_cut_off_and_takes_no_memory(
    made: Consortium, first: bytes, piece: bytes
) -> None:
    before = rss_mib(made)
    with stranger(made, first) as line:
        sent = sent_until_refused(line, piece, 16 * MIB // len(piece))
        assert sent < 8 * MIB
        until_closed(line)
    assert rss_mib(made) - before < 16
    with stranger(made, HEALTH) as line:
        assert answer(line).startswith(b"HTTP/1.1 200")


def test_a_trailer_is_allowed_and_changes_nothing(made: Consortium) -> None:
    with stranger(made, CHUNKED + b"1\r\nx\r\n0\r\nauthorization: Bearer x\r\n\r\n" + HEALTH) as line:
        assert answer(line).startswith(b"HTTP/1.1 4")
        assert answer(line).startswith(b"HTTP/1.1 200")


def test_requests_ahead_are_few(made: Consortium) -> None:
    with stranger(made, HEALTH * 8) as line:
        for _ in range(8):
            assert answer(line).startswith(b"HTTP/1.1 200")
    with stranger(made, HEALTH * 1000) as line:
        assert until_closed(line).count(b"HTTP/1.1 200") <= 8


# time


@pytest.mark.parametrize(
    "said",
    [
        b"",
        HEALTH[:20],
        HEALTH,
        HEALTH + HEALTH[:20],
        HEALTH + b"\r\n",
        CHUNKED + b"1\r\nx\r\n0\r\nx-trailer: half",
        REFUSED + b"content-length: 1000\r\n\r\nhalf",
        REFUSED + b"content-length: 1000\r\n\r\nhalf" + b"x" * 996,
        HEALTH[:-2] + b"content-length: 1000\r\n\r\nhalf",
    ],
    ids=[
        "nothing",
        "half a head",
        "silence",
        "half a second head",
        "a blank line",
        "half a trailer",
        "half a body after its answer",
        "silence after such a body",
        "half a body that nobody wants",
    ],
)
def test_nobody_stays_for_ever(made: Consortium, said: bytes) -> None:
    with stranger(made, said) as line:
        until_closed(line)


def test_nobody_stays_in_the_handshake(made: Consortium) -> None:
    with socket.create_connection(("127.0.0.1", made.analyst.port), 30) as line:
        line.sendall(b"\x16\x03\x01")
        until_closed(line)


def test_a_second_head_is_not_kept_alive_by_its_bytes(made: Consortium) -> None:
    with stranger(made, HEALTH) as line:
        answer(line)
        line.settimeout(0.2)
        for byte in HEALTH[:-2] + b"x: " + b"y" * 100:
            with contextlib.suppress(TimeoutError):
                try:
                    line.sendall(bytes([byte]))
                    if line.recv(1) == b"":
                        return
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    return
    raise AssertionError("the analyst waits for a head that comes byte by byte")
