"""Everybody in whose name a lie can be signed, and a ledger that was rewritten and signed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.codec import Message, encode
from protocol.envelope import sign
from protocol.ledger import LedgerEntry, LedgerHead, LedgerPage, entry_digest, first_previous
from user_client.custody.authority import Authority
from user_client.sdk.session import unix_now


@dataclass(frozen=True, repr=False)
class Signer:
    """A key, and a certificate that may or may not be worth something."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def sign(self, message: Message) -> bytes:
        return sign(message, self.key, self.certificate)


@dataclass(frozen=True, repr=False)
class Signers:
    """The consortium's root, one that nobody trusts, and what they have certified."""

    root: Authority
    stranger_root: Authority
    analyst: Signer
    lead: Signer
    other_analyst: Signer
    """Certified by the root as the analyst, with another key."""
    outsider: Signer
    """An institution of the consortium that is no party of the round."""
    other_root: Signer
    """In the analyst's name, certified by the root that nobody trusts."""


def chained(collaboration_id: str, entries: Sequence[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return the same steps as a ledger that holds: numbered from 0, each naming the one before."""
    made: list[LedgerEntry] = []
    previous = first_previous(collaboration_id)
    for number, entry in enumerate(entries):
        made.append(entry.model_copy(update={"index": number, "previous": previous}))
        previous = entry_digest(made[-1])
    return tuple(made)


def page(
    collaboration_id: str, entries: Sequence[LedgerEntry], start: int, signer: Signer, *, promised: int = 0
) -> bytes:
    """Return the page of a ledger from an entry on, under a head of all entries that somebody signs.

    ``promised`` is how many more entries the head says there are.
    """
    last = entry_digest(entries[-1]) if entries else first_previous(collaboration_id)
    head = LedgerHead(
        collaboration_id=collaboration_id, length=len(entries) + promised, digest=last, at=unix_now()
    )
    return encode(LedgerPage(entries=tuple(entries[start:]), head=signer.sign(head)))
