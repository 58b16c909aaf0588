"""Every state x every event."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import OutOfOrderError
from protocol.states import TRANSITIONS, Event, State, advance


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_step_is_the_one_in_the_table_or_out_of_order(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(OutOfOrderError):
            advance(state, event)


@given(st.lists(st.sampled_from(Event), max_size=40))
def test_no_history_takes_an_uplink_after_the_seal(history: list[Event]) -> None:
    state, sealed = State.DRAFT, False
    for event in history:
        try:
            state = advance(state, event)
        except OutOfOrderError:
            continue
        assert not (sealed and event in {Event.BEGIN_UPLINK, Event.ACCEPT_UPLINK, Event.PUBLISH_ANCHOR})
        sealed = sealed or event is Event.SEAL


@given(st.lists(st.sampled_from(Event), max_size=60))
def test_no_history_releases_a_model_without_terms_anchor_and_seal(history: list[Event]) -> None:
    state, taken = State.DRAFT, []
    for event in history:
        try:
            state = advance(state, event)
        except OutOfOrderError:
            continue
        taken.append(event)
        if event is Event.RELEASE:
            needed = [
                Event.PUBLISH_TERMS,
                Event.PUBLISH_ANCHOR,
                Event.BEGIN_UPLINK,
                Event.SEAL,
                Event.BEGIN_ALIGNMENT,
                Event.BEGIN_TRAINING,
            ]
            assert [taken.index(each) for each in needed] == sorted(taken.index(each) for each in needed)
