"""Collaborations as lists show them: the questions of a transaction about many of them at once.

However many there are, a question is asked once for all that are named in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, and_, func, or_, select, text
from sqlalchemy.orm import undefer

from analyst_server.store.questions import Questions, is_of
from analyst_server.store.tables import (
    Collaboration,
    Downlink,
    DownlinkState,
    LedgerRow,
    Member,
    MemberState,
    Uplink,
    UplinkState,
)
from protocol.states import Event

_BEHIND_ALL_DIGITS: Final = "g"
_MOST_OF_A_QUESTION: Final = 500
"""Collaborations that the records are asked about at once: a question names each of them."""


class Wanted(NamedTuple):
    """Which collaborations of a list are meant; all, if nothing else is said.

    Attributes
    ----------
    only : str, optional
        The id of the only one.
    begins : str
        How their ids begin.
    states : collection of str, optional
        The states that they are in.
    behind : Collaboration, optional
        Those that are listed after it.
    newest_first : bool
        Else the oldest is the first.
    skip, most
        How many of these are left out first, and how many there are then at most.
    """

    only: str | None = None
    begins: str = ""
    states: Collection[str] | None = None
    behind: Collaboration | None = None
    newest_first: bool = False
    skip: int = 0
    most: int | None = None


class Suspicions(NamedTuple):
    """What the alignment of a round says of its parties; most rounds have neither."""

    suspicions: Sequence[Mapping[str, Any]]
    left_out: Sequence[str]


ALL: Final = Wanted()


def by_question(rows: Sequence[Collaboration]) -> Iterator[Sequence[Collaboration]]:
    """Yield collaborations in parts, each of as many as one question may name."""
    for start in range(0, len(rows), _MOST_OF_A_QUESTION):
        yield rows[start : start + _MOST_OF_A_QUESTION]


class Listings(Questions):
    """The questions of a transaction about many collaborations."""

    def collaborations(self, party: str | None = None, wanted: Wanted = ALL) -> Sequence[Collaboration]:
        """Return all collaborations, or those of a party, and of them those that are wanted."""
        query = _chosen(wanted)
        if party is not None:
            query = query.join(Member, Member.collaboration_id == Collaboration.id).where(
                Member.party == party
            )
        return self._session.scalars(query).all()

    def read_results(self, collaboration_ids: Collection[str]) -> None:
        """Read the results of collaborations, which are otherwise read one after another when asked for."""
        query = (
            select(Collaboration)
            .where(Collaboration.id.in_(collaboration_ids))
            .options(undefer(Collaboration.results))
            .execution_options(populate_existing=True)
        )
        if collaboration_ids:
            self._session.scalars(query).all()

    def member_states_of(
        self, collaboration_ids: Collection[str], party: str | None = None
    ) -> Mapping[str, list[MemberState]]:
        """Return what a status shows of the members, or of one, for each collaboration; by party."""
        query = (
            select(
                Member.collaboration_id,
                Member.party,
                Member.acceptance.is_not(None),
                Member.sealed_anchor.is_not(None),
                Member.last_seen_at,
                Member.rejected,
            )
            .where(Member.collaboration_id.in_(collaboration_ids), is_of(Member.party, party))
            .order_by(Member.party)
        )
        found: dict[str, list[MemberState]] = defaultdict(list)
        for row in self._session.execute(query):
            found[row[0]].append(MemberState(*row[1:]))
        return found

    def member_states(self, collaboration_id: str, party: str | None = None) -> list[MemberState]:
        """Return the same of one collaboration."""
        return self.member_states_of([collaboration_id], party)[collaboration_id]

    def uplink_states_of(
        self, collaboration_ids: Collection[str], party: str | None = None
    ) -> Mapping[str, list[UplinkState]]:
        """Return what a status shows of uplinks, begun or complete, of all or of one party; oldest first."""
        query = (
            select(
                Uplink.id,
                Uplink.collaboration_id,
                Uplink.party,
                Uplink.rows,
                Uplink.receipt.is_not(None),
                Uplink.refused,
                Uplink.payload_bytes,
                Uplink.stored_as,
            )
            .where(Uplink.collaboration_id.in_(collaboration_ids), is_of(Uplink.party, party))
            .order_by(Uplink.created_at, Uplink.id)
        )
        found: dict[str, list[UplinkState]] = defaultdict(list)
        for row in self._session.execute(query):
            found[row.collaboration_id].append(UplinkState(*row))
        return found

    def uplink_states(self, collaboration_id: str, party: str | None = None) -> list[UplinkState]:
        """Return the same of one collaboration."""
        return self.uplink_states_of([collaboration_id], party)[collaboration_id]

    def downlink_states_of(
        self, collaboration_ids: Collection[str], party: str | None = None
    ) -> Mapping[str, list[DownlinkState]]:
        """Return what a status shows of downlinks, of all or of one party."""
        query = select(Downlink.collaboration_id, Downlink.party, Downlink.fetched_at.is_not(None)).where(
            Downlink.collaboration_id.in_(collaboration_ids), is_of(Downlink.party, party)
        )
        found: dict[str, list[DownlinkState]] = defaultdict(list)
        for row in self._session.execute(query):
            found[row[0]].append(DownlinkState(*row[1:]))
        return found

    def downlink_states(self, collaboration_id: str, party: str | None = None) -> list[DownlinkState]:
        """Return the same of one collaboration."""
        return self.downlink_states_of([collaboration_id], party)[collaboration_id]

    def excluded_of(self, collaboration_ids: Collection[str]) -> Mapping[str, set[str]]:
        """Return the parties that were excluded from each collaboration."""
        # the event as text: by a parameter SQLite does not know that its index will do
        query = select(LedgerRow.collaboration_id, LedgerRow.party).where(
            LedgerRow.collaboration_id.in_(collaboration_ids), LedgerRow.event == text(f"'{Event.EXCLUDE}'")
        )
        found: dict[str, set[str]] = defaultdict(set)
        for collaboration_id, party in self._session.execute(query):
            if party is not None:
                found[collaboration_id].add(party)
        return found

    def suspicions_of(self, collaboration_ids: Collection[str]) -> Mapping[str, Suspicions]:
        """Return whom the alignment suspects and has left out, of those collaborations that say so."""
        aligned = Collaboration.results["alignment"]  # the rest of the results grows with the parties
        query = select(Collaboration.id, aligned["suspicions"], aligned["left_out"]).where(
            Collaboration.id.in_(collaboration_ids)
        )
        return {
            collaboration_id: Suspicions(suspicions, left_out or ())
            for collaboration_id, suspicions, left_out in self._session.execute(query)
            if suspicions
        }

    def last_steps_of(
        self, collaboration_ids: Collection[str], events: Collection[Event]
    ) -> Mapping[str, Mapping[str, int]]:
        """Return when the last step of each of these kinds was taken, by collaboration and kind."""
        last = (
            select(LedgerRow.collaboration_id, func.max(LedgerRow.index).label("index"))
            .where(LedgerRow.collaboration_id.in_(collaboration_ids), LedgerRow.event.in_(events))
            .group_by(LedgerRow.collaboration_id, LedgerRow.event)
            .subquery()
        )
        query = select(LedgerRow.collaboration_id, LedgerRow.event, LedgerRow.at).join(
            last,
            and_(LedgerRow.collaboration_id == last.c.collaboration_id, LedgerRow.index == last.c.index),
        )
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for collaboration_id, event, at in self._session.execute(query):
            found[collaboration_id][event] = at
        return found


def _chosen(wanted: Wanted) -> Select[Any]:
    query, place = select(Collaboration), (Collaboration.created_at, Collaboration.id)
    if wanted.only is not None:
        query = query.where(Collaboration.id == wanted.only)
    if wanted.begins:  # ids are of hexadecimal digits, so that this is a range of their index
        query = query.where(
            Collaboration.id >= wanted.begins, Collaboration.id < wanted.begins + _BEHIND_ALL_DIGITS
        )
    if wanted.states is not None:
        query = query.where(Collaboration.state.in_(wanted.states))
    if (behind := wanted.behind) is not None:
        query = query.where(
            or_(
                Collaboration.created_at > behind.created_at,
                and_(Collaboration.created_at == behind.created_at, Collaboration.id > behind.id),
            )
        )
    order = [column.desc() for column in place] if wanted.newest_first else place
    query = query.order_by(*order).limit(wanted.most)
    return query.offset(wanted.skip) if wanted.skip else query
