"""The id of a store of arrays: the same random number in it and in the records that speak of what is in it.

A directory that is not mounted looks like an empty one. By its id a store is told from another.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from analyst_server.store.blobs import Blobs
from analyst_server.store.questions import Questions
from analyst_server.store.tables import StoreRow

STORE_ID_KEY: Final = "store-id"
"""A blob like all others, so that whoever copies a store copies it. No round has a folder of this name."""
_ARRAYS: Final = "arrays"
_MOST_BYTES: Final = 64


class StoreIds(Questions):
    """The questions of a transaction about the store of arrays that it belongs to."""

    def store_id(self) -> str | None:
        """Return the id of the store that these records speak of, None if they name none yet."""
        row = self._get(StoreRow, _ARRAYS)
        return row.id if row else None

    def put_store_id(self, store_id: str) -> None:
        """Note the id; of several processes that note the first, all but one are overtaken."""
        self._session.merge(StoreRow(name=_ARRAYS, id=store_id))
        self._session.flush()


def id_of(blobs: Blobs) -> str | None:
    """Return the id that a store has, None if it has none; raises `OSError` if it cannot be read."""
    try:
        return blobs.read_copy(STORE_ID_KEY, 0, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None


def store_id_in(copy: Path) -> str | None:
    """Return the id that a copied database of SQLite names; None also if an earlier version has made it."""
    with closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            found = database.execute("SELECT id FROM stores WHERE name = ?", [_ARRAYS]).fetchone()
        except sqlite3.OperationalError:  # it has no such table
            return None
    return str(found[0]) if found else None
