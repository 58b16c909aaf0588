"""What is asked again and again of rounds under way; it does not grow with what their parties have done."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import func, select, text

from analyst_server.store.questions import Questions
from analyst_server.store.tables import Collaboration, LedgerRow, Progress, Uplink
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

    def uplinks_without_receipt(self, states: Collection[str]) -> Sequence[Uplink]:
        """Return the uplinks that were begun, and perhaps replaced, in collaborations in some states."""
        query = (
            select(Uplink)
            .join(Collaboration, Collaboration.id == Uplink.collaboration_id)
            .where(Collaboration.state.in_(states), Uplink.receipt.is_(None))
        )
        return self._session.scalars(query).all()
