"""The audit trail: every entry of every ledger and every act, in the order of time, for a program to read."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from analyst_server.services.analyst import Analyst
from analyst_server.store import ActRow, LedgerRow

Line = dict[str, Any]


def trail(analyst: Analyst, since: int = 0) -> Iterator[Line]:
    """Yield what happened from a time (unix seconds) on, oldest first.

    Each line has an ``id`` that never changes, so that whoever reads a time twice can tell. Ledgers and acts
    are read as they are at one moment.
    """
    with analyst.records.begin() as unit:
        entries = map(_of_ledger, unit.ledger_since(since))
        acts = map(_of_act, unit.acts_since(since))
        for line in heapq.merge(entries, acts, key=itemgetter("at")):
            line["time"] = datetime.fromtimestamp(line.pop("at"), UTC).isoformat().replace("+00:00", "Z")
            yield line


def _of_ledger(row: LedgerRow) -> Line:
    return {
        "at": row.at,
        "id": f"ledger/{row.collaboration_id}/{row.index}",
        "kind": "ledger",
        "event": row.event,
        "collaboration_id": row.collaboration_id,
        "party": row.party,
        "state": row.state,
        "subject": row.subject.hex() if row.subject else None,
        "digest": row.digest.hex(),
    }


def _of_act(row: ActRow) -> Line:
    return {
        "at": row.at,
        "id": f"act/{row.id}",
        "kind": "act",
        "event": row.act,
        "collaboration_id": row.collaboration_id,
        "actor_kind": row.actor_kind,
        "actor": row.actor,
        "subject": row.subject or None,
    }
