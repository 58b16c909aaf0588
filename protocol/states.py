"""The states of a collaboration and the events that change them, as one table.

Every change of state goes through `advance`. A test checks that the picture in docs/protocol.md is drawn from
`TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from protocol.errors import OutOfOrderError


class State(StrEnum):
    """The state of a collaboration."""

    DRAFT = "draft"
    ENROLLING = "enrolling"
    ANCHORED = "anchored"
    COLLECTING = "collecting"
    SEALED = "sealed"
    ALIGNING = "aligning"
    TRAINING = "training"
    RELEASED = "released"
    CLOSED = "closed"
    FAILED = "failed"
    CANCELLED = "cancelled"


COMPUTING: Final = frozenset({State.SEALED, State.ALIGNING, State.TRAINING})
"""While a worker of the analyst computes the round, or holds its result back."""


ENDED: Final = (State.CLOSED, State.CANCELLED)
"""Nothing follows these."""


class Event(StrEnum):
    """What can happen to a collaboration."""

    PUBLISH_TERMS = "publish terms"
    ACCEPT_TERMS = "accept terms"
    PUBLISH_ANCHOR = "publish anchor"
    BEGIN_UPLINK = "begin uplink"
    ACCEPT_UPLINK = "accept uplink"
    SEAL = "seal"
    BEGIN_ALIGNMENT = "begin alignment"
    BEGIN_TRAINING = "begin training"
    RELEASE = "release"
    FETCH_DOWNLINK = "fetch downlink"
    SHARE_ANCHOR = "share anchor"
    ALIGN_CONSUMER = "align consumer"
    REFUSE_CONSUMER = "refuse consumer"
    EXCLUDE = "exclude party"
    SUSPECT = "suspect party"
    LEAVE_OUT = "leave out rows"
    CLOSE = "close"
    FAIL = "fail"
    RESUME = "resume"
    CANCEL = "cancel"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.DRAFT, Event.PUBLISH_TERMS): State.ENROLLING,
    (State.ENROLLING, Event.ACCEPT_TERMS): State.ENROLLING,
    (State.ENROLLING, Event.PUBLISH_ANCHOR): State.ANCHORED,
    (State.ANCHORED, Event.BEGIN_UPLINK): State.COLLECTING,
    (State.COLLECTING, Event.BEGIN_UPLINK): State.COLLECTING,
    (State.COLLECTING, Event.ACCEPT_UPLINK): State.COLLECTING,
    (State.COLLECTING, Event.SEAL): State.SEALED,
    (State.SEALED, Event.BEGIN_ALIGNMENT): State.ALIGNING,
    (State.ALIGNING, Event.BEGIN_TRAINING): State.TRAINING,
    (State.TRAINING, Event.RELEASE): State.RELEASED,
    (State.RELEASED, Event.FETCH_DOWNLINK): State.RELEASED,
    (State.RELEASED, Event.CLOSE): State.CLOSED,
    # a late consumer: see `Terms.late_consumers`
    (State.RELEASED, Event.ACCEPT_TERMS): State.RELEASED,
    (State.RELEASED, Event.SHARE_ANCHOR): State.RELEASED,
    (State.RELEASED, Event.BEGIN_UPLINK): State.RELEASED,
    (State.RELEASED, Event.ACCEPT_UPLINK): State.RELEASED,
    (State.RELEASED, Event.ALIGN_CONSUMER): State.RELEASED,
    (State.RELEASED, Event.REFUSE_CONSUMER): State.RELEASED,
    # interrupted or failed work starts again from the sealed uplinks
    (State.ALIGNING, Event.FAIL): State.FAILED,
    (State.TRAINING, Event.FAIL): State.FAILED,
    (State.ALIGNING, Event.RESUME): State.SEALED,
    (State.TRAINING, Event.RESUME): State.SEALED,
    (State.FAILED, Event.RESUME): State.SEALED,
    # the analyst's operator leaves a party out (docs/adr/0025); a model trained with its rows is discarded
    (State.ANCHORED, Event.EXCLUDE): State.ANCHORED,
    (State.COLLECTING, Event.EXCLUDE): State.COLLECTING,
    (State.SEALED, Event.EXCLUDE): State.SEALED,
    (State.TRAINING, Event.EXCLUDE): State.FAILED,
    (State.FAILED, Event.EXCLUDE): State.FAILED,
    # what the alignment has found, before the release (docs/adr/0036)
    (State.TRAINING, Event.SUSPECT): State.TRAINING,
    (State.TRAINING, Event.LEAVE_OUT): State.TRAINING,
    # once the model is released, nothing can be cancelled
    (State.DRAFT, Event.CANCEL): State.CANCELLED,
    (State.ENROLLING, Event.CANCEL): State.CANCELLED,
    (State.ANCHORED, Event.CANCEL): State.CANCELLED,
    (State.COLLECTING, Event.CANCEL): State.CANCELLED,
    (State.SEALED, Event.CANCEL): State.CANCELLED,
    (State.FAILED, Event.CANCEL): State.CANCELLED,
}


def advance(state: State, event: Event) -> State:
    """Return the state after ``event``, or raise `OutOfOrderError`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise OutOfOrderError(state, event) from None
