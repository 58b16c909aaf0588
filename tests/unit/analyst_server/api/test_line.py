from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from analyst_server.api import line as line_module
from analyst_server.api.line import MeteredLine, purpose_of
from analyst_server.services.meter import Purpose
from metering.counts import Counter, Counts
from metering.kernel import TcpCount

ID = "c0" * 16
PARTY = "hospital-a"
HANDSHAKE = (1500, 1400)
CLOSING = (24, 24)


@dataclass
class Carried:
    """A count that is told what the connection has carried."""

    sent: int = 0
    received: int = 0
    unread: int = 0

    def read(self) -> TcpCount:
        return TcpCount(sent_bytes=self.sent, received_bytes=self.received)

    def unread_bytes(self) -> int:
        return self.unread

    def release(self) -> None:
        self.sent = self.received = -1


@dataclass
class Sums:
    """A meter that only remembers."""

    counter: Counter = "kernel"
    found: dict[Purpose, Counts] = field(default_factory=dict)

    def add(self, purpose: Purpose, counts: Counts) -> None:
        if counts != Counts():
            self.found[purpose] = self.found.get(purpose, Counts()) + counts

    def bytes_of(self, kind: str, party: str = PARTY) -> tuple[int, int]:
        """What came up and went down."""
        flows = [
            counts for purpose, counts in self.found.items() if (purpose.kind, purpose.party) == (kind, party)
        ]
        return sum(one.up.wire_bytes for one in flows), sum(one.down.wire_bytes for one in flows)


class Connection:
    """A line after its handshake, and short words for what happens on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, unread: int = 0) -> None:
        self.carried = Carried(received=HANDSHAKE[0] + unread, sent=HANDSHAKE[1], unread=unread)
        self.meter = Sums()
        monkeypatch.setattr(line_module, "count_of", lambda *_: self.carried)
        transport: Any = object()
        meter: Any = self.meter
        self.line = MeteredLine(transport, meter)

    def carry(self, received: int, sent: int) -> None:
        self.carried.received += received
        self.carried.sent += sent

    def answer(self, purpose: Purpose, received: int, sent: int, *, late: int = 0) -> None:
        """A request and its answer, of which ``late`` bytes leave when it is complete already."""
        self.line.answer_is_read(None)
        self.carry(received, 0)
        self.line.request_is_whole()
        self.carry(0, sent - late)
        self.line.finish(purpose)
        self.carry(0, late)

    def close(self) -> None:
        self.carry(CLOSING[0], 0)
        self.line.end(None)
        self.carry(0, CLOSING[1])
        self.line.close(None)


def of(path: str, party: str = PARTY) -> Purpose:
    return Purpose(**{**vars(purpose_of("GET", path)), "party": party})


UPLINK, DOWNLINK = of(f"/v1/collaborations/{ID}/uplinks"), of(f"/v1/collaborations/{ID}/downlink")
CONTROL = (HANDSHAKE[0] + CLOSING[0], HANDSHAKE[1] + CLOSING[1])


@pytest.mark.parametrize("late", [0, 300])
def test_each_request_has_its_bytes_and_the_rest_is_control(
    monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    line = Connection(monkeypatch)
    line.answer(UPLINK, 5000, 400, late=late)
    line.answer(DOWNLINK, 200, 9000, late=late)
    line.close()
    assert line.meter.bytes_of("uplink") == (5000, 400)
    assert line.meter.bytes_of("downlink") == (200, 9000)
    assert line.meter.bytes_of("control") == CONTROL


def test_a_request_close_behind_the_handshake_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Connection(monkeypatch, unread=700)
    line.carried.unread = 0
    line.answer(UPLINK, 0, 400)
    line.close()
    assert line.meter.bytes_of("uplink") == (700, 400)
    assert line.meter.bytes_of("control") == CONTROL


def test_a_reader_that_leaves_before_the_answer_is_told_complete_has_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = Connection(monkeypatch)
    line.carry(200, 0)
    line.line.request_is_whole()
    line.carry(CLOSING[0], 9000)
    line.line.end(DOWNLINK)
    line.carry(0, CLOSING[1])
    line.line.finish(DOWNLINK)
    line.line.close(None)
    assert line.meter.bytes_of("downlink") == (200, 9000)
    assert line.meter.bytes_of("control") == CONTROL


def test_a_request_that_is_cut_off_has_cost_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Connection(monkeypatch)
    line.carry(7000, 0)
    line.line.close(UPLINK)
    assert line.meter.bytes_of("uplink") == (7000, 0)
    assert line.meter.bytes_of("control") == HANDSHAKE


def test_what_came_without_a_name_belongs_to_who_names_itself_later(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Connection(monkeypatch)
    line.answer(of("/.well-known/odc", party=""), 100, 300)
    assert line.meter.found == {}
    line.answer(of(f"/v1/collaborations/{ID}"), 150, 900)
    line.answer(of("/.well-known/odc", party=""), 100, 300)
    line.close()
    assert line.meter.bytes_of("control") == (CONTROL[0] + 350, CONTROL[1] + 1500)


def test_who_never_names_itself_is_counted_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Connection(monkeypatch)
    line.answer(of(f"/v1/collaborations/{ID}/terms", party=""), 100, 300)
    line.close()
    assert line.meter.bytes_of("control", party="") == (CONTROL[0] + 100, CONTROL[1] + 300)
    assert {purpose.collaboration_id for purpose in line.meter.found} == {""}  # it may be made up


def test_a_connection_without_a_request_is_control(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Connection(monkeypatch)
    line.close()
    assert line.meter.bytes_of("control", party="") == CONTROL


def test_a_connection_that_cannot_be_counted_is_served_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "count_of", lambda *_: None)
    meter: Any = Sums()
    transport: Any = object()
    line = MeteredLine(transport, meter)
    line.received(10)
    line.request_is_whole()
    line.finish(UPLINK)
    line.end(None)
    line.close(None)
    assert meter.found == {}


@pytest.mark.parametrize(
    ("method", "path", "invitation_id"),
    [
        ("GET", f"/v1/enrolments/{'ab' * 16}", "ab" * 16),
        ("GET", "/v1/enrolments/anything-else", ""),
        ("PUT", f"/v1/enrolments/{'ab' * 16}/certificate", ""),
    ],
)
def test_who_asks_for_its_certificate_is_known_by_its_invitation(
    method: str, path: str, invitation_id: str
) -> None:
    assert purpose_of(method, path).invitation_id == invitation_id
