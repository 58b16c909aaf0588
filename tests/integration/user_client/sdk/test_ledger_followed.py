"""`contribute` and `receive` check the ledger by themselves, with what is new of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.orm import object_session

from analyst_server.services import views
from protocol.codec import decode, encode
from protocol.envelope import decode_stored
from protocol.errors import LedgerError
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, entry_digest, first_previous, unpack_pages
from protocol.messages import Receipt
from protocol.states import Event
from tests.harness.in_process import HOSPITAL, Consortium
from user_client.custody.round_directory import REFUSED_FILE
from user_client.transport.upload import send_uplink


def chained(consortium: Consortium, entries: list[LedgerEntry]) -> tuple[list[LedgerEntry], bytes]:
    """What an analyst can make: any entries, chained and signed anew."""
    made: list[LedgerEntry] = []
    last = first_previous(consortium.id)
    for index, entry in enumerate(entries):
        made.append(entry.model_copy(update={"index": index, "previous": last}))
        last = entry_digest(made[-1])
    head = LedgerHead(collaboration_id=consortium.id, length=len(made), digest=last, at=consortium.clock())
    return made, consortium.analyst.sign(head)


def ready(consortium: Consortium) -> None:
    """The hospital has seen a ledger and prepared an uplink."""
    consortium.until_anchored()
    consortium.hospital_round.fetch_ledger()
    consortium.hospital_round.prepare(consortium.table(1))


def has_uplink(consortium: Consortium) -> bool:
    with consortium.analyst.records.begin() as unit:
        return bool(unit.uplinks_of(consortium.id, HOSPITAL))


def test_nothing_is_sent_to_an_analyst_whose_ledger_was_rewritten(consortium: Consortium) -> None:
    ready(consortium)
    with consortium.analyst.records.begin(write=True) as unit:
        rows = unit.ledger(consortium.id)
        entries = [
            LedgerEntry(**{name: getattr(row, name) for name in LedgerEntry.model_fields}) for row in rows
        ]
        entries[1] = entries[1].model_copy(update={"at": entries[1].at + 1})
        for row, entry in zip(rows, chained(consortium, entries)[0], strict=True):
            row.at, row.previous, row.digest = entry.at, entry.previous, entry_digest(entry)
    consortium.restart_analyst()
    with pytest.raises(LedgerError, match="entry 3: is not the one seen before") as caught:
        consortium.hospital_round.contribute()
    evidence = consortium.directory_of(consortium.hospital) / REFUSED_FILE
    assert str(evidence) in caught.value.hint
    assert unpack_pages(evidence.read_bytes())[0].entries[0].index == 3
    assert not has_uplink(consortium)


def test_nor_to_one_that_has_lost_entries(consortium: Consortium) -> None:
    ready(consortium)
    with consortium.analyst.records.begin(write=True) as unit:
        for row in unit.ledger(consortium.id)[2:]:
            session = object_session(row)
            assert session is not None
            session.delete(row)
    with pytest.raises(LedgerError, match="it was shortened"):
        consortium.hospital_round.contribute()
    assert not has_uplink(consortium)


def test_a_receipt_needs_its_entry_at_once(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analyst that signs a receipt, and leaves the entry out of the ledger that it shows."""
    ready(consortium)
    found, page = consortium.hospital_round, views.ledger_page

    def without_it(analyst: Any, viewer: Any, collaboration_id: str, start: int) -> bytes:
        entries = decode(LedgerPage, page(analyst, viewer, collaboration_id, 0)).entries
        shown, head = chained(consortium, [one for one in entries if one.event != Event.ACCEPT_UPLINK])
        return encode(LedgerPage(entries=tuple(shown[start:]), head=head))

    with monkeypatch.context() as lying:
        lying.setattr(views, "ledger_page", without_it)
        for _ in range(2):  # nor is it believed when it is asked for again
            with pytest.raises(LedgerError, match=r"ends after entry \d+; our receipt names entry"):
                found.contribute()
    found.contribute()
    entries = found.verify_ledger(found.stored_ledger()).entries
    assert Event.ACCEPT_UPLINK in [entry.event for entry in entries]


def test_a_receipt_that_names_an_entry_of_before_is_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger that was seen before the uplink reaches to that entry, and is not looked at alone."""
    ready(consortium)

    def renumbered(*args: Any, **options: Any) -> bytes:
        receipt = decode_stored(Receipt, send_uplink(*args, **options))
        return consortium.analyst.sign(receipt.model_copy(update={"ledger_index": 0}))

    monkeypatch.setattr("user_client.sdk.uplink.send_uplink", renumbered)
    for _ in range(2):
        with pytest.raises(LedgerError, match="entry 0: is not the one our receipt names"):
            consortium.hospital_round.contribute()


def test_only_what_is_new_is_fetched(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium.until_anchored()
    starts: list[int] = []
    page = views.ledger_page

    def noted(analyst: Any, viewer: Any, collaboration_id: str, start: int) -> bytes:
        starts.append(start)
        return page(analyst, viewer, collaboration_id, start)

    monkeypatch.setattr(views, "ledger_page", noted)
    for session in (consortium.hospital, consortium.lead):
        session.round(consortium.id).prepare(consortium.table(1))
        session.round(consortium.id).contribute()
    consortium.compute()
    found = consortium.hospital_round
    found.receive()
    assert starts == [0, 3, 0, 5, 5]
    pieced_together = found.verify_ledger(found.stored_ledger())
    assert pieced_together.entries == found.fetch_ledger()[1].entries
