"""What is asked again and again of rounds that somebody waits for; it does not grow with their parties."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from analyst_server.store.tables import Collaboration, LedgerRow, Progress


class Following:
    """The questions of a transaction that follow collaborations on their way."""

    def __init__(self, session: Session) -> None:
        self._session = session

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

    def stepped(self, collaboration_id: str, start: int) -> set[str | None]:
        """Return who has caused ledger entries from number ``start`` on; None stands for the analyst."""
        query = (
            select(LedgerRow.party)
            .where(LedgerRow.collaboration_id == collaboration_id, LedgerRow.index >= start)
            .distinct()
        )
        return set(self._session.scalars(query))
