"""Groups of parties whose rows are joined: all of a group take part or none, and share one fate."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from protocol.errors import OutOfOrderError
from protocol.states import Event
from protocol.terms import Terms


def require_whole_groups(terms: Terms, received: Collection[str], state: str) -> None:
    """Raise `OutOfOrderError` if a round would be sealed with a part of a group."""
    for group in terms.joined_rows:
        missing = [party for party in group.parties if party not in received]
        if missing and len(missing) < len(group.parties):
            raise OutOfOrderError(
                state,
                Event.SEAL,
                f"the rows of {', '.join(group.parties)} are joined, and those of {', '.join(missing)} are"
                " missing: wait for them, or cancel this collaboration and start another without them",
            )


def require_no_group(terms: Terms, party: str, state: str) -> None:
    """Raise `OutOfOrderError` if a party would be excluded whose rows complete those of others."""
    if (group := terms.group_of(party)) is not None:
        raise OutOfOrderError(
            state,
            Event.EXCLUDE,
            f"the rows of {party} are joined with those of {', '.join(group.others(party))}: cancel this"
            " collaboration, and start another without it",
        )


def with_their_groups(terms: Terms, parties: Iterable[str]) -> list[str]:
    """Return parties by whose names rows are aligned, each with those that its rows are joined with."""
    found: list[str] = []
    for party in parties:
        group = terms.group_of(party)
        found += [party, *(group.others(party) if group else ())]
    return found
