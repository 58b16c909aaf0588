"""Steps of collaborations: the questions of a transaction about their ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, exists, func, select

from analyst_server.store.questions import Questions, is_of
from analyst_server.store.tables import LedgerRow
from protocol.ledger import ENTRY_FIELDS
from protocol.states import Event


class Ledgers(Questions):
    """The questions of a transaction about ledgers."""

    def ledger(
        self, collaboration_id: str, *, start: int = 0, limit: int | None = None
    ) -> Sequence[LedgerRow]:
        """Return entries from number ``start`` on."""
        query = _from(select(LedgerRow), collaboration_id, start).limit(limit)
        return self._session.scalars(query).all()

    def ledger_entries(self, collaboration_id: str, *, start: int, end: int) -> Sequence[Sequence[Any]]:
        """Return the values of entries from number ``start`` up to ``end``, in the order of `ENTRY_FIELDS`.

        To make an object of each takes several times as long.
        """
        values = select(*(getattr(LedgerRow, name) for name in ENTRY_FIELDS))
        query = _from(values, collaboration_id, start).where(LedgerRow.index < end)
        return self._session.execute(query).all()

    def last_of_ledger(self, collaboration_id: str) -> LedgerRow | None:
        query = (
            select(LedgerRow)
            .where(LedgerRow.collaboration_id == collaboration_id)
            .order_by(LedgerRow.index.desc())
            .limit(1)
        )
        return self._session.scalars(query).first()

    def last_step_of(self, collaboration_id: str, party: str | None, event: str) -> LedgerRow | None:
        """Return the last entry of a kind that a party has caused, or with None anybody."""
        query = (
            select(LedgerRow)
            .where(
                LedgerRow.collaboration_id == collaboration_id,
                is_of(LedgerRow.party, party),
                LedgerRow.event == event,
            )
            .order_by(LedgerRow.index.desc())
            .limit(1)
        )
        return self._session.scalars(query).first()

    def has_step(self, collaboration_id: str, party: str, event: Event) -> bool:
        """Return whether a party has taken a step of this kind."""
        query = exists().where(
            LedgerRow.collaboration_id == collaboration_id,
            LedgerRow.party == party,
            LedgerRow.event == event,
        )
        return bool(self._session.scalar(select(query)))

    def count_of_ledger(self, collaboration_id: str, party: str) -> int:
        """Return how many entries a party has caused."""
        query = select(func.count()).where(
            LedgerRow.collaboration_id == collaboration_id, LedgerRow.party == party
        )
        return self._session.scalar(query) or 0


def _from(query: Select[Any], collaboration_id: str, start: int) -> Select[Any]:
    """Return a question about the entries of one ledger, in their order and from number ``start`` on."""
    return query.where(LedgerRow.collaboration_id == collaboration_id, LedgerRow.index >= start).order_by(
        LedgerRow.index
    )
