"""Who has to act next in a collaboration, as values: a status says it in words, a metric counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple, get_args

from analyst_server.services import rounds
from analyst_server.services.analyst import outline
from analyst_server.store import Collaboration, MemberState, UplinkState
from protocol.states import State

Act = Literal[
    "accept-terms",
    "change-terms",
    "create-anchor",
    "contribute",
    "compute",
    "release",
    "resume",
    "share-anchor",
]
ACTS: Final[tuple[Act, ...]] = get_args(Act)
THE_ANALYST: Final = "the analyst"


class Awaited(NamedTuple):
    """One party, or the analyst, that has to act."""

    who: str
    act: Act
    text: str
    """With the command to run."""

    @property
    def is_a_person(self) -> bool:
        """Whether somebody has to do it; a round that is computed waits for a machine."""
        return self.act != "compute"


def awaited(
    collaboration: Collaboration,
    members: Sequence[MemberState],
    uplinks: Mapping[str, Sequence[UplinkState]],
    excluded: AbstractSet[str] = frozenset(),
    asked_again: AbstractSet[str] = frozenset(),
) -> list[Awaited]:
    """Return who has to act next, and how.

    Parameters
    ----------
    uplinks : mapping of str to sequence of UplinkState
        Of every member, an empty sequence if it has begun none.
    excluded, asked_again : set of str
        Members who were excluded, and those who have to send the same bytes again.
    """
    state, terms = collaboration.now_in, outline(collaboration)
    late = terms.late_consumers
    if state is State.ENROLLING:
        return _before_the_anchor(terms.lead, members, late)
    if state in (State.ANCHORED, State.COLLECTING):
        return [
            _contribute(party)
            for party, sent in uplinks.items()
            if party not in late | excluded and not any(uplink.is_received for uplink in sent)
        ]
    if rounds.is_held(collaboration):
        return [Awaited(THE_ANALYST, "release", f"{THE_ANALYST}: odc-analyst collaboration release")]
    if state in (State.SEALED, State.ALIGNING, State.TRAINING):
        return [Awaited(THE_ANALYST, "compute", f"{THE_ANALYST}: the round is computed")]
    if again := sorted(asked_again - excluded):
        return list(map(_contribute, again))
    if state is State.FAILED:
        return [Awaited(THE_ANALYST, "resume", f"{THE_ANALYST}: odc-analyst collaboration resume")]
    if state is State.RELEASED and any(member.has_accepted and not member.has_anchor for member in members):
        return [Awaited(terms.lead, "share-anchor", f"{terms.lead}: odc anchor share")]
    return []


def _contribute(party: str) -> Awaited:
    return Awaited(party, "contribute", f"{party}: odc contribute")


def _before_the_anchor(lead: str, members: Sequence[MemberState], late: AbstractSet[str]) -> list[Awaited]:
    unsigned = {member.party: member.rejected for member in members if not member.has_accepted}
    found = [
        Awaited(party, "accept-terms", f"{party}: odc terms accept")
        if rejected is None
        else Awaited(
            THE_ANALYST,
            "change-terms",
            f"{THE_ANALYST}: other terms, or none: {party} rejects these: {rejected}",
        )
        for party, rejected in unsigned.items()
        if party not in late
    ]
    return (found or [Awaited(lead, "create-anchor", f"{lead}: odc anchor create")]) + [
        Awaited(
            party,
            "accept-terms",
            f"{party}, a late consumer: odc terms accept, before the anchor is created",
        )
        for party in unsigned
        if party in late
    ]
