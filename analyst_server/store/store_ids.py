"""Which store of arrays the records speak of (`analyst_server.blobs.store_id`)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy import insert

from analyst_server.store.questions import Questions
from analyst_server.store.tables import StoreRow

_ARRAYS: Final = "arrays"


class StoreIds(Questions):
    """The questions of a transaction about the store of arrays that it belongs to."""

    def store_id(self) -> str | None:
        """Return the id of the store that these records speak of, None if they name none yet."""
        row = self._get(StoreRow, _ARRAYS)
        return row.id if row else None

    def put_first_store_id(self, store_id: str) -> None:
        """Note the first id; of several processes that do so, all but one wait here and are overtaken."""
        self._session.execute(insert(StoreRow).values(name=_ARRAYS, id=store_id))

    def put_store_id(self, store_id: str) -> None:
        """Note the id, in the place of another if there is one."""
        self._session.merge(StoreRow(name=_ARRAYS, id=store_id))
        self._session.flush()  # before anything is written into the store


def store_id_in(copy: Path) -> str | None:
    """Return the id that a copied database of SQLite names; None also if an earlier version has made it."""
    with closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            found = database.execute("SELECT id FROM stores WHERE name = ?", [_ARRAYS]).fetchone()
        except sqlite3.OperationalError:  # it has no such table
            return None
    return str(found[0]) if found else None
