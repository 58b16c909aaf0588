from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from analyst_server.api.connection import AnalystProtocol, CountedConnection
from analyst_server.api.doors import Doors, Places
from analyst_server.api.phases import PhaseBound
from metering.counts import Counter, Counts, TcpCount
from metering.private_parts import Scope
from metering.server import Event, Purpose

ID = "c0" * 16


class Transport:
    """An asyncio transport, as far as it is asked."""

    def get_extra_info(self, _name: str) -> None:
        return None

    def abort(self) -> None:
        """Do nothing: nobody is there."""


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


@pytest.mark.parametrize("path", ["/", "/pages", f"/pages/collaborations/{ID}", "/pages/static/pages.css"])
def test_a_page_is_no_part_of_a_round_whoever_looks_at_it(path: str) -> None:
    count, sums = Count(), Sums()
    line, asked = counted(count, sums), request(path, identity=SimpleNamespace(name="hospital-a"))
    for event in (Event.REQUEST_BEGINS, Event.HEAD_COMPLETE, Event.REQUEST_COMPLETE, Event.ANSWER_COMPLETE):
        count.received, count.sent = count.received + 500, count.sent + 900
        line.happened(event, asked if event is not Event.REQUEST_BEGINS else None)
    line.happened(Event.CONNECTION_LOST, None)
    assert {(purpose.party, purpose.collaboration_id) for purpose in sums.found} == {("", "")}


def test_a_connection_that_cannot_be_counted_is_served_all_the_same() -> None:
    async def watchers() -> list[type]:
        protocol: Any = object.__new__(AnalystProtocol)
        state = {"meter": Sums(), "doors": Doors(Places()), "connection_timeout_s": 60}
        return [type(each) for each in protocol.watch(Transport(), state)]

    assert asyncio.run(watchers()) == [PhaseBound]
