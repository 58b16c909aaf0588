"""What members tell each other of the ledger they have seen, in messages that the analyst cannot change.

Where the terms name the analyst's key, each acceptance and each manifest says how long the ledger was that
its author had checked, and its head. The lead compares them before it seals the anchor, and any member can.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

from protocol.codec import digest, unpack_list
from protocol.envelope import decode_stored
from protocol.errors import CertificateRevokedError, LedgerError, NotFoundError, NotPermittedError
from protocol.ledger import LedgerEntry, SeenLedger, entry_digest
from protocol.messages import Acceptance, SeenHead, UplinkManifest
from protocol.operations import LIST_MANIFESTS, LIST_SEEN_LEDGERS, SEND_SEEN_LEDGER, Operation
from protocol.states import Event
from protocol.terms import Terms
from user_client.sdk.session import Session, require_signed_by

COMPARED_WITH: Final = 8
"""Other parties whose word on the ledger is asked for with our own downlink."""


def fetch_list(
    session: Session, terms: Terms, operation: Operation, kind: type[Acceptance | UplinkManifest | SeenLedger]
) -> list[bytes]:
    """Fetch a signed message of each party that has one, as many pages as it takes; none is verified."""
    bodies: list[bytes] = []
    last = ""
    while len(bodies) < len(terms.parties):
        answer = session.connection.ask(
            operation,
            query=urlencode({"after": last}) if last else "",
            collaboration_id=terms.collaboration_id,
        )
        page = unpack_list(answer.content)
        if not page or page[-1] in bodies:  # an earlier version always answers with the first page
            break
        bodies += page
        last = decode_stored(kind, page[-1]).party
    return bodies


def fetch_seen(session: Session, terms: Terms) -> list[bytes]:
    """Fetch what each party says of the ledger that it saw with its downlink; an older analyst has none."""
    try:
        return fetch_list(session, terms, LIST_SEEN_LEDGERS, SeenLedger)
    except NotFoundError:
        return []


def fetch_some_seen(session: Session, terms: Terms) -> list[bytes]:
    """Fetch the same of a few parties, from one on that the analyst cannot foresee.

    Of each pair of members, a kilobyte would be too much in a large round.
    """
    first = "" if len(terms.parties) <= COMPARED_WITH else secrets.choice(terms.parties)
    query = urlencode({"after": first, "most": COMPARED_WITH})
    try:
        answer = session.connection.ask(
            LIST_SEEN_LEDGERS, query=query, collaboration_id=terms.collaboration_id
        )
    except NotFoundError:
        return []
    return unpack_list(answer.content)[:COMPARED_WITH]


def tell_seen(session: Session, terms: Terms, seen: SeenHead) -> None:
    """Tell the others through the analyst which ledger we have seen; an older analyst does not relay it."""
    said = SeenLedger(
        collaboration_id=terms.collaboration_id,
        party=session.membership.party,
        seen=seen,
        at=session.clock(),
    )
    with suppress(NotFoundError):
        session.connection.ask(SEND_SEEN_LEDGER, session.sign(said), collaboration_id=terms.collaboration_id)


def parties_that_saw(
    session: Session, terms: Terms, statements: Iterable[bytes], entries: Sequence[LedgerEntry]
) -> tuple[str, ...]:
    """Return the other parties that have said, after their downlinks, that they saw this ledger.

    ``entries`` were fetched after the statements. Raises `LedgerError` for one that saw another ledger. Who
    was revoked is not listened to.
    """
    found = []
    for body in statements:
        try:
            verified = session.verify_kept(SeenLedger, body)
        except CertificateRevokedError:
            continue
        said = verified.message
        is_own = verified.author.role != "analyst" and verified.author.name == said.party
        if not is_own or said.party not in terms.parties or said.collaboration_id != terms.collaboration_id:
            raise NotPermittedError(f"what {said.party} has seen was signed by somebody else, or elsewhere")
        _check_head(said.party, said.seen, entries)
        found.append(said.party)
    return tuple(name for name in found if name != session.membership.party)


def fetch_manifests(session: Session, terms: Terms) -> list[bytes]:
    """Fetch the signed manifest of each complete uplink."""
    return fetch_list(session, terms, LIST_MANIFESTS, UplinkManifest)


def check_acceptances(bodies: Iterable[bytes], entries: Sequence[LedgerEntry]) -> None:
    """Raise `LedgerError` unless each party has accepted with this ledger before it.

    Raises `CertificateRefusedError` for a certificate that had ended when that was entered.
    """
    for body in bodies:
        at = _check(decode_stored(Acceptance, body), Event.ACCEPT_TERMS, entries)
        require_signed_by(body, at)


def members_that_agree(
    session: Session, manifests: Iterable[bytes], entries: Sequence[LedgerEntry]
) -> tuple[str, ...]:
    """Return the other members whose manifest names a head of this ledger.

    Raises `LedgerError` for one that names another. Who was revoked is not listened to.
    """
    found = []
    for body in manifests:
        try:
            verified = session.verify_kept(UplinkManifest, body)
        except CertificateRevokedError:
            continue
        manifest = verified.message
        if verified.author.role == "analyst" or verified.author.name != manifest.party:
            raise NotPermittedError(f"the manifest of {manifest.party} was signed by somebody else")
        at = _check(manifest, Event.ACCEPT_UPLINK, entries)
        require_signed_by(body, at)
        found.append(manifest.party)
    return tuple(name for name in found if name != session.membership.party)


def _check(message: Acceptance | UplinkManifest, event: Event, entries: Sequence[LedgerEntry]) -> int:
    """Return when a message was entered into this ledger; raise `LedgerError` if it was not."""
    party, seen = message.party, message.seen
    if seen is None:
        raise LedgerError(f"{party} does not say which ledger it has seen, though the terms ask for it")
    _check_head(party, seen, entries)
    subject = digest(message)
    for entry in entries:
        if (entry.event, entry.party, entry.subject) == (event, party, subject):
            return entry.at
    raise LedgerError(f"the ledger has no entry '{event}' of what {party} has signed")


def _check_head(party: str, seen: SeenHead, entries: Sequence[LedgerEntry]) -> None:
    if not 0 < seen.length <= len(entries) or entry_digest(entries[seen.length - 1]) != seen.digest:
        error = LedgerError(f"{party} has seen another ledger than ours, of {seen.length} entries")
        error.hint = (
            f"ask {party} for its ledger (`odc ledger fetch --out FILE`) and check it here:"
            " `odc ledger verify FILE`; two heads that the analyst has signed prove two histories"
        )
        raise error
