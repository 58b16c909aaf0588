"""What is asked again and again of rounds under way; it does not grow with what their parties have done."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, func, or_, select, text

from analyst_server.store.questions import Questions
from analyst_server.store.tables import Collaboration, LedgerRow, Progress, Reserved, Uplink
from protocol.states import Event


class Following(Questions):
    """The questions of a transaction that follow collaborations on their way."""

    def progress(self, collaboration_ids: Collection[str]) -> list[Progress]:
        """Return how far collaborations are, without what each of their parties has done."""
        steps = (
            select(func.max(LedgerRow.index))
            .where(LedgerRow.collaboration_id == Collaboration.id)
            .scalar_subquery()
        )
        query = select(
            Collaboration.id,
            Collaboration.state,
            Collaboration.failure,
            Collaboration.lease_owner.is_not(None),
            Collaboration.is_judging,
            func.coalesce(steps + 1, 0),
        ).where(Collaboration.id.in_(collaboration_ids))
        return [Progress(*row) for row in self._session.execute(query)]

    def excluded(self, collaboration_id: str) -> set[str]:
        """Return the parties that were excluded from a collaboration."""
        # the event as text: by a parameter SQLite does not know that its index will do
        query = select(LedgerRow.party).where(
            LedgerRow.collaboration_id == collaboration_id, LedgerRow.event == text(f"'{Event.EXCLUDE}'")
        )
        return {party for party in self._session.scalars(query) if party is not None}

    def stepped(self, collaboration_id: str, start: int) -> set[str | None]:
        """Return who has caused ledger entries from number ``start`` on; None stands for the analyst."""
        query = (
            select(LedgerRow.party)
            .where(LedgerRow.collaboration_id == collaboration_id, LedgerRow.index >= start)
            .distinct()
        )
        return set(self._session.scalars(query))

    def most_awaited_bytes(self, states: Collection[str]) -> int:
        """Return the payload of all uplinks without a receipt, also replaced ones, in such collaborations."""
        return self._sum(Collaboration.state.in_(states), Uplink.received_at.is_(None))

    def reserved(self, states: Collection[str]) -> list[Reserved]:
        """Return the uplinks without a receipt that were not replaced, in collaborations in some states."""
        query = (
            select(Uplink.id, Uplink.collaboration_id, Uplink.party, Uplink.payload_bytes, Uplink.stored_as)
            .join(Collaboration, Collaboration.id == Uplink.collaboration_id)
            .where(Collaboration.state.in_(states), Uplink.received_at.is_(None), _was_begun_last())
        )
        return [Reserved(*row) for row in self._session.execute(query)]

    def kept_bytes(self, collaboration_id: str, party: str) -> int:
        """Return the payload of the uplinks of a collaboration, but for those of one party."""
        return self._sum(
            Uplink.collaboration_id == collaboration_id, Uplink.party != party, _counts_for_its_party()
        )

    def kept_bytes_of(self, party: str, ended: Collection[str], but_for: str) -> int:
        """Return the payload of the uplinks of a party in collaborations not in some states, but for one."""
        return self._sum(
            Uplink.party == party,
            Collaboration.state.not_in(ended),
            Uplink.collaboration_id != but_for,
            _counts_for_its_party(),
        )

    def _sum(self, *conditions: ColumnElement[bool]) -> int:
        query = (
            select(func.coalesce(func.sum(Uplink.payload_bytes), 0))
            .join(Collaboration, Collaboration.id == Uplink.collaboration_id)
            .where(*conditions)
        )
        return int(self._session.scalar(query) or 0)


def _counts_for_its_party() -> ColumnElement[bool]:
    return or_(Uplink.received_at.is_not(None), _was_begun_last())


def _was_begun_last() -> ColumnElement[bool]:
    """Return the condition that no other uplink of its party was begun after an uplink."""
    begun_last = (
        select(LedgerRow.subject)
        .where(
            LedgerRow.collaboration_id == Uplink.collaboration_id,
            LedgerRow.party == Uplink.party,
            LedgerRow.event == Event.BEGIN_UPLINK,
        )
        .order_by(LedgerRow.index.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(begun_last, Uplink.manifest_digest) == Uplink.manifest_digest
