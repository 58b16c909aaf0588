"""The ledger: a chain of entries, one for each step of a collaboration.

An entry contains the digest of what its step was about and the digest of the entry before it, so that one
digest, the *head*, stands for the whole ledger. The analyst signs the head whenever somebody asks for the
ledger, and a `Receipt` names the entry of its uplink. Layout and rules: docs/protocol.md, "Ledger".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final

import msgpack
from pydantic import FailFast, Field

from protocol.codec import Message, decode, encode
from protocol.errors import LedgerError, OutOfOrderError, TruncatedError
from protocol.limits import MAX_LEDGER_PAGE, MAX_MESSAGE_BYTES
from protocol.messages import Blob, Count, Digest, SeenHead, UnixTime
from protocol.states import Event, State, advance
from protocol.texts import Identifier, PartyName


class LedgerEntry(Message):
    """One event in the table of states."""

    signing_label: ClassVar[str] = "odc/v1/ledger-entry"

    index: Count
    at: UnixTime
    event: Annotated[Event, Field(strict=False)]
    party: PartyName | None
    """The party that took the step; None for the analyst."""
    state: Annotated[State, Field(strict=False)]
    """State of the collaboration after the step."""
    subject: Digest | None
    """Digest of what the step was about: a signed message, the anchor's commitment, the model."""
    previous: Digest
    """`entry_digest` of the entry before; in the first entry, `first_previous`."""


class LedgerHead(Message, extra="allow"):
    """The analyst's signature under the first ``length`` entries."""

    signing_label: ClassVar[str] = "odc/v1/ledger-head"

    collaboration_id: Identifier
    length: Count
    digest: Digest
    at: UnixTime


class SeenLedger(Message, extra="allow"):
    """What a party says once it has its downlink: the ledger that it has seen and checked by then."""

    signing_label: ClassVar[str] = "odc/v1/seen-ledger"

    collaboration_id: Identifier
    party: PartyName
    seen: SeenHead
    at: UnixTime
    """By the party's own clock."""


class LedgerPage(Message, extra="allow"):
    """Some of the entries, and the head of the whole ledger."""

    signing_label: ClassVar[str] = "odc/v1/ledger-page"

    entries: Annotated[tuple[LedgerEntry, ...], FailFast()] = Field(max_length=MAX_LEDGER_PAGE)
    head: Blob
    """A signed `LedgerHead`."""


ENTRY_FIELDS: Final = tuple(sorted(LedgerEntry.model_fields))


def pack_entry(values: Sequence[Any]) -> bytes:
    """Return a `LedgerEntry` as `encode` does, of values that were checked when they were stored.

    Parameters
    ----------
    values : sequence
        In the order of `ENTRY_FIELDS`.
    """
    packed: bytes = msgpack.packb(dict(zip(ENTRY_FIELDS, values, strict=True)), use_bin_type=True)
    return packed


def encode_page(entries: Sequence[bytes], head: bytes) -> bytes:
    """Return a `LedgerPage` as `encode` does, of packed entries.

    Every member reads all of them, and to check a thousand again takes longer than to take an uplink.
    """
    packer = msgpack.Packer(use_bin_type=True)
    before = packer.pack_map_header(2) + packer.pack("entries") + packer.pack_array_header(len(entries))
    return b"".join((before, *entries, packer.pack("head"), packer.pack(head)))


def first_previous(collaboration_id: str) -> bytes:
    """Return ``previous`` of the first entry, which binds the ledger to its collaboration."""
    return sha256(b"odc/v1/ledger\x00" + collaboration_id.encode()).digest()


def entry_digest(entry: LedgerEntry) -> bytes:
    """Return the digest by which the next entry, or the head, refers to this one."""
    return sha256(entry.signing_label.encode() + b"\x00" + encode(entry)).digest()


def check_chain(collaboration_id: str, entries: Sequence[LedgerEntry]) -> list[bytes]:
    """Return the heads after 0, 1, ... entries of a valid chain.

    It checks the rules of docs/protocol.md, "Ledger": (1) entries are numbered from 0; (2) each contains the
    digest of the one before; (3) its event leads to its state; (4) a party's uplink is accepted only once.

    Raises `LedgerError`, which names the first entry that breaks a rule.
    """
    heads, state, received = [first_previous(collaboration_id)], State.DRAFT, set()
    for number, entry in enumerate(entries):
        if entry.index != number:  # (1)
            raise LedgerError(f"entry {number}: has the number {entry.index}")
        if entry.previous != heads[-1]:  # (2)
            before = f"entry {number - 1}" if number else f"collaboration {collaboration_id}"
            raise LedgerError(f"entry {number}: does not continue {before}; one of the two was changed")
        try:  # (3)
            state = advance(state, entry.event)
        except OutOfOrderError:
            raise LedgerError(f"entry {number}: '{entry.event}' does not follow {state}") from None
        if entry.state is not state:
            raise LedgerError(f"entry {number}: '{entry.event}' leads to {state}, not to {entry.state}")
        if entry.event is Event.ACCEPT_UPLINK:  # (4)
            if entry.party in received:
                raise LedgerError(f"entry {number}: a second uplink of {entry.party}")
            received.add(entry.party)
        heads.append(entry_digest(entry))
    return heads


def trained_on(entries: Sequence[LedgerEntry]) -> tuple[str, ...] | None:
    """Return the parties whose uplinks trained the released model; None before the release.

    They are in the order in which their uplinks were accepted: those of before the seal, without the parties
    that were excluded, and without those whose rows the computation left out that was released. `check_chain`
    has passed the entries.
    """
    received: list[str] = []
    left_out: set[str | None] = set()
    excluded: set[str | None] = set()
    for entry in entries:
        if entry.event is Event.ACCEPT_UPLINK and entry.party is not None:
            received.append(entry.party)
        elif entry.event is Event.EXCLUDE:
            excluded.add(entry.party)
        elif entry.event is Event.BEGIN_TRAINING:
            left_out.clear()  # an earlier computation came to nothing
        elif entry.event is Event.LEAVE_OUT:
            left_out.add(entry.party)
        elif entry.event is Event.RELEASE:
            return tuple(party for party in received if party not in excluded | left_out)
    return None


def pack_pages(pages: Iterable[bytes]) -> bytes:
    """Return pages in the format of a file: the length of each in four bytes, then the page."""
    return b"".join(struct.pack("<I", len(page)) + page for page in pages)


def unpack_pages(data: bytes) -> list[LedgerPage]:
    """Return the pages in a file; raises `ProtocolError`."""
    pages, offset = [], 0
    while offset < len(data):
        start = offset + 4
        length = struct.unpack_from("<I", data, offset)[0] if start <= len(data) else MAX_MESSAGE_BYTES
        if len(data) < start + length:
            raise TruncatedError("ledger", start + length, len(data))
        pages.append(decode(LedgerPage, data[start : start + length]))
        offset = start + length
    return pages
