"""An analyst that forks the ledger after the last uplink, for one member: nobody has to compare by hand.

Each of the two ledgers holds by itself, and has what each member has signed before the fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_server.services import views
from analyst_server.services.analyst import Analyst
from protocol.codec import decode, encode, pack_list, unpack_list
from protocol.envelope import decode_stored
from protocol.errors import LedgerError, NotFoundError, OdcError
from protocol.identity import Identity, key_digest
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, SeenLedger, entry_digest, first_previous
from protocol.messages import SeenHead
from protocol.operations import LIST_SEEN_LEDGERS, SEND_SEEN_LEDGER, Operation
from protocol.states import Event
from tests.harness.in_process import HOSPITAL, LEAD, Consortium
from user_client.custody.round_directory import DOWNLINK_FILE, MODEL_FILE, REFUSED_DOWNLINK_FILE
from user_client.sdk import Session


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    found = Consortium(tmp_path, monkeypatch)
    found.until_released(analyst_key=key_digest(found.analyst.key.public_key()))
    yield found
    found.close()


def fork_after_the_uplinks(made: Consortium, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    """Show one member a ledger in which the round was released at another time; all after it follow."""
    page: Callable[..., bytes] = views.ledger_page

    def shown(analyst: Analyst, viewer: Identity, collaboration_id: str, start: int) -> bytes:
        if viewer.name != victim:
            return page(analyst, viewer, collaboration_id, start)
        chained: list[LedgerEntry] = []
        last = first_previous(made.id)
        for entry in decode(LedgerPage, page(analyst, viewer, collaboration_id, 0)).entries:
            at = entry.at - 1 if entry.event is Event.RELEASE else entry.at
            chained.append(entry.model_copy(update={"previous": last, "at": at}))
            last = entry_digest(chained[-1])
        head = LedgerHead(collaboration_id=made.id, length=len(chained), digest=last, at=made.clock())
        return encode(LedgerPage(entries=tuple(chained[start:]), head=analyst.sign(head)))

    monkeypatch.setattr(views, "ledger_page", shown)
    monkeypatch.setattr("analyst_server.services.seen.check_seen", lambda *_: None)


def test_who_receives_after_the_victim_finds_the_fork(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_after_the_uplinks(made, monkeypatch, HOSPITAL)
    made.hospital_round.receive()  # it is the first: what it sees holds by itself
    with pytest.raises(LedgerError, match=f"{HOSPITAL} has seen another ledger than ours") as caught:
        made.lead_round.receive()
    assert f"ask {HOSPITAL} for its ledger" in caught.value.hint
    kept = {path.name for path in made.lead_round.directory.path.iterdir()}
    assert REFUSED_DOWNLINK_FILE in kept
    assert not kept & {DOWNLINK_FILE, MODEL_FILE}
    theirs = made.hospital_round.stored_ledger()  # what the hint asks for is the proof
    with pytest.raises(LedgerError, match="the ledger was rewritten"):
        made.lead_round.verify_ledger(theirs)


def test_the_victim_that_receives_last_finds_the_fork(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_after_the_uplinks(made, monkeypatch, HOSPITAL)
    made.lead_round.receive()
    with pytest.raises(LedgerError, match=f"{LEAD} has seen another ledger than ours"):
        made.hospital_round.receive()
    assert not made.hospital_round.directory.holds(DOWNLINK_FILE)


def test_who_has_received_finds_the_fork_by_fetching_the_ledger(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analyst withholds from the victim what others say, and not the other way round."""
    fork_after_the_uplinks(made, monkeypatch, HOSPITAL)
    made.lead_round.receive()
    answering(made.hospital, monkeypatch, lambda: httpx.Response(200, content=pack_list([])))
    made.hospital_round.receive()
    with pytest.raises(LedgerError, match=f"{HOSPITAL} has seen another ledger than ours"):
        made.lead_round.fetch_ledger()


def test_members_of_one_ledger_are_named(made: Consortium) -> None:
    made.lead_round.receive()
    made.hospital_round.receive()
    assert made.lead_round.fetch_ledger()[1].receivers == (HOSPITAL,)
    assert made.hospital_round.fetch_ledger()[1].receivers == (LEAD,)


def said(made: Consortium, session: Session, **changed: Any) -> bytes:
    entries = session.round(made.id).verify_ledger(session.round(made.id).stored_ledger()).entries
    values = {
        "collaboration_id": made.id,
        "party": session.membership.party,
        "seen": SeenHead(length=2, digest=entry_digest(entries[1])),
        "at": made.clock(),
    }
    return session.sign(SeenLedger(**{**values, **changed}))


def ask(session: Session, operation: Operation, *body: bytes, **ids: Any) -> bytes:
    return session.connection.ask(operation, *body, **ids).content


def test_what_is_no_head_of_this_ledger_is_not_relayed(made: Consortium) -> None:
    for seen in (SeenHead(length=2, digest=bytes(32)), SeenHead(length=10**6, digest=bytes(32))):
        with pytest.raises(LedgerError, match="has seen another ledger"):
            ask(
                made.hospital,
                SEND_SEEN_LEDGER,
                said(made, made.hospital, seen=seen),
                collaboration_id=made.id,
            )
    assert unpack_list(ask(made.lead, LIST_SEEN_LEDGERS, collaboration_id=made.id)) == []


def test_nobody_speaks_for_another(made: Consortium) -> None:
    for forged in (
        said(made, made.hospital, party=LEAD),
        said(made, made.lead),
        said(made, made.hospital, collaboration_id="0" * 32),
    ):
        with pytest.raises(OdcError):
            ask(made.hospital, SEND_SEEN_LEDGER, forged, collaboration_id=made.id)


def test_what_was_said_of_a_longer_ledger_stays(made: Consortium) -> None:
    made.hospital_round.receive()
    (longest,) = unpack_list(ask(made.lead, LIST_SEEN_LEDGERS, collaboration_id=made.id))
    ask(made.hospital, SEND_SEEN_LEDGER, said(made, made.hospital), collaboration_id=made.id)
    assert unpack_list(ask(made.lead, LIST_SEEN_LEDGERS, collaboration_id=made.id)) == [longest]
    assert decode_stored(SeenLedger, longest).seen.length > 2


@pytest.mark.parametrize("most", ["0", "1", "9"])
def test_a_member_asks_for_as_many_as_it_wants(made: Consortium, most: str) -> None:
    made.lead_round.receive()
    made.hospital_round.receive()
    found = ask(made.lead, LIST_SEEN_LEDGERS, collaboration_id=made.id, query=f"most={most}")
    assert len(unpack_list(found)) == min(int(most), 2)


def answering(
    session: Session, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], httpx.Response]
) -> None:
    honest = session.connection.ask

    def lying(operation: Operation, *args: Any, **ids: Any) -> Any:
        if operation is LIST_SEEN_LEDGERS:
            return (
                answer()
                if "after=h" not in ids.get("query", "")
                else httpx.Response(200, content=pack_list([]))
            )
        return honest(operation, *args, **ids)

    monkeypatch.setattr(session.connection, "ask", lying)


def test_words_put_into_a_members_mouth_are_refused(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = said(made, made.hospital, party=LEAD)
    answering(made.hospital, monkeypatch, lambda: httpx.Response(200, content=pack_list([forged])))
    with pytest.raises(OdcError, match="signed by somebody else"):
        made.hospital_round.receive()
    nonsense = httpx.Response(200, content=pack_list([b"nonsense"]))
    answering(made.hospital, monkeypatch, lambda: nonsense)
    with pytest.raises(OdcError):
        made.hospital_round.receive()
    assert not made.hospital_round.directory.holds(DOWNLINK_FILE)


def test_an_analyst_that_knows_no_such_request_is_no_hindrance(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one; a newer one that says so withholds what members say, as it can in any case."""

    def unknown() -> httpx.Response:
        raise NotFoundError("there is nothing here")

    answering(made.hospital, monkeypatch, unknown)
    made.hospital_round.receive()
    assert made.hospital_round.fetch_ledger()[1].receivers == ()
