"""Acts and ledgers over all collaborations: the questions of a transaction for an audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import select

from analyst_server.store.questions import Questions
from analyst_server.store.tables import ActRow, LedgerRow

AT_A_TIME: Final = 1000
"""Rows in memory: an audit may read years of them."""


class Acts(Questions):
    """The questions of a transaction for an audit."""

    def acts_since(self, at: int) -> Iterator[ActRow]:
        """Yield the acts from a time (unix seconds) on, oldest first."""
        query = select(ActRow).where(ActRow.at >= at).order_by(ActRow.at, ActRow.id)
        yield from self._session.scalars(query.execution_options(yield_per=AT_A_TIME))

    def ledger_since(self, at: int) -> Iterator[LedgerRow]:
        """Yield the entries of all ledgers from a time (unix seconds) on, oldest first."""
        query = (
            select(LedgerRow)
            .where(LedgerRow.at >= at)
            .order_by(LedgerRow.at, LedgerRow.collaboration_id, LedgerRow.index)
        )
        yield from self._session.scalars(query.execution_options(yield_per=AT_A_TIME))
