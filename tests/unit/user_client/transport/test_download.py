"""A downlink over lines that break: each connection goes on where the one before stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from protocol.busy import TooManyRequestsError
from protocol.errors import DiskFullError, MalformedMessageError, StorageBusyError
from protocol.operations import FETCH_DOWNLINK
from tests.harness.scripted_server import Handler, Pauses, connect, problem
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.transport import ATTEMPTS, Download

WHOLE = bytes(range(256)) * 40
TAG = '"one"'
ID = "c0" * 16


class Body(httpx.SyncByteStream):
    """A body that may break off after its last byte."""

    def __init__(self, data: bytes, *, breaks_off: bool) -> None:
        self._data, self._breaks_off = data, breaks_off

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._data), 100):
            yield self._data[start : start + 100]
        if self._breaks_off:
            raise httpx.ReadError("[Errno 104] Connection reset by peer")


class Analyst:
    """Sends parts of one version, and breaks off after ``cut_after`` bytes of each connection."""

    def __init__(self, cut_after: int | None = None, *, knows_parts: bool = True) -> None:
        self.cut_after, self.tag, self._knows_parts = cut_after, TAG, knows_parts
        self.requests: list[httpx.Request] = []
        self.sent_bytes = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self._knows_parts:
            return self._answer(200, WHOLE, {})
        if request.headers.get("if-none-match") == self.tag:
            return httpx.Response(304, headers={"etag": self.tag})
        start = int(request.headers["range"].removeprefix("bytes=").split("-")[0])
        if request.headers.get("if-range", self.tag) != self.tag:
            return self._answer(200, WHOLE, {"etag": self.tag})
        part = {"etag": self.tag, "content-range": f"bytes {start}-{len(WHOLE) - 1}/{len(WHOLE)}"}
        return self._answer(206, WHOLE[start:], part)

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> httpx.Response:
        breaks_off = self.cut_after is not None and len(data) >= self.cut_after
        sent = data[: self.cut_after] if breaks_off else data
        self.sent_bytes += len(sent)
        return httpx.Response(status, stream=Body(sent, breaks_off=breaks_off), headers=headers)


def download(server: Handler, pauses: Pauses | None = None, **options: Any) -> Download:
    return Download(connect(server, pauses, **options), FETCH_DOWNLINK, collaboration_id=ID)


def test_a_line_that_holds_carries_it_at_once() -> None:
    server = Analyst()
    assert b"".join(download(server)) == WHOLE
    (asked,) = server.requests
    assert asked.headers["range"] == "bytes=0-"
    assert "if-range" not in asked.headers


@pytest.mark.parametrize("cut_after", [100, 999, 5000])
def test_a_line_that_breaks_again_and_again_loses_no_byte_and_sends_none_twice(cut_after: int) -> None:
    server, pauses = Analyst(cut_after), Pauses()
    assert b"".join(download(server, pauses)) == WHOLE
    assert server.sent_bytes == len(WHOLE)
    assert {request.headers.get("if-range") for request in server.requests[1:]} == {TAG}
    assert set(pauses) == {0.5}  # each connection made progress


def test_a_line_that_stays_broken_is_given_up() -> None:
    server, pauses = Analyst(0), Pauses()
    with pytest.raises(ConnectionFailedError):
        list(download(server, pauses))
    assert len(server.requests) == ATTEMPTS
    assert pauses == sorted(pauses)


def test_what_cannot_be_mended_by_trying_again_is_not_tried() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")

    for server, error in (
        (refuse, TlsFailedError),
        (lambda _: problem(507, DiskFullError("full").to_problem()), DiskFullError),
    ):
        pauses = Pauses()
        with pytest.raises(error):
            list(download(server, pauses))
        assert pauses == []


def test_a_busy_analyst_is_waited_for() -> None:
    server, answers = Analyst(), [problem(503, StorageBusyError("locked", retry_after_s=5).to_problem())]
    pauses = Pauses()
    found = download(lambda request: answers.pop() if answers else server(request), pauses)
    assert b"".join(found) == WHOLE
    assert 5 <= pauses[0] <= 6.25


def test_an_analyst_that_asks_to_come_back_is_obeyed_in_the_midst_of_a_downlink() -> None:
    asked = problem(429, TooManyRequestsError("too many", retry_after_s=5).to_problem())
    server, answers, pauses = Analyst(), [asked] * 20, Pauses()
    found = download(lambda request: answers.pop() if answers else server(request), pauses)
    assert b"".join(found) == WHOLE
    assert len(pauses) == 20


def test_two_versions_are_never_put_together() -> None:
    server = Analyst(1000)
    pieces = iter(download(server))
    next(pieces)
    server.tag = '"two"'
    with pytest.raises(MalformedMessageError, match="changed while it was being fetched"):
        list(pieces)


def test_an_analyst_of_an_earlier_version_sends_everything_again_and_is_told_nothing() -> None:
    server = Analyst(2500, knows_parts=False)
    found = download(server)
    received = bytearray()
    for piece in found:
        received += piece
        server.cut_after = None
    assert received == WHOLE
    asked = len(server.requests)
    found.acknowledge()
    assert len(server.requests) == asked


@pytest.mark.parametrize("said", ["", "bytes 7-9/10", "bytes */10", "bytes 0-9/*"])
def test_a_part_that_was_not_asked_for_is_refused(said: str) -> None:
    def wrong(_: httpx.Request) -> httpx.Response:
        return httpx.Response(206, content=b"x", headers={"content-range": said})

    with pytest.raises(MalformedMessageError, match="not the one that was asked for"):
        list(download(wrong))


def test_the_end_of_a_connection_that_is_lost_costs_nothing() -> None:
    server = Analyst(len(WHOLE))  # breaks off behind the last byte
    assert b"".join(download(server)) == WHOLE
    assert len(server.requests) == 1


def test_arrival_is_acknowledged_with_the_version_and_costs_a_byte_at_most() -> None:
    server = Analyst()
    found = download(server)
    list(found)
    found.acknowledge()
    assert server.requests[-1].headers["if-none-match"] == TAG
    assert server.requests[-1].headers["range"] == "bytes=0-0"
