"""What all questions of a transaction share: its session, and what a writer locks.

SQLite lets one writer in at a time. PostgreSQL lets in many, so a writer locks what it reads to change it:
rows by reading them, and what no row stands for by `Questions.alone_with`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, func, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from analyst_server.store.tables import Base

R = TypeVar("R", bound=Base)


class Questions:
    """The questions of one transaction; ``lock_rows`` says that it writes beside others."""

    def __init__(self, session: Session, *, lock_rows: bool = False) -> None:
        self._session = session
        self._lock_rows = lock_rows

    def alone_with(self, what: str) -> None:
        """Wait until no other transaction that writes is alone with the same; the name is any text.

        It stands for rows that are not there yet: a limit on their number, or one of a kind. Whoever needs
        more than one of these, or rows as well, begins with this.
        """
        if self._lock_rows:
            self._session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(what, 0))))

    def _get(self, kind: type[R], key: Any) -> R | None:
        """Return a row by its key; a writer locks it until its end, and sees what others have committed."""
        return self._session.get(
            kind, key, with_for_update=True if self._lock_rows else None, populate_existing=self._lock_rows
        )

    def _to_claim(self, query: Select[Any]) -> Select[Any]:
        """Return a query for rows to choose from; a writer locks them, and passes over those of others."""
        if not self._lock_rows:
            return query
        return query.with_for_update(skip_locked=True).execution_options(populate_existing=True)


def is_of(column: InstrumentedAttribute[Any], party: str | None) -> ColumnElement[bool]:
    """Return the condition that a row is of a party, or with None of anybody."""
    return true() if party is None else column == party
