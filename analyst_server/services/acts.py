"""What people have done to the analyst: who took a step of its operator, made a token, answered a request.

The ledger of a collaboration says what happened, to its members as well. Acts say who did it, are the
operator's alone, and cover what belongs to no collaboration. An act is written in the transaction of what
was done, so that there is none without the other.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from analyst_server.store import ActRow, Unit
from protocol.states import Event

Kind = Literal["host", "token", "certificate"]
Act = Literal[
    "accept arrays",
    "back up",
    "create token",
    "issue certificate",
    "reject request",
    "restore",
    "revoke certificates",
    "revoke token",
]

OPERATORS_STEPS: Final = frozenset(
    {
        Event.PUBLISH_TERMS,
        Event.SEAL,
        Event.RELEASE,
        Event.RESUME,
        Event.EXCLUDE,
        Event.CANCEL,
        Event.CLOSE,
    }
)
"""Steps of a collaboration that the operator takes, or that the analyst takes by itself."""


class Actor(NamedTuple):
    """Who acts: a user of the analyst's machine, an API token by its id, or a party by its certificate."""

    kind: Kind
    name: str
    is_operator: bool


_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


def act_as(actor: Actor | None) -> None:
    """Let everything that this task or thread does be done by somebody, or with None by nobody."""
    _actor.set(actor)


def note(unit: Unit, act: Act, at: int, subject: str = "") -> None:
    """Write down an act, if anybody acts. ``subject`` is what it is about: a party, the id of a token."""
    _write(unit, act, at, None, subject)


def note_step(unit: Unit, event: Event, at: int, collaboration_id: str, party: str | None) -> None:
    """Write down a step of a collaboration if the operator has taken it."""
    actor = _actor.get()
    if event in OPERATORS_STEPS and actor is not None and actor.is_operator:
        _write(unit, event.value, at, collaboration_id, party or "")


def _write(unit: Unit, act: str, at: int, collaboration_id: str | None, subject: str) -> None:
    actor = _actor.get()
    if actor is not None:
        unit.add(
            ActRow(
                at=at,
                act=act,
                actor_kind=actor.kind,
                actor=actor.name,
                collaboration_id=collaboration_id,
                subject=subject,
            )
        )
