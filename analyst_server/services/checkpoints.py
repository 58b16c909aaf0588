"""Checkpoints of ledgers: signed once for each length, because a root takes the whole ledger."""

from __future__ import annotations

import threading
from typing import Final

from analyst_server.services.analyst import Analyst, find_to_view
from analyst_server.services.views import entry_of
from protocol.checkpoint import Checkpoint, Note
from protocol.identity import Identity

MOST_KEPT: Final = 256
"""Checkpoints of as many collaborations are kept in memory: some 300 bytes each."""


class Checkpoints:
    """The newest checkpoint of each ledger that somebody has asked for."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self._kept: dict[str, tuple[int, bytes]] = {}
        self._lock = threading.Lock()

    def newest(self, viewer: Identity | None, collaboration_id: str) -> bytes:
        """Return the checkpoint of all entries, for a member or, with None, for the operator.

        Raises `NotFoundError`.
        """
        with self._analyst.records.begin() as unit:
            find_to_view(unit, collaboration_id, viewer)
            last = unit.last_of_ledger(collaboration_id)
            size = last.index + 1 if last else 0
            with self._lock:
                known = self._kept.get(collaboration_id)
            if known is not None and known[0] == size:
                return known[1]
            entries = [entry_of(row) for row in unit.ledger(collaboration_id, limit=size)]
        note = Note(Checkpoint.of(collaboration_id, entries), ())
        signed = note.signed(self._analyst.key, self._analyst.certificate).bytes
        with self._lock:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[collaboration_id] = size, signed
        return signed
