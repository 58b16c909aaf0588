"""What somebody outside is to be told, until it is delivered: the questions of a transaction about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, select

from analyst_server.store.questions import Questions
from analyst_server.store.tables import Collaboration, LedgerRow, NoticeRow, ToldRow


class Notices(Questions):
    """The questions of a transaction about notices, and about what was told already."""

    def collaborations_but_in(self, ended: Collection[str]) -> list[str]:
        """Return the ids of the collaborations that are in none of some states."""
        query = select(Collaboration.id).where(Collaboration.state.not_in(ended))
        return list(self._session.scalars(query))

    def last_index_of(self, collaboration_id: str, event: str) -> int | None:
        """Return the number of the last ledger entry of one kind."""
        query = select(func.max(LedgerRow.index)).where(
            LedgerRow.collaboration_id == collaboration_id, LedgerRow.event == event
        )
        return self._session.scalar(query)

    def told(self, about: str) -> dict[str, int]:
        """Return for what somebody was told that others are awaited, and since when that was so."""
        row = self._get(ToldRow, about)
        return dict(row.waits) if row else {}

    def put_told(self, about: str, waits: dict[str, int]) -> None:
        """Note what was told; nothing is kept of what nobody is awaited for."""
        if waits:
            self._session.merge(ToldRow(about=about, waits=waits))
        else:
            self._session.execute(delete(ToldRow).where(ToldRow.about == about))

    def told_about(self) -> set[str]:
        """Return the collaborations of which anything was told, and "" if of certificates."""
        return set(self._session.scalars(select(ToldRow.about)))

    def forget_told(self, about: Collection[str]) -> None:
        """Delete what was told of some."""
        self._session.execute(delete(ToldRow).where(ToldRow.about.in_(about)))

    def count_notices(self) -> int:
        """Return how many notices are not delivered."""
        return self._session.scalar(select(func.count()).select_from(NoticeRow)) or 0

    def notices(self) -> Sequence[NoticeRow]:
        """Return the notices that are not delivered, oldest first."""
        return self._session.scalars(select(NoticeRow).order_by(NoticeRow.created_at, NoticeRow.id)).all()

    def due_notice(self, now: int) -> NoticeRow | None:
        """Return the notice that has been due for longest; a writer has it alone."""
        query = (
            select(NoticeRow)
            .where(NoticeRow.next_at <= now)
            .order_by(NoticeRow.next_at, NoticeRow.created_at, NoticeRow.id)
            .limit(1)
        )
        return self._session.scalars(self._to_claim(query)).first()

    def notice(self, notice_id: str) -> NoticeRow | None:
        return self._get(NoticeRow, notice_id)

    def forget_notice(self, notice_id: str) -> None:
        self._session.execute(delete(NoticeRow).where(NoticeRow.id == notice_id))
