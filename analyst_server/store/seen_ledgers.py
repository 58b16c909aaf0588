"""What parties say of the ledger they have seen: the questions of a transaction about it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from analyst_server.store.questions import Questions
from analyst_server.store.tables import SeenLedgerRow


class SeenLedgers(Questions):
    """The questions of a transaction about what parties have seen."""

    def seen_ledger(self, collaboration_id: str, party: str) -> SeenLedgerRow | None:
        return self._get(SeenLedgerRow, (collaboration_id, party))

    def put_seen_ledger(self, row: SeenLedgerRow) -> None:
        """Store what a party says it has seen, and replace what it said before."""
        self._session.merge(row)

    def seen_ledgers(self, collaboration_id: str, after: str, most: int) -> Sequence[bytes]:
        """Return what parties have said, in the order of their names, from the first after ``after`` on."""
        query = (
            select(SeenLedgerRow.statement)
            .where(SeenLedgerRow.collaboration_id == collaboration_id, SeenLedgerRow.party > after)
            .order_by(SeenLedgerRow.party)
            .limit(most)
        )
        return self._session.scalars(query).all()
