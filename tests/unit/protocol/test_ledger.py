from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from protocol.codec import encode
from protocol.errors import LedgerError, LimitExceededError, MalformedMessageError, TruncatedError
from protocol.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerPage,
    check_chain,
    entry_digest,
    first_previous,
    pack_pages,
    trained_on,
    unpack_pages,
)
from protocol.limits import MAX_LEDGER_PAGE, MAX_MESSAGE_BYTES
from protocol.states import Event, State, advance

ID = "c0" * 16
ROUND = [
    (Event.PUBLISH_TERMS, None, State.ENROLLING),
    (Event.ACCEPT_TERMS, "a", State.ENROLLING),
    (Event.PUBLISH_ANCHOR, "a", State.ANCHORED),
    (Event.BEGIN_UPLINK, "a", State.COLLECTING),
    (Event.ACCEPT_UPLINK, "a", State.COLLECTING),
    (Event.SEAL, None, State.SEALED),
]


def chain(steps: list[tuple[Event, str | None, State]]) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    for index, (event, party, state) in enumerate(steps):
        previous = entry_digest(entries[-1]) if entries else first_previous(ID)
        entries.append(
            LedgerEntry(
                index=index, at=index, event=event, party=party, state=state, subject=None, previous=previous
            )
        )
    return entries


def test_the_heads_are_those_after_each_entry() -> None:
    entries = chain(ROUND)
    assert check_chain(ID, entries) == [first_previous(ID), *map(entry_digest, entries)]


def test_a_ledger_without_entries_has_the_head_of_its_collaboration() -> None:
    assert check_chain(ID, []) == [first_previous(ID)]


CHANGES: list[tuple[str, Any]] = [
    ("at", 99),
    ("party", "b"),
    ("party", None),
    ("subject", bytes(32)),
    ("previous", bytes(32)),
]


@pytest.mark.parametrize(("field", "value"), CHANGES)
@pytest.mark.parametrize("index", range(len(ROUND) - 1))
def test_a_changed_entry_is_named_with_the_one_after_it(index: int, field: str, value: Any) -> None:
    entries = chain(ROUND)
    if getattr(entries[index], field) == value:
        value = "c"
    entries[index] = entries[index].model_copy(update={field: value})
    broken = index if field == "previous" else index + 1
    with pytest.raises(LedgerError, match=rf"^entry {broken}: does not continue"):
        check_chain(ID, entries)


def test_a_ledger_fits_no_other_collaboration() -> None:
    with pytest.raises(LedgerError, match="entry 0: does not continue collaboration d1d1"):
        check_chain("d1" * 16, chain(ROUND))


def test_a_number_out_of_order_is_named() -> None:
    entries = chain(ROUND)
    with pytest.raises(LedgerError, match="entry 1: has the number 2"):
        check_chain(ID, [entries[0], *entries[2:]])


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([ROUND[1]], "entry 0: 'accept terms' does not follow draft"),
        ([*ROUND[:1], ROUND[4]], "entry 1: 'accept uplink' does not follow enrolling"),
        (
            [(Event.PUBLISH_TERMS, None, State.SEALED)],
            "entry 0: 'publish terms' leads to enrolling, not to sealed",
        ),
        ([*ROUND[:5], ROUND[4]], "entry 5: a second uplink of a"),
    ],
)
def test_a_step_that_no_round_takes_is_named(steps: list[tuple[Event, str | None, State]], says: str) -> None:
    with pytest.raises(LedgerError, match=f"^{says}$"):
        check_chain(ID, chain(steps))


WHOSE = json.loads((Path(__file__).parents[2] / "vectors" / "trained_on.json").read_text())


@pytest.mark.parametrize("case", WHOSE, ids=[case["name"] for case in WHOSE])
def test_a_ledger_says_whose_uplinks_the_model_is_made_of(case: dict[str, Any]) -> None:
    steps, state = [], State.DRAFT
    for event, party in case["steps"]:
        state = advance(state, Event(event))
        steps.append((Event(event), party, state))
    entries = chain(steps)
    check_chain(ID, entries)
    found = trained_on(entries)
    assert (None if found is None else list(found)) == case["trained_on"]


def test_pages_come_back_from_their_file() -> None:
    entries = chain(ROUND)
    pages = [LedgerPage(entries=tuple(part), head=b"head") for part in (entries[:2], entries[2:])]
    assert unpack_pages(pack_pages(map(encode, pages))) == pages
    assert unpack_pages(b"") == []


@pytest.mark.parametrize("cut", [1, 3, 4, 5, -1])
def test_a_file_that_ends_early_is_truncated(cut: int) -> None:
    data = pack_pages([encode(LedgerPage(entries=(), head=b"head"))])
    with pytest.raises(TruncatedError):
        unpack_pages(data[:cut])


def test_a_length_beyond_a_message_allocates_no_memory() -> None:
    with pytest.raises(TruncatedError):
        unpack_pages(struct.pack("<I", 2**32 - 1) + b"x")
    with pytest.raises(LimitExceededError):
        unpack_pages(struct.pack("<I", MAX_MESSAGE_BYTES + 1) + bytes(MAX_MESSAGE_BYTES + 1))
    with pytest.raises(MalformedMessageError):
        unpack_pages(struct.pack("<I", 0))


def test_a_full_page_is_a_message() -> None:
    longest = LedgerEntry(
        index=2**53 - 1,
        at=253_402_300_799,
        event=max(Event, key=len),
        party="a" * 63,
        state=max(State, key=len),
        subject=bytes(32),
        previous=bytes(32),
    )
    assert len(encode(longest)) <= 230
    assert MAX_LEDGER_PAGE * 230 + 2**10 < MAX_MESSAGE_BYTES


def test_a_head_is_not_signed_as_an_entry() -> None:
    head = LedgerHead(collaboration_id=ID, length=6, digest=bytes(32), at=1)
    assert head.signing_label != LedgerEntry.signing_label
