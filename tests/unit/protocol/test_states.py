from __future__ import annotations

import pytest

from protocol.errors import OutOfOrderError
from protocol.states import TRANSITIONS, Event, State, advance

HAPPY_PATH = [
    (Event.PUBLISH_TERMS, State.ENROLLING),
    (Event.ACCEPT_TERMS, State.ENROLLING),
    (Event.PUBLISH_ANCHOR, State.ANCHORED),
    (Event.BEGIN_UPLINK, State.COLLECTING),
    (Event.ACCEPT_UPLINK, State.COLLECTING),
    (Event.SEAL, State.SEALED),
    (Event.BEGIN_ALIGNMENT, State.ALIGNING),
    (Event.BEGIN_TRAINING, State.TRAINING),
    (Event.RELEASE, State.RELEASED),
    (Event.FETCH_DOWNLINK, State.RELEASED),
    (Event.CLOSE, State.CLOSED),
]


def reachable(start: State) -> set[State]:
    """Return the states that can follow ``start``, which is itself among them only if it can come again."""
    found: set[State] = set()
    edge = {start}
    while edge:
        edge = {after for (before, _), after in TRANSITIONS.items() if before in edge} - found
        found |= edge
    return found


def test_a_round_that_goes_well_passes_every_state_in_order() -> None:
    state = State.DRAFT
    for event, after in HAPPY_PATH:
        state = advance(state, event)
        assert state is after


def test_nothing_leads_from_sealed_back_to_collecting() -> None:
    before = {State.DRAFT, State.ENROLLING, State.ANCHORED, State.COLLECTING}
    for state in (State.SEALED, State.ALIGNING, State.TRAINING, State.FAILED):
        assert not reachable(state) & before


@pytest.mark.parametrize("state", [State.CLOSED, State.CANCELLED])
def test_closed_and_cancelled_are_ends(state: State) -> None:
    assert not reachable(state)


def test_what_is_released_never_fails_and_is_never_cancelled() -> None:
    assert reachable(State.RELEASED) == {State.RELEASED, State.CLOSED}


def test_only_work_of_the_analyst_fails() -> None:
    failing = {before for (before, _), after in TRANSITIONS.items() if before is not after is State.FAILED}
    assert failing == {State.ALIGNING, State.TRAINING}


def test_failed_or_interrupted_work_starts_again_from_the_seal() -> None:
    resumed = {before: after for (before, event), after in TRANSITIONS.items() if event is Event.RESUME}
    assert resumed == dict.fromkeys([State.FAILED, State.ALIGNING, State.TRAINING], State.SEALED)


def test_uplinks_are_taken_while_collecting_and_from_late_consumers_after_the_release() -> None:
    taken = [before for before, event in TRANSITIONS if event is Event.ACCEPT_UPLINK]
    assert taken == [State.COLLECTING, State.RELEASED]


def test_a_late_consumer_changes_no_state() -> None:
    steps = {event for before, event in TRANSITIONS if before is State.RELEASED} - {Event.CLOSE}
    assert {advance(State.RELEASED, step) for step in steps} == {State.RELEASED}
    assert {Event.ACCEPT_TERMS, Event.SHARE_ANCHOR, Event.ALIGN_CONSUMER, Event.REFUSE_CONSUMER} < steps


def test_every_state_is_reached_and_every_event_used() -> None:
    assert reachable(State.DRAFT) == set(State) - {State.DRAFT}
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_an_event_out_of_order_is_refused_with_state_and_event() -> None:
    with pytest.raises(OutOfOrderError, match="collaboration is draft: 'seal' is not possible now") as caught:
        advance(State.DRAFT, Event.SEAL)
    assert caught.value.context == {"state": "draft"}
    assert caught.value.__suppress_context__
