"""The meter of one connection, event by event, without a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metering.server
from metering.counts import Counts, Flow, TcpCount
from metering.server import TRANSITIONS, Attribute, ConnectionMeter, Event, Purpose, State, purpose_of

ID = "c0" * 16
PARTY = "hospital-a"
HANDSHAKE = (1500, 1400)
CLOSING = (24, 24)


class Connection:
    """A meter after its handshake, and short words for what happens on its connection."""

    def __init__(self, early: int = 0) -> None:
        """``early`` bytes of the first request came with the end of the handshake."""
        self.up, self.down = HANDSHAKE[0] + early, HANDSHAKE[1]
        self.meter = ConnectionMeter(Counts(Flow(HANDSHAKE[0]), Flow(HANDSHAKE[1])))
        self.found: dict[Purpose, Counts] = {}

    def carry(self, received: int, sent: int) -> None:
        self.up += received
        self.down += sent

    def tell(self, event: Event, request: Purpose | None = None) -> None:
        carried = TcpCount(sent_bytes=self.down, received_bytes=self.up)
        for purpose, counts in self.meter.handle(event, carried, request):
            if counts != Counts():
                self.found[purpose] = self.found.get(purpose, Counts()) + counts

    def ask(self, purpose: Purpose, received: int) -> None:
        """A request that comes whole."""
        self.tell(Event.REQUEST_BEGINS)
        self.carry(received, 0)
        self.tell(Event.HEAD_COMPLETE, purpose)
        self.tell(Event.REQUEST_COMPLETE, purpose)

    def answer(self, purpose: Purpose, received: int, sent: int, *, late: int = 0) -> None:
        """A request and its answer, of which ``late`` bytes leave when it is complete already."""
        self.ask(purpose, received)
        self.carry(0, sent - late)
        self.tell(Event.ANSWER_COMPLETE, purpose)
        self.carry(0, late)

    def close(self) -> None:
        self.carry(CLOSING[0], 0)
        self.tell(Event.PEER_CLOSES)
        self.carry(0, CLOSING[1])
        self.tell(Event.CONNECTION_LOST)

    def bytes_of(self, kind: str, party: str = PARTY) -> tuple[int, int]:
        """What came up and went down."""
        flows = [
            counts for purpose, counts in self.found.items() if (purpose.kind, purpose.party) == (kind, party)
        ]
        return sum(one.up.wire_bytes for one in flows), sum(one.down.wire_bytes for one in flows)


def of(path: str, party: str = PARTY) -> Purpose:
    return replace(purpose_of("GET", path), party=party)


UPLINK, DOWNLINK = of(f"/v1/collaborations/{ID}/uplinks"), of(f"/v1/collaborations/{ID}/downlink")
CONTROL = (HANDSHAKE[0] + CLOSING[0], HANDSHAKE[1] + CLOSING[1])


@pytest.mark.parametrize("late", [0, 300])
def test_each_request_has_its_bytes_and_the_rest_is_control(late: int) -> None:
    line = Connection()
    line.answer(UPLINK, 5000, 400, late=late)
    line.answer(DOWNLINK, 200, 9000, late=late)
    line.close()
    assert line.bytes_of("uplink") == (5000, 400)
    assert line.bytes_of("downlink") == (200, 9000)
    assert line.bytes_of("control") == CONTROL


@pytest.mark.parametrize("late", [0, 300])
def test_an_answer_has_left_before_we_close_an_idle_connection(late: int) -> None:
    line = Connection()
    line.answer(DOWNLINK, 200, 9000, late=late)
    line.tell(Event.WE_CLOSE)
    line.carry(*CLOSING)
    line.tell(Event.CONNECTION_LOST)
    assert line.bytes_of("downlink") == (200, 9000)
    assert line.bytes_of("control") == CONTROL


def test_a_request_close_behind_the_handshake_is_no_part_of_it() -> None:
    line = Connection(early=700)
    line.answer(UPLINK, 0, 400)
    line.close()
    assert line.bytes_of("uplink") == (700, 400)
    assert line.bytes_of("control") == CONTROL


def test_a_reader_that_leaves_before_the_answer_is_told_complete_has_had_it() -> None:
    line = Connection()
    line.ask(DOWNLINK, 200)
    line.carry(CLOSING[0], 9000)
    line.tell(Event.PEER_CLOSES, DOWNLINK)
    line.carry(0, CLOSING[1])
    line.tell(Event.ANSWER_COMPLETE, DOWNLINK)
    line.tell(Event.CONNECTION_LOST)
    assert line.bytes_of("downlink") == (200, 9000)
    assert line.bytes_of("control") == CONTROL


def test_a_request_that_is_cut_off_has_cost_its_bytes() -> None:
    line = Connection()
    line.tell(Event.REQUEST_BEGINS)
    line.carry(7000, 0)
    line.tell(Event.HEAD_COMPLETE, UPLINK)
    line.tell(Event.CONNECTION_LOST, UPLINK)
    assert line.bytes_of("uplink") == (7000, 0)
    assert line.bytes_of("control") == HANDSHAKE


def test_a_head_that_is_cut_off_names_nobody_and_is_control() -> None:
    line = Connection()
    line.answer(UPLINK, 5000, 400)
    line.tell(Event.REQUEST_BEGINS)
    line.carry(70, 0)
    line.tell(Event.CONNECTION_LOST)
    assert line.bytes_of("uplink") == (5000, 400)
    assert line.bytes_of("control") == (HANDSHAKE[0] + 70, HANDSHAKE[1])


def test_the_rest_of_a_request_that_was_refused_early_is_still_its_own() -> None:
    line = Connection()
    line.tell(Event.REQUEST_BEGINS)
    line.carry(1000, 0)
    line.tell(Event.HEAD_COMPLETE, UPLINK)
    line.carry(0, 300)
    line.tell(Event.ANSWER_COMPLETE, UPLINK)
    line.carry(4000, 0)
    line.tell(Event.REQUEST_COMPLETE)
    line.answer(DOWNLINK, 200, 9000)
    line.close()
    assert line.bytes_of("uplink") == (5000, 300)
    assert line.bytes_of("downlink") == (200, 9000)
    assert line.bytes_of("control") == CONTROL


def test_requests_sent_before_the_last_was_answered_lose_no_byte() -> None:
    line = Connection()
    line.ask(UPLINK, 5000)
    line.tell(Event.REQUEST_BEGINS, UPLINK)
    line.carry(200, 400)
    line.tell(Event.HEAD_COMPLETE, UPLINK)
    line.tell(Event.REQUEST_COMPLETE, UPLINK)
    line.tell(Event.ONE_ANSWER_COMPLETE, UPLINK)
    line.carry(0, 9000)
    line.tell(Event.ANSWER_COMPLETE, DOWNLINK)
    line.close()
    assert line.bytes_of("uplink") == (5000, 400)
    assert line.bytes_of("downlink") == (200, 9000)
    assert line.bytes_of("control") == CONTROL


def test_what_came_without_a_name_belongs_to_who_names_itself_later() -> None:
    line = Connection()
    line.answer(of("/.well-known/odc", party=""), 100, 300)
    assert line.found == {}
    line.answer(of(f"/v1/collaborations/{ID}"), 150, 900)
    line.answer(of("/.well-known/odc", party=""), 100, 300)
    line.close()
    assert line.bytes_of("control") == (CONTROL[0] + 350, CONTROL[1] + 1500)


def test_who_never_names_itself_is_counted_without_a_name() -> None:
    line = Connection()
    line.answer(of(f"/v1/collaborations/{ID}/terms", party=""), 100, 300)
    line.close()
    assert line.bytes_of("control", party="") == (CONTROL[0] + 100, CONTROL[1] + 300)
    assert {purpose.collaboration_id for purpose in line.found} == {""}  # it may be made up


def test_a_connection_without_a_request_is_control() -> None:
    line = Connection()
    line.close()
    assert line.bytes_of("control", party="") == CONTROL


def test_bodies_and_heads_are_told_apart() -> None:
    line = Connection()
    line.meter.received(5100)
    line.meter.received_body(5000)
    line.meter.sent(430)
    line.meter.sent_body(400)
    line.answer(UPLINK, 5200, 450)
    assert line.found[UPLINK] == Counts(Flow(5200, 0, 5100, 5000), Flow(450, 0, 430, 400))


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


@pytest.mark.parametrize(("text", "found"), [("ab" * 16, "ab" * 16), ("%00", ""), ("\0", ""), ("u1", "")])
def test_only_what_can_be_an_upload_is_looked_for(text: str, found: str) -> None:
    """A database may refuse to look for anything else, and then no count at all would be written."""
    assert purpose_of("HEAD", f"/v1/uploads/{text}").upload_id == found


# the table


def test_the_drawing_is_the_table() -> None:
    drawing = (metering.server.__doc__ or "").partition("::\n")[2].partition("    1  ")[0]
    upper, lower, _, *rows = (
        [cell.strip() for cell in line.split("|")] for line in drawing.strip().split("\n")
    )
    headings = [" ".join(words) for words in zip(upper[1:], lower[1:], strict=True)]
    assert headings == [event.value for event in Event]
    drawn = {}
    for state, *cells in rows:
        for event, cell in zip(Event, cells, strict=True):
            after, _, number = cell.partition(" ")
            if after != ".":
                drawn[State(state), event] = (State(after), Attribute(int(number or 0)))
    assert drawn == TRANSITIONS
    assert [State(row[0]) for row in rows] == list(State)


steps = st.lists(
    st.tuples(
        st.sampled_from(Event),
        st.integers(0, 1000),
        st.integers(0, 1000),
        st.sampled_from([UPLINK, DOWNLINK, of("/healthz", party="")]),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_happens_every_byte_is_attributed_once(
    steps: Sequence[tuple[Event, int, int, Purpose]],
) -> None:
    line = Connection()
    for event, received, sent, request in steps:
        is_known = line.meter.state in (State.BODY, State.ANSWER, State.PIPELINE)
        line.carry(received, sent)
        line.tell(event, request if is_known else None)
        if event is Event.CONNECTION_LOST:
            break
    line.tell(Event.CONNECTION_LOST)
    total = sum(line.found.values(), Counts())
    assert (total.up.wire_bytes, total.down.wire_bytes) == (line.up, line.down)
    assert all(min(each.up.wire_bytes, each.down.wire_bytes) >= 0 for each in line.found.values())
    assert line.meter.state is State.LOST
    assert line.meter.handle(Event.ANSWER_COMPLETE, TcpCount(), None) == []
