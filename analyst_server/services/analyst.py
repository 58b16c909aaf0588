"""What every use case of the analyst needs: stores, key and clock, and the steps of the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from analyst_server.blobs import Blobs, DamagedBlobError
from analyst_server.services.acts import note_step
from analyst_server.services.packed_ledgers import PackedLedgers
from analyst_server.services.stored import read_stored
from analyst_server.store import Collaboration, Leases, LedgerRow, Member, Records, Unit
from protocol.codec import M, Message
from protocol.envelope import Verified, derive, sign, verify
from protocol.errors import (
    LedgerError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    OutOfOrderError,
)
from protocol.identity import Identity, TrustRoot
from protocol.ledger import LedgerEntry, SeenLedger, entry_digest, first_previous
from protocol.limits import MAX_STEPS_OF_A_PARTY
from protocol.messages import Acceptance, UplinkManifest
from protocol.states import Event, State, advance
from protocol.terms import Terms
from protocol.version import OlderServerError
from runtime.logs import REQUEST, told


@dataclass(frozen=True)
class Analyst:
    """The analyst of one consortium."""

    records: Records
    blobs: Blobs
    root: TrustRoot
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    clock: Callable[[], int]
    max_uplink_bytes: int = 64 * 2**30
    max_party_bytes: int = 0
    max_collaboration_bytes: int = 0
    leases: Leases = field(default_factory=Leases)
    has_work: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """Wakes the worker of this process; workers of other processes find what there is at their next poll."""

    causes: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The request that gave the worker of this process something to do, by collaboration."""

    tried_at: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    """When this process last tried to align a late consumer, by uplink: one that fails holds up no other."""

    left_alone: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    """When this process last found that a round is for a newer server, by collaboration."""

    packed_ledgers: PackedLedgers = field(default_factory=PackedLedgers, repr=False, compare=False)

    def call_worker(self, collaboration_id: str) -> None:
        """Wake the worker, which notes in its log what request it works for."""
        if (request := told(REQUEST)) is not None:
            self.causes[collaboration_id] = request
        self.has_work.set()

    def sign(self, message: Message) -> bytes:
        """Return the message, signed by the analyst."""
        return sign(message, self.key, self.certificate)

    def secret_for(self, label: str) -> bytes:
        """Return 32 secret bytes for one purpose, the same after a restart and in every process."""
        number = self.key.private_numbers().private_value
        return derive(number.to_bytes((self.key.curve.key_size + 7) // 8), label)

    def erase_work(self, folder: str) -> None:
        """Erase what a computation has written; what stays is erased when the collaboration ends."""
        with suppress(OSError):
            self.blobs.erase(folder)

    @contextmanager
    def erasing_if_it_fails(self, folder: str) -> Iterator[None]:
        """Erase what a computation has written if it cannot be done: each try has another folder."""
        try:
            yield
        except (ValueError, DamagedBlobError):
            self.erase_work(folder)
            raise

    def verify_from(self, sender: Identity, kind: type[M], body: bytes) -> Verified[M]:
        """Return a signed message that must be the sender's own, verified.

        Raises `NotPermittedError` if another party signed it, and what `verify` raises.
        """
        verified = verify(kind, body, self.root, at=self.clock())
        if verified.author != sender:
            raise NotPermittedError(f"{sender.name} sent a message signed by {verified.author.name}")
        return verified


def stored_terms(collaboration: Collaboration) -> Terms:
    """Return the terms of a collaboration, which were checked when they were stored.

    Raises `OlderServerError` where a newer server has stored terms that this one cannot read.
    """
    return _decoded_terms(collaboration.terms)


def readable_terms(collaboration: Collaboration) -> Terms | None:
    """Return the terms of a collaboration, None where this server is too old to read them."""
    try:
        return stored_terms(collaboration)
    except OlderServerError:
        return None


class Outline(NamedTuple):
    """What lists, metrics and workers ask of terms again and again, of thousands of collaborations."""

    lead: str
    late_consumers: frozenset[str]
    is_of_sums: bool
    retention_days: int | None


MOST_OUTLINES: Final = 20_000
"""Outlines that are remembered, of some hundred bytes each: to read terms takes a fifth of a millisecond."""
_OUTLINES: Final[dict[bytes, Outline]] = {}
"""By the SHA-256 of the signed terms, which never change."""


def outline(collaboration: Collaboration) -> Outline:
    """Return what is asked of terms again and again; raises `OlderServerError` as `stored_terms` does."""
    key = sha256(collaboration.terms).digest()
    found = _OUTLINES.get(key)
    if found is None:
        terms = stored_terms(collaboration)
        late = frozenset(terms.late_consumers)
        found = Outline(terms.lead, late, terms.sums is not None, terms.retention_days)
        if len(_OUTLINES) >= MOST_OUTLINES:
            _OUTLINES.clear()
        _OUTLINES[key] = found
    return found


def readable_outline(collaboration: Collaboration) -> Outline | None:
    """Return the same, None where this server is too old to read the terms."""
    try:
        return outline(collaboration)
    except OlderServerError:
        return None


@lru_cache(maxsize=32)
def _decoded_terms(signed: bytes) -> Terms:
    """Return signed terms; every request asks for them, and they never change."""
    return read_stored(Terms, signed, "terms of this collaboration")


def find(unit: Unit, collaboration_id: str) -> Collaboration:
    """Return a collaboration or raise `NotFoundError`."""
    collaboration = unit.collaboration(collaboration_id)
    if collaboration is None:
        raise NotFoundError("there is no such collaboration")
    return collaboration


def find_as_member(unit: Unit, collaboration_id: str, sender: Identity) -> tuple[Collaboration, Member]:
    """Return a collaboration and the sender's membership.

    Raises `NotFoundError`, for a sender who is not a member as for an id that does not exist.
    """
    collaboration = find(unit, collaboration_id)
    member = unit.member(collaboration_id, sender.name) if sender.role != "analyst" else None
    if member is None:
        raise NotFoundError("there is no such collaboration")
    return collaboration, member


def published_anchor(collaboration: Collaboration, member: Member) -> bytes | None:
    """Return what is sealed for a member; None if not all have it, so that it may still be replaced."""
    is_kept_only = collaboration.now_in in (State.ENROLLING, State.CANCELLED)
    return None if is_kept_only else member.sealed_anchor


def find_to_view(unit: Unit, collaboration_id: str, viewer: Identity | None) -> Collaboration:
    """Return a collaboration for a member or, with None, for the operator; raises `NotFoundError`."""
    if viewer is None:
        return find(unit, collaboration_id)
    return find_as_member(unit, collaboration_id, viewer)[0]


def require_lead(sender: Identity, terms: Terms | None = None) -> None:
    """Raise `NotPermittedError` unless the sender leads the consortium and the collaboration of ``terms``."""
    if sender.role != "lead" or (terms is not None and sender.name != terms.lead):
        raise NotPermittedError(f"{sender.name} is not the lead institution")


def require_turn(collaboration: Collaboration, party: str, event: Event) -> None:
    """Raise `OutOfOrderError` unless a party may take a step of its uplink now.

    A late consumer sends after the release, everybody else before.
    """
    advance(collaboration.now_in, event)
    is_late = party in stored_terms(collaboration).late_consumers
    is_released = collaboration.now_in is State.RELEASED
    if is_late and not is_released:
        raise OutOfOrderError(
            collaboration.state, event, f"{party} is a late consumer: it sends after the release"
        )
    if is_released and not is_late:
        raise OutOfOrderError(collaboration.state, event)


def check_seen(
    unit: Unit, collaboration: Collaboration, message: Acceptance | UplinkManifest | SeenLedger
) -> None:
    """Raise unless a message names a head of this ledger, where the terms ask for one.

    Raises `MalformedMessageError` for one too many or too few, and `LedgerError` for that of another ledger.
    """
    seen = message.seen
    if (seen is None) != (stored_terms(collaboration).analyst_key is None):
        raise MalformedMessageError(type(message).__name__, "seen goes with terms that name an analyst_key")
    if seen is None:
        return
    last = unit.ledger(collaboration.id, start=seen.length - 1, limit=1) if seen.length else []
    if not last or last[0].digest != seen.digest:
        raise LedgerError(f"{message.party} has seen another ledger, of {seen.length} entries")


_ANALYSTS_OWN: Final = (
    Event.ALIGN_CONSUMER,
    Event.REFUSE_CONSUMER,
    Event.EXCLUDE,
    Event.SUSPECT,
    Event.LEAVE_OUT,
)
"""Steps that the analyst takes about one party: they are not the party's to run out of."""


def _count_step(unit: Unit, collaboration: Collaboration, party: str) -> None:
    if unit.count_of_ledger(collaboration.id, party) >= MAX_STEPS_OF_A_PARTY:
        raise LimitExceededError(f"steps of {party} in this collaboration", MAX_STEPS_OF_A_PARTY)


def move(
    unit: Unit,
    collaboration: Collaboration,
    event: Event,
    *,
    at: int,
    party: str | None = None,
    subject: bytes | None = None,
) -> LedgerRow:
    """Take one step of the table of states, enter it into the ledger, and return the entry.

    ``subject`` is the digest of what the step is about (docs/protocol.md, "Ledger").

    Raises `OutOfOrderError` if the state has no such step, and `LimitExceededError` if the party has taken
    too many.
    """
    collaboration.state = advance(collaboration.now_in, event)
    collaboration.updated_at = at
    if party is not None and event not in _ANALYSTS_OWN:
        _count_step(unit, collaboration, party)
    last = unit.last_of_ledger(collaboration.id)
    entry = LedgerEntry(
        index=last.index + 1 if last else 0,
        at=at,
        event=event,
        party=party,
        state=collaboration.now_in,
        subject=subject,
        previous=last.digest if last else first_previous(collaboration.id),
    )
    row = LedgerRow(collaboration_id=collaboration.id, **entry.model_dump(), digest=entry_digest(entry))
    unit.add(row)
    note_step(unit, event, at, collaboration.id, party)
    return row
