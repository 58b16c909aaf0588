"""What parties say of the ledger once they have their downlink, relayed to the others, who compare."""

from __future__ import annotations

from typing import Final

from analyst_server.services.analyst import Analyst, check_seen, find_as_member
from analyst_server.store import SeenLedgerRow
from protocol.codec import pack_list, pack_lists
from protocol.errors import NotPermittedError
from protocol.identity import Identity
from protocol.ledger import SeenLedger

MOST_OF_A_PAGE: Final = 1024


def send(analyst: Analyst, sender: Identity, collaboration_id: str, body: bytes) -> None:
    """Keep what a party says, unless it has said it of a longer ledger before.

    Raises
    ------
    NotPermittedError
        If it is of another party or collaboration than the sender's.
    NotFoundError
        If the sender is no member of the collaboration.
    LedgerError
        If this ledger never had that head.
    MalformedMessageError
        If the terms name no key of the analyst.
    """
    said = analyst.verify_from(sender, SeenLedger, body).message
    if (said.collaboration_id, said.party) != (collaboration_id, sender.name):
        raise NotPermittedError(f"{sender.name} speaks for another party or collaboration")
    with analyst.records.begin(write=True) as unit:
        collaboration, _ = find_as_member(unit, collaboration_id, sender)
        check_seen(unit, collaboration, said)
        held = unit.seen_ledger(collaboration_id, sender.name)
        if held is None or held.length < said.seen.length:
            unit.put_seen_ledger(
                SeenLedgerRow(
                    collaboration_id=collaboration_id,
                    party=sender.name,
                    length=said.seen.length,
                    statement=body,
                )
            )


def page(analyst: Analyst, sender: Identity, collaboration_id: str, after: str, most: int) -> bytes:
    """Return what parties have said, from the first after ``after`` on: ``most`` of them, or fewer."""
    with analyst.records.begin() as unit:
        find_as_member(unit, collaboration_id, sender)
        found = unit.seen_ledgers(collaboration_id, after, min(most, MOST_OF_A_PAGE))
    return next(pack_lists(found), pack_list([]))
