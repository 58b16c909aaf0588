"""The id of a store of blobs: the same random number in it and in the records that speak of what is in it.

A directory that is not mounted looks like an empty one. By its id a store is told from another.
"""

from __future__ import annotations

from typing import Final

from analyst_server.blobs.stores import Blobs

STORE_ID_KEY: Final = "store-id"
"""A blob like all others, so that whoever copies a store copies it. No round has a folder of this name."""
_MOST_BYTES: Final = 64


def id_of(blobs: Blobs) -> str | None:
    """Return the id that a store has, None if it has none; raises `OSError` if it cannot be read."""
    try:
        return blobs.read_copy(STORE_ID_KEY, 0, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
