"""Ledger entries as they are on the wire, kept in memory: every member of a round reads the same ones."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from analyst_server.store import Unit
from protocol.ledger import pack_entry
from protocol.limits import MAX_LEDGER_PAGE

MOST_ENTRIES: Final = 2**17
"""Of all ledgers together: some 25 MB."""


class PackedLedgers:
    """Reads entries, and keeps those of the ledgers that were read last; an entry never changes.

    With a thousand members, to read and to pack two thousand entries for each of them would take a fifth of
    the time that their contributions take.
    """

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most_entries = most_entries
        self._lock = Lock()
        self._kept: OrderedDict[str, list[bytes]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return how many entries are kept."""
        return self._count

    def read(self, unit: Unit, collaboration_id: str, start: int, end: int) -> list[bytes]:
        """Return the packed entries from number ``start`` up to ``end``, of a ledger that has so many."""
        with self._lock:
            kept = self._kept.setdefault(collaboration_id, [])
            self._kept.move_to_end(collaboration_id)
            known = len(kept)
            if end <= known:
                return kept[start:end]
        if end - known > MAX_LEDGER_PAGE:  # too long to read all of it for somebody who asks for its end
            return [pack_entry(each) for each in unit.ledger_entries(collaboration_id, start=start, end=end)]
        new = [pack_entry(each) for each in unit.ledger_entries(collaboration_id, start=known, end=end)]
        with self._lock:
            before = len(kept)
            kept[known:end] = new  # another request may have added the same ones meanwhile, and more
            if self._kept.get(collaboration_id) is kept:
                self._count += len(kept) - before
            while self._count > self._most_entries:
                self._count -= len(self._kept.popitem(last=False)[1])
            return kept[start:end]
