"""The server's side of the meter: one connection as a state machine, events in, attributed counts out.

Pure: its caller says what happens on the connection, what TCP has carried by then, and which request is
being answered. The machine says which bytes were whose. A request takes what came until it was complete,
and what was sent until its answer was complete. Some of that answer may still wait to be sent; it has
left when the peer begins its next request, or closes. The handshake, and what closes the connection, are
control.

::

    state    | request    | head     | request  | answer    | one answer | peer     | we        | connection
             | begins     | complete | complete | complete  | of several | closes   | close     | lost
    ---------+------------+----------+----------+-----------+------------+----------+-----------+-----------
    idle     | head 1     | body     | .        | .         | .          | closed 1 | idle 1    | lost 5
    head     | .          | body     | .        | .         | .          | closed 1 | head 1    | lost 5
    body     | .          | .        | answer 2 | refused 3 | .          | closed 3 | .         | lost 4
    answer   | pipeline 6 | .        | .        | idle 3    | .          | closed 3 | .         | lost 4
    refused  | .          | .        | idle 7   | .         | .          | closed 1 | refused 1 | lost 5
    pipeline | pipeline 6 | .        | .        | idle 3    | pipeline 3 | closed 3 | .         | lost 4
    closed   | .          | .        | .        | closed    | .          | .        | .         | lost 5
    lost     | .          | .        | .        | .         | .          | .        | .         | .

    1  what was sent until now belongs to the request answered last
    2  what has come until now is noted: it is all of the request
    3  the request takes what came until 2, or until now, and what was sent until now
    4  the request was cut off and takes everything
    5  everything else is control, of the party whose request was the last
    6  what was sent until now belongs to the request being answered
    7  what has come until now belongs to the request answered last, before it had come completely
    .  cannot happen, or means nothing here: nothing changes

In ``pipeline`` a request came before the one before it was answered. No client of ours does that, and the
bytes of such requests are not told apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Final

from metering.counts import Counts, Flow, TcpCount
from protocol.operations import CERTIFICATE_REQUEST_STATUS, UPLOAD_OFFSET, Kind, kind_of


@dataclass(frozen=True)
class Purpose:
    """What a request was for, as far as its address and its certificate tell."""

    kind: Kind = "control"
    party: str = ""
    collaboration_id: str = ""
    upload_id: str = ""
    invitation_id: str = ""
    """Whose request it was before it had a certificate."""

    @property
    def has_owner(self) -> bool:
        return bool(self.party or self.invitation_id)

    def owned_by(self, other: Purpose) -> Purpose:
        """Return this purpose with the owner of another."""
        return replace(self, party=other.party, invitation_id=other.invitation_id)


def purpose_of(method: str, path: str) -> Purpose:
    """Return what a request is for, by its address alone."""
    kind, collaboration_id = kind_of(path)
    upload = UPLOAD_OFFSET.match(path) or {}
    enrolment = (CERTIFICATE_REQUEST_STATUS.match(path) or {}) if method == "GET" else {}
    return Purpose(
        kind=kind,
        collaboration_id=collaboration_id,
        upload_id=_id_or_none(upload.get("upload_id", "")),
        invitation_id=_id_or_none(enrolment.get("invitation_id", "")),
    )


def _id_or_none(text: str) -> str:
    """Return an id as we give them; "" for anything else, which a database may refuse to look for."""
    return text if re.fullmatch("[0-9a-f]{32}", text) else ""


class State(Enum):
    """Where a connection stands."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    REFUSED = "refused"
    PIPELINE = "pipeline"
    CLOSED = "closed"
    LOST = "lost"


class Event(Enum):
    """What happens on it."""

    REQUEST_BEGINS = "request begins"
    HEAD_COMPLETE = "head complete"
    REQUEST_COMPLETE = "request complete"
    ANSWER_COMPLETE = "answer complete"
    ONE_ANSWER_COMPLETE = "one answer of several"
    """An answer is complete, and the head of another request has come already."""
    PEER_CLOSES = "peer closes"
    WE_CLOSE = "we close"
    CONNECTION_LOST = "connection lost"


class Attribute(IntEnum):
    """What is attributed at an event, by its number in the drawing."""

    NOTHING = 0
    LAST_ANSWER = 1
    NOTE_REQUEST = 2
    REQUEST = 3
    CUT_OFF = 4
    CONTROL = 5
    ANSWER_SO_FAR = 6
    LAST_REQUEST = 7


_S, _E, _A = State, Event, Attribute
TRANSITIONS: Final[Mapping[tuple[State, Event], tuple[State, Attribute]]] = {
    (_S.IDLE, _E.REQUEST_BEGINS): (_S.HEAD, _A.LAST_ANSWER),
    (_S.IDLE, _E.HEAD_COMPLETE): (_S.BODY, _A.NOTHING),  # it began while another was being answered
    (_S.IDLE, _E.PEER_CLOSES): (_S.CLOSED, _A.LAST_ANSWER),
    (_S.IDLE, _E.WE_CLOSE): (_S.IDLE, _A.LAST_ANSWER),
    (_S.IDLE, _E.CONNECTION_LOST): (_S.LOST, _A.CONTROL),
    (_S.HEAD, _E.HEAD_COMPLETE): (_S.BODY, _A.NOTHING),
    (_S.HEAD, _E.PEER_CLOSES): (_S.CLOSED, _A.LAST_ANSWER),
    (_S.HEAD, _E.WE_CLOSE): (_S.HEAD, _A.LAST_ANSWER),
    (_S.HEAD, _E.CONNECTION_LOST): (_S.LOST, _A.CONTROL),
    (_S.BODY, _E.REQUEST_COMPLETE): (_S.ANSWER, _A.NOTE_REQUEST),
    (_S.BODY, _E.ANSWER_COMPLETE): (_S.REFUSED, _A.REQUEST),
    (_S.BODY, _E.PEER_CLOSES): (_S.CLOSED, _A.REQUEST),
    (_S.BODY, _E.CONNECTION_LOST): (_S.LOST, _A.CUT_OFF),
    (_S.ANSWER, _E.REQUEST_BEGINS): (_S.PIPELINE, _A.ANSWER_SO_FAR),
    (_S.ANSWER, _E.ANSWER_COMPLETE): (_S.IDLE, _A.REQUEST),
    (_S.ANSWER, _E.PEER_CLOSES): (_S.CLOSED, _A.REQUEST),
    (_S.ANSWER, _E.CONNECTION_LOST): (_S.LOST, _A.CUT_OFF),
    (_S.REFUSED, _E.REQUEST_COMPLETE): (_S.IDLE, _A.LAST_REQUEST),
    (_S.REFUSED, _E.PEER_CLOSES): (_S.CLOSED, _A.LAST_ANSWER),
    (_S.REFUSED, _E.WE_CLOSE): (_S.REFUSED, _A.LAST_ANSWER),
    (_S.REFUSED, _E.CONNECTION_LOST): (_S.LOST, _A.CONTROL),
    (_S.PIPELINE, _E.REQUEST_BEGINS): (_S.PIPELINE, _A.ANSWER_SO_FAR),
    (_S.PIPELINE, _E.ANSWER_COMPLETE): (_S.IDLE, _A.REQUEST),
    (_S.PIPELINE, _E.ONE_ANSWER_COMPLETE): (_S.PIPELINE, _A.REQUEST),
    (_S.PIPELINE, _E.PEER_CLOSES): (_S.CLOSED, _A.REQUEST),
    (_S.PIPELINE, _E.CONNECTION_LOST): (_S.LOST, _A.CUT_OFF),
    (_S.CLOSED, _E.ANSWER_COMPLETE): (_S.CLOSED, _A.NOTHING),
    (_S.CLOSED, _E.CONNECTION_LOST): (_S.LOST, _A.CONTROL),
}
"""Every legal step. A pair that is not here changes nothing: counting never breaks a connection."""

Attributed = tuple[Purpose, Counts]


class ConnectionMeter:
    """The counts of one connection, attributed request by request.

    Parameters
    ----------
    handshake : Counts
        What the connection had carried when TLS was established.
    """

    def __init__(self, handshake: Counts) -> None:
        self.state = State.IDLE
        self._plain_up = self._plain_down = self._body_up = self._body_down = 0
        self._handshake = handshake
        """Until the first request tells whose it was."""
        self._attributed = handshake
        self._request_up: Flow | None = None
        """What had come when the request being answered was complete."""
        self._last: Purpose | None = None
        self._owner = Purpose()
        """Whose connection it is, once a request has told."""
        self._unowned: dict[Purpose, Counts] = {}

    def __repr__(self) -> str:
        return f"<ConnectionMeter {self.state.value}>"

    def received(self, plain_bytes: int) -> None:
        """Note what came out of TLS."""
        self._plain_up += plain_bytes

    def received_body(self, body_bytes: int) -> None:
        """Note how much of that was the body of a request."""
        self._body_up += body_bytes

    def sent(self, plain_bytes: int) -> None:
        """Note what went into TLS."""
        self._plain_down += plain_bytes

    def sent_body(self, body_bytes: int) -> None:
        """Note how much of that was the body of an answer."""
        self._body_down += body_bytes

    def handle(self, event: Event, tcp: TcpCount, request: Purpose | None) -> list[Attributed]:
        """Take one step and return the counts it attributes.

        Parameters
        ----------
        tcp : TcpCount
            What the connection has carried until now.
        request : Purpose, optional
            The oldest request whose head has come and whose answer was not complete before this event.
        """
        self.state, attribute = TRANSITIONS.get((self.state, event), (self.state, Attribute.NOTHING))
        found = self._attribute(attribute, self._carried(tcp), request)
        if event in (Event.ANSWER_COMPLETE, Event.ONE_ANSWER_COMPLETE):
            self._request_up, self._last = None, request
        return found

    def _attribute(self, attribute: Attribute, now: Counts, request: Purpose | None) -> list[Attributed]:
        before, latest = self._attributed, request or self._last
        match attribute:
            case Attribute.LAST_ANSWER if self._last is not None:
                return self._until(Counts(before.up, now.down), self._last)
            case Attribute.NOTE_REQUEST:
                self._request_up = now.up
            case Attribute.REQUEST if request is not None:
                return self._until(Counts(self._request_up or now.up, now.down), request)
            case Attribute.CUT_OFF if request is not None:
                return self._until(now, request) + self._rest()
            case Attribute.CUT_OFF | Attribute.CONTROL:
                return self._until(now, replace(latest or Purpose(), kind="control")) + self._rest()
            case Attribute.ANSWER_SO_FAR if request is not None:
                return self._until(Counts(before.up, now.down), request)
            case Attribute.LAST_REQUEST if self._last is not None:
                return self._until(Counts(now.up, before.down), self._last)
        return []

    def _until(self, until: Counts, purpose: Purpose) -> list[Attributed]:
        """Return what came and was sent since the last attribution; the handshake first of all."""
        found = []
        if self._handshake != Counts():
            found += self._owned(replace(purpose, kind="control"), self._handshake)
            self._handshake = Counts()
        found += self._owned(purpose, until - self._attributed)
        self._attributed = until
        return found

    def _owned(self, purpose: Purpose, counts: Counts) -> list[Attributed]:
        """Return counts with their owner; keep those that have none for the first request that has one."""
        if not purpose.has_owner and not self._owner.has_owner:
            key = Purpose(purpose.kind)
            self._unowned[key] = self._unowned.get(key, Counts()) + counts
            return []
        self._owner = purpose if purpose.has_owner else self._owner
        earlier = [(kept.owned_by(self._owner), unowned) for kept, unowned in self._rest()]
        return [*earlier, (purpose.owned_by(self._owner), counts)]

    def _rest(self) -> list[Attributed]:
        """Return what nobody has claimed."""
        rest, self._unowned = list(self._unowned.items()), {}
        return rest

    def _carried(self, tcp: TcpCount) -> Counts:
        return Counts(
            up=Flow(tcp.received_bytes, 0, self._plain_up, self._body_up, tcp.segments_in),
            down=Flow(
                tcp.sent_bytes,
                tcp.retransmitted_bytes,
                self._plain_down,
                self._body_down,
                tcp.segments_out,
            ),
        )
