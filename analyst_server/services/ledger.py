"""The ledger as members see it: every step of a collaboration, under the analyst's signature."""

from __future__ import annotations

from analyst_server.services.analyst import Analyst, find_to_view
from analyst_server.store import LedgerRow, Unit
from protocol.codec import encode
from protocol.errors import MalformedMessageError
from protocol.identity import Identity
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage
from protocol.limits import MAX_LEDGER_PAGE
from protocol.states import Event, State


def page(analyst: Analyst, viewer: Identity | None, collaboration_id: str, start: int) -> bytes:
    """Return the entries from number ``start`` on, as many as fit, and the signed head of all.

    The viewer is a member, or with None the analyst's operator.

    Raises `MalformedMessageError` for a start beyond the end.
    """
    with analyst.records.begin() as unit:
        find_to_view(unit, collaboration_id, viewer)
        head = signed_head(analyst, unit, collaboration_id)
        rows = unit.ledger(collaboration_id, start=start, limit=MAX_LEDGER_PAGE)
    if not rows and start:
        raise MalformedMessageError("ledger", f"has no entry {start}")
    return encode(LedgerPage(entries=tuple(map(_entry, rows)), head=head))


def signed_head(analyst: Analyst, unit: Unit, collaboration_id: str) -> bytes:
    """Return the analyst's signature under all entries there are."""
    last = unit.last_of_ledger(collaboration_id)
    if last is None:  # a collaboration begins with its first entry
        raise MalformedMessageError("ledger", "has no entries")
    return analyst.sign(
        LedgerHead(
            collaboration_id=collaboration_id,
            length=last.index + 1,
            digest=last.digest,
            at=analyst.clock(),
        )
    )


def _entry(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(
        index=row.index,
        at=row.at,
        event=Event(row.event),
        party=row.party,
        state=State(row.state),
        subject=row.subject,
        previous=row.previous,
    )
