from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from analyst_server.services import analyst as analyst_module
from analyst_server.services import prepare, rounds, views
from analyst_server.services.packed_ledgers import PackedLedgers
from analyst_server.store import Unit
from protocol.codec import decode, digest, encode
from protocol.envelope import Signed, decode_stored, seed_commitment, verify
from protocol.errors import LimitExceededError, MalformedMessageError, NotFoundError, OutOfOrderError
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, check_chain
from protocol.messages import DownlinkManifest, Receipt
from tests.harness.certificates import NOW
from tests.harness.computing import claim, fetch, finish
from tests.harness.world import HOSPITAL, LEAD, SEED, World, identity, make_terms, make_uplink

LIMIT_S = 30


def page_of(world: World, start: int = 0, party: str = HOSPITAL) -> LedgerPage:
    return decode(LedgerPage, views.ledger_page(world.analyst, identity(party), world.id, start))


def stored_entries(world: World) -> tuple[LedgerEntry, ...]:
    with world.analyst.records.begin() as unit:
        return tuple(map(views.entry_of, unit.ledger(world.id)))


def entries_of(world: World) -> tuple[LedgerEntry, ...]:
    return page_of(world).entries


def payload_digest(signed: bytes) -> bytes:
    return hashlib.sha256(decode(Signed, signed).payload).digest()


def test_every_step_of_a_round_is_entered_with_what_it_was_about(world: World) -> None:
    world.publish()
    acceptances = {party: world.acceptance(party) for party in (LEAD, HOSPITAL)}
    for party, body in acceptances.items():
        prepare.accept(world.analyst, identity(party), world.id, body)
    world.publish_anchor()
    uplinks = [make_uplink(world.terms, party, seed=n) for n, party in enumerate((LEAD, HOSPITAL))]
    for uplink in uplinks:
        world.send(uplink)
    claim(world)
    finish(world)
    downlink, _ = fetch(world, HOSPITAL)
    sent = [digest(uplink.manifest) for uplink in uplinks]
    assert [(one.event.value, one.party, one.state.value, one.subject) for one in entries_of(world)] == [
        ("publish terms", None, "enrolling", digest(world.terms)),
        ("accept terms", LEAD, "enrolling", payload_digest(acceptances[LEAD])),
        ("accept terms", HOSPITAL, "enrolling", payload_digest(acceptances[HOSPITAL])),
        ("publish anchor", LEAD, "anchored", seed_commitment(SEED)),
        ("begin uplink", LEAD, "collecting", sent[0]),
        ("accept uplink", LEAD, "collecting", sent[0]),
        ("begin uplink", HOSPITAL, "collecting", sent[1]),
        ("accept uplink", HOSPITAL, "collecting", sent[1]),
        ("seal", None, "sealed", None),
        ("begin alignment", None, "aligning", None),
        ("begin training", None, "training", None),
        ("release", None, "released", downlink.model.digest),
        ("fetch downlink", HOSPITAL, "released", digest(downlink)),
    ]


def test_the_chain_holds_under_the_signed_head(world: World) -> None:
    world.until_sealed()
    page = page_of(world)
    head = verify(LedgerHead, page.head, world.analyst.root, at=NOW)
    assert head.author == identity("analyst")
    heads = check_chain(world.id, page.entries)
    assert head.message == LedgerHead(
        collaboration_id=world.id, length=len(page.entries), digest=heads[-1], at=NOW
    )


def test_a_receipt_names_the_entry_of_its_uplink(world: World) -> None:
    world.until_anchored()
    receipt = verify(
        Receipt, world.send(make_uplink(world.terms, HOSPITAL)), world.analyst.root, at=NOW
    ).message
    entry = entries_of(world)[receipt.ledger_index]
    assert (entry.event, entry.party, entry.subject) == ("accept uplink", HOSPITAL, receipt.uplink_digest)
    assert check_chain(world.id, entries_of(world))[receipt.ledger_index + 1] == receipt.ledger_digest


def test_fetching_again_is_no_step(world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world)
    for _ in range(3):
        fetch(world, HOSPITAL)
    assert [entry.party for entry in entries_of(world) if entry.event == "fetch downlink"] == [HOSPITAL]


def test_a_held_round_enters_its_model_when_it_is_released(world: World) -> None:
    world.until_sealed()
    claim(world)
    finish(world, hold=True)
    rounds.release(world.analyst, world.id)
    with world.records.begin() as unit:
        (one, other) = unit.downlinks(world.id)
    models = {decode_stored(DownlinkManifest, row.manifest).model.digest for row in (one, other)}
    assert {entries_of(world)[-1].subject} == models


def test_a_step_that_is_refused_leaves_no_entry(world: World) -> None:
    world.until_sealed()
    before = entries_of(world)
    with pytest.raises(OutOfOrderError):
        world.accept(LEAD)
    assert entries_of(world) == before


def test_a_ledger_begins_with_its_collaboration(world: World) -> None:
    """The first entries of two collaborations with one text differ in what they continue."""
    world.publish()
    first = entries_of(world)[0]
    world.publish(make_terms(collaboration_id="d1" * 16))
    assert entries_of(world)[0].previous != first.previous


def test_steps_at_the_same_time_make_one_chain(world: World) -> None:
    parties = tuple(f"hospital-{number}" for number in range(8))
    world.publish(make_terms(parties=(LEAD, *parties)))
    threads = [threading.Thread(target=world.accept, args=(party,)) for party in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    entries = page_of(world, party=LEAD).entries
    check_chain(world.id, entries)
    assert {entry.party for entry in entries} == {None, *parties}


def test_nobody_can_fill_the_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyst_module, "MAX_STEPS_OF_A_PARTY", 3)
    world.publish()
    for _ in range(3):
        world.accept(HOSPITAL)  # each signature is drawn anew
    with pytest.raises(LimitExceededError, match=f"steps of {HOSPITAL}"):
        world.accept(HOSPITAL)
    world.accept(LEAD)
    assert len(entries_of(world)) == 5


def test_pages_go_on_where_they_are_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_LEDGER_PAGE", 2)
    world.until_anchored()
    assert [entry.index for entry in page_of(world, 1).entries] == [1, 2]
    assert [entry.index for entry in page_of(world, 3).entries] == [3]
    with pytest.raises(MalformedMessageError, match="has no entry 4"):
        page_of(world, 4)


def test_entries_are_read_once_for_everybody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    stored = Unit.ledger_entries

    def noted(unit: Unit, collaboration_id: str, *, start: int, end: int) -> Sequence[Sequence[Any]]:
        asked.append((start, end))
        return stored(unit, collaboration_id, start=start, end=end)

    monkeypatch.setattr(Unit, "ledger_entries", noted)
    world.until_anchored()
    first = page_of(world)
    assert first.entries == stored_entries(world) == page_of(world, party=LEAD).entries
    assert asked == [(0, 4)]
    world.send(make_uplink(world.terms, HOSPITAL))
    assert (first.entries[3], *page_of(world, start=4).entries) == stored_entries(world)[3:]
    assert asked == [(0, 4), (4, len(stored_entries(world)))]


def test_many_ledgers_make_room_for_the_newest(world: World) -> None:
    ledgers = PackedLedgers(most_entries=6)
    ids = [f"{number:032x}" for number in range(3)]
    for each in ids:
        world.until_anchored(make_terms(collaboration_id=each))
    for _ in range(2):
        for collaboration_id in ids:
            with world.analyst.records.begin() as unit:
                found = ledgers.read(unit, collaboration_id, 0, 4)
                assert found == [encode(views.entry_of(row)) for row in unit.ledger(collaboration_id)]
            assert len(ledgers) == 4


@pytest.mark.parametrize("party", ["hospital-z", "analyst"])
def test_who_is_no_member_sees_no_ledger(world: World, party: str) -> None:
    world.publish()
    with pytest.raises(NotFoundError):
        page_of(world, party=party)
