"""An analyst that tells members different histories: each ledger holds by itself, and they find out.

The analyst's operator can write into its database and holds its key; these tests use both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import LedgerError
from protocol.ledger import LedgerEntry, entry_digest
from protocol.states import Event
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.custody.round_directory import LEDGER_FILE


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    found = Consortium(tmp_path, monkeypatch)
    yield found
    found.close()


def rewrite(made: Consortium, event: Event, party: str | None, **fields: object) -> None:
    """Change one entry in the database, and chain all after it anew."""
    with made.analyst.records.begin(write=True) as unit:
        rows = unit.ledger(made.id)
        previous = rows[0].previous
        for row in rows:
            if (row.event, row.party) == (event, party):
                for name, value in fields.items():
                    setattr(row, name, value)
            row.previous = previous
            values = {name: getattr(row, name) for name in LedgerEntry.model_fields}
            row.digest = previous = entry_digest(LedgerEntry(**values))
    made.restart_analyst()


def forget_ledgers(made: Consortium) -> None:
    """Leave members with nothing but the messages they have: what these pin is found without it."""
    for session in made.sessions:
        session.round(made.id).directory.remove(LEDGER_FILE)


def test_two_ledgers_hold_by_themselves_and_not_beside_each_other(made: Consortium) -> None:
    """Before the uplinks no receipt pins anything: only comparing finds it, from either side."""
    made.until_accepted()
    of_lead, seen_by_lead = made.lead_round.fetch_ledger()
    rewrite(made, Event.ACCEPT_TERMS, LEAD, subject=bytes(32))  # another acceptance, in the lead's name
    of_hospital, seen_by_hospital = made.hospital_round.fetch_ledger()
    assert len(seen_by_lead.entries) == len(seen_by_hospital.entries)
    assert seen_by_lead.head != seen_by_hospital.head
    for session, theirs in ((made.lead, of_hospital), (made.hospital, of_lead)):
        with pytest.raises(LedgerError, match="entry 1: is not the one seen before"):
            session.round(made.id).verify_ledger(theirs)


def test_nobody_else_is_accepted_for(made: Consortium) -> None:
    """Who is named sees it without comparing."""
    made.until_accepted()
    rewrite(made, Event.ACCEPT_TERMS, HOSPITAL, subject=bytes(32))
    with pytest.raises(LedgerError, match="entry 2: 'accept terms' in our name"):
        made.hospital_round.fetch_ledger()
    made.lead_round.fetch_ledger()


@pytest.mark.parametrize(
    ("event", "party", "says"),
    [
        (Event.RELEASE, None, "'release' is not of the model we were sent"),
        (Event.PUBLISH_ANCHOR, LEAD, "'publish anchor' is not of the anchor we were sent"),
        (Event.PUBLISH_TERMS, None, "'publish terms' is not of the terms we were shown"),
    ],
    ids=str,
)
def test_what_all_were_sent_is_one_entry_for_all(
    made: Consortium, event: Event, party: str | None, says: str
) -> None:
    """Another model, anchor or terms for one member contradict the ledger the others see."""
    made.until_released()
    made.hospital_round.receive()
    forget_ledgers(made)
    rewrite(made, event, party, subject=bytes(32))
    with pytest.raises(LedgerError, match=says):
        made.hospital_round.fetch_ledger()


def test_a_step_before_an_uplink_cannot_be_changed_after_its_receipt(made: Consortium) -> None:
    made.until_contributed()
    forget_ledgers(made)
    rewrite(made, Event.ACCEPT_TERMS, LEAD, at=1)
    for session in made.sessions:
        with pytest.raises(LedgerError, match="is not the one our receipt names"):
            session.round(made.id).fetch_ledger()
