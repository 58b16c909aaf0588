from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from analyst_server.api import connection as connection_module
from analyst_server.api.connection import READ_BYTES, AnalystProtocol, CountedConnection, HeadBound
from metering.counts import Counter, Counts, TcpCount
from metering.private_parts import CutOffError, Scope
from metering.server import Event, Purpose
from protocol.limits import MAX_HEAD_BYTES

ID = "c0" * 16


class Transport:
    """An asyncio transport, as far as it is asked."""

    is_aborted = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def abort(self) -> None:
        self.is_aborted = True


class Count:
    """A count that is told what the connection has carried."""

    sent = received = unread = 0
    is_released = False

    def read(self) -> TcpCount:
        return TcpCount(sent_bytes=self.sent, received_bytes=self.received)

    def unread_bytes(self) -> int:
        return self.unread

    def release(self) -> None:
        self.is_released = True


class Sums:
    """A meter that only remembers."""

    counter: Counter = "kernel"

    def __init__(self) -> None:
        self.found: dict[Purpose, Counts] = {}

    def add(self, purpose: Purpose, counts: Counts) -> None:
        if counts != Counts():
            self.found[purpose] = self.found.get(purpose, Counts()) + counts


def head_bound(*, events: Sequence[Event] = (), pieces: Sequence[int] = ()) -> Transport:
    """Return a transport after a bound on it was told of events, then of bytes, and time has passed."""
    transport = Transport()

    async def play() -> None:
        bound = HeadBound(transport)  # type: ignore[arg-type]
        for event in events:
            bound.happened(event, None)
        for plain_bytes in pieces:
            bound.received(plain_bytes)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(play())
    return transport


# the bound on heads


def test_a_head_above_its_bound_is_cut_off() -> None:
    head_bound(pieces=[MAX_HEAD_BYTES, READ_BYTES])
    with pytest.raises(CutOffError):
        head_bound(pieces=[MAX_HEAD_BYTES, READ_BYTES, 1])


def test_each_head_of_a_connection_is_bounded() -> None:
    again = [Event.REQUEST_BEGINS, Event.HEAD_COMPLETE, Event.REQUEST_BEGINS]
    with pytest.raises(CutOffError):
        head_bound(events=again, pieces=[MAX_HEAD_BYTES + READ_BYTES, 1])


def test_bodies_have_no_such_bound() -> None:
    head_bound(events=[Event.REQUEST_BEGINS, Event.HEAD_COMPLETE], pieces=[100 * READ_BYTES] * 3)


@pytest.mark.parametrize(
    ("events", "is_aborted"),
    [
        ([], True),
        ([Event.REQUEST_BEGINS], True),
        ([Event.HEAD_COMPLETE], False),
        ([Event.CONNECTION_LOST], False),
    ],
)
def test_the_first_head_must_come_in_time(
    events: Sequence[Event], is_aborted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_HEAD_S", 0)
    assert head_bound(events=events).is_aborted == is_aborted


# the count


def request(path: str, **state: object) -> Scope:
    return {"method": "GET", "path": path, "state": state}


def counted(count: Count, sums: Sums) -> CountedConnection:
    transport: Any = Transport()
    meter: Any = sums
    return CountedConnection(transport, count, meter)


def test_what_nobody_has_read_when_tls_stands_is_no_part_of_the_handshake() -> None:
    count, sums = Count(), Sums()
    count.received, count.sent, count.unread = 2200, 1400, 700
    line = counted(count, sums)
    asked = request(f"/v1/collaborations/{ID}/downlink", identity=SimpleNamespace(name="hospital-a"))
    for event in (Event.REQUEST_BEGINS, Event.HEAD_COMPLETE, Event.REQUEST_COMPLETE):
        line.happened(event, asked if event is not Event.REQUEST_BEGINS else None)
    count.sent += 9000
    line.happened(Event.ANSWER_COMPLETE, asked)
    line.happened(Event.CONNECTION_LOST, None)
    assert count.is_released
    carried = {key: (found.up.wire_bytes, found.down.wire_bytes) for key, found in sums.found.items()}
    assert carried == {
        Purpose("control", "hospital-a", ID): (1500, 1400),
        Purpose("downlink", "hospital-a", ID): (700, 9000),
    }


@pytest.mark.parametrize(
    ("state", "owner"),
    [
        ({"identity": SimpleNamespace(name="hospital-a"), "invitation_id": "ab" * 16}, ("hospital-a", "")),
        ({"identity": None, "invitation_id": "ab" * 16}, ("", "ab" * 16)),
        ({}, ("", "")),
    ],
)
def test_whose_a_request_is_the_application_tells(state: dict[str, Any], owner: tuple[str, str]) -> None:
    count, sums = Count(), Sums()
    line = counted(count, sums)
    asked = request("/v1/enrolments", **state)
    line.happened(Event.REQUEST_BEGINS, None)
    count.received = 500
    line.happened(Event.HEAD_COMPLETE, asked)
    line.happened(Event.CONNECTION_LOST, asked)
    (purpose,) = sums.found
    assert (purpose.party, purpose.invitation_id) == owner


def test_a_connection_that_cannot_be_counted_is_served_all_the_same() -> None:
    async def watchers() -> list[type]:
        protocol: Any = object.__new__(AnalystProtocol)
        return [type(each) for each in protocol.watch(Transport(), {"meter": Sums()})]

    assert asyncio.run(watchers()) == [HeadBound]
