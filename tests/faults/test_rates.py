"""More requests than the analyst admits: strangers are told when to come back, members do not even notice."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator

import pytest

from tests.harness.consortium import Consortium, consortium
from tests.harness.stranger import HEALTH, answer, secured

BURST = 60
ASKED = b"GET /v1/collaborations HTTP/1.1\r\nhost: analyst\r\n\r\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """One whose analyst admits so little that a round is over its bounds."""
    directory = tmp_path_factory.mktemp("rates")
    with consortium(directory, "lead-hospital", "hospital-b", ODC_ANALYST_REQUESTS_PER_S="3") as found:
        yield found


def until_refused(line: ssl.SSLSocket, at_least: int = BURST) -> bytes:
    """Ask until the analyst has had enough; return what it says then."""
    for count in range(20 * BURST):
        line.sendall(ASKED)
        told = answer(line).lower()
        if told.startswith(b"http/1.1 429"):
            assert count >= at_least
            return told
        assert told.startswith(b"http/1.1 401")
    raise AssertionError("the analyst never has enough")


def test_a_stranger_is_told_when_to_come_back_and_health_is_still_answered(made: Consortium) -> None:
    with secured(made.analyst, "127.0.0.2") as line:
        told = until_refused(line)
        assert b"\r\nretry-after: 1\r\n" in told
        assert b"application/problem+json" in told
        assert b'"/problems/too-many-requests"' in told
        line.sendall(HEALTH)
        assert answer(line).startswith(b"HTTP/1.1 200")
    with secured(made.analyst, "127.0.0.3") as line:
        line.sendall(ASKED)
        assert answer(line).startswith(b"HTTP/1.1 401")


def test_a_request_with_a_body_that_is_not_admitted_is_not_read_to_its_end(made: Consortium) -> None:
    for _ in range(20 * BURST):  # by the time of the second, one more may be admitted
        with secured(made.analyst, "127.0.0.4") as line:
            until_refused(line, at_least=0)
            line.sendall(b"POST /v1/enrolments HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n")
            if answer(line).startswith(b"HTTP/1.1 429"):
                with contextlib.suppress(OSError):
                    assert line.recv(1) == b""
                return
    raise AssertionError("a request with a body is always admitted")


def test_a_round_over_the_bounds_ends_without_its_members_noticing(made: Consortium) -> None:
    for _ in range(BURST):
        made.sessions["hospital-b"].collaborations()
    found = made.anchored()
    made.contribute_all(found, 40)
    made.receive_all(found)
