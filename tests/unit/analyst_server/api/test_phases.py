from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from analyst_server.api.phases import PhaseBound
from metering.private_parts import READ_BYTES, CutOffError
from metering.server import Event
from protocol.limits import MAX_FIELDS_OF_A_REQUEST, MAX_HEAD_BYTES, MAX_REQUESTS_AHEAD

BEGINS, HEAD, WHOLE = Event.REQUEST_BEGINS, Event.HEAD_COMPLETE, Event.REQUEST_COMPLETE
ANSWERED, ONE_ANSWERED = Event.ANSWER_COMPLETE, Event.ONE_ANSWER_COMPLETE
Step = Event | tuple[str, int]


class Transport:
    """An asyncio transport, as far as it is asked."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def bound(*steps: Step, longest_s: float = 60) -> Transport:
    """Return a transport after a bound on it was told of events and bytes, and time has passed."""
    transport: Any = Transport()

    async def play() -> None:
        made = PhaseBound(transport, longest_s)
        for step in steps:
            match step:
                case Event():
                    made.happened(step, None)
                case (kind, size):
                    getattr(made, kind)(size)
        await asyncio.sleep(0.01)

    asyncio.run(play())
    found: Transport = transport
    return found


def bytes_of(*sizes: int) -> list[Step]:
    return [("received", size) for size in sizes]


# bytes


@pytest.mark.parametrize("before", [[], [BEGINS], [BEGINS, HEAD, WHOLE, ANSWERED, BEGINS], [BEGINS, HEAD]])
def test_what_is_no_body_is_bounded_in_every_phase(before: Sequence[Step]) -> None:
    bound(*before, *bytes_of(MAX_HEAD_BYTES, READ_BYTES))
    with pytest.raises(CutOffError):
        bound(*before, *bytes_of(MAX_HEAD_BYTES, READ_BYTES, 1))


def test_bodies_have_no_such_bound() -> None:
    bound(BEGINS, HEAD, *[("received", READ_BYTES), ("received_body", READ_BYTES)] * 100)
    # after a pause, what TLS has kept meanwhile comes at once
    bound(BEGINS, HEAD, *[("received", 4 * READ_BYTES), ("received_body", 4 * READ_BYTES)] * 3)


@pytest.mark.parametrize("size", [1, MAX_HEAD_BYTES // MAX_FIELDS_OF_A_REQUEST])
def test_lines_of_a_head_and_trailers_are_bounded_together(size: int) -> None:
    half: list[Step] = [("received_field", size)] * (MAX_FIELDS_OF_A_REQUEST // 2)
    bound(BEGINS, *half, HEAD, *half)
    with pytest.raises(CutOffError):
        bound(BEGINS, *half, HEAD, *half, ("received_field", size))
    bound(BEGINS, *half, *half, HEAD, WHOLE, ANSWERED, BEGINS, *half, *half)


def test_one_line_is_bounded() -> None:
    with pytest.raises(CutOffError):
        bound(BEGINS, ("received_field", MAX_HEAD_BYTES + 1))


def test_requests_ahead_are_bounded() -> None:
    bound(*[BEGINS, HEAD, WHOLE] * MAX_REQUESTS_AHEAD)
    with pytest.raises(CutOffError):
        bound(*[BEGINS, HEAD, WHOLE] * MAX_REQUESTS_AHEAD, BEGINS)
    bound(*[BEGINS, HEAD, WHOLE] * MAX_REQUESTS_AHEAD, ONE_ANSWERED, BEGINS)


# time


@pytest.mark.parametrize(
    ("steps", "is_aborted"),
    [
        ([], True),
        ([BEGINS], True),
        ([BEGINS, HEAD], False),
        ([BEGINS, HEAD, WHOLE], False),
        ([BEGINS, HEAD, WHOLE, ANSWERED, BEGINS], True),
        ([BEGINS, HEAD, ANSWERED], True),
        ([BEGINS, HEAD, WHOLE, BEGINS], True),
        ([BEGINS, HEAD, WHOLE, BEGINS, HEAD, WHOLE, ONE_ANSWERED], False),
        ([Event.CONNECTION_LOST], False),
    ],
)
def test_every_phase_but_those_of_the_application_has_its_time(
    steps: Sequence[Step], is_aborted: bool
) -> None:
    assert bound(*steps, longest_s=0).is_aborted == is_aborted
