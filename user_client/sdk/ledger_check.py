"""The ledger of a collaboration: fetch it, and check it offline against what we have signed and received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509

from protocol.codec import M, decode, digest, encode
from protocol.envelope import Signed, Verified
from protocol.errors import (
    LedgerError,
    LimitExceededError,
    MalformedMessageError,
    OdcError,
    ProtocolError,
)
from protocol.identity import load_der_certificate
from protocol.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerPage,
    check_chain,
    entry_digest,
    pack_pages,
    trained_on,
    unpack_pages,
)
from protocol.limits import MAX_LEDGER_BYTES
from protocol.messages import Acceptance, DownlinkManifest, Receipt, SealedAnchor, SeenHead, UplinkManifest
from protocol.operations import FETCH_LEDGER
from protocol.states import Event
from protocol.terms import Terms
from user_client.custody import kept_uplinks
from user_client.custody.round_directory import (
    ACCEPTANCE_FILE,
    ANCHOR_FILE,
    DOWNLINK_FILE,
    LEDGER_FILE,
    MANIFEST_FILE,
    RECEIPT_FILE,
    REFUSED_FILE,
    TERMS_FILE,
    RoundDirectory,
)
from user_client.errors import NotPreparedError
from user_client.sdk.analyst_key import check_archived
from user_client.sdk.seen_heads import (
    fetch_manifests,
    fetch_seen,
    fetch_some_seen,
    members_that_agree,
    parties_that_saw,
    tell_seen,
)
from user_client.sdk.session import CLOCKS_APART_S, Session, require_role, require_signed_by

_ASK_OTHERS: Final = "ask the lead institution and other members for theirs"


@dataclass(frozen=True)
class CheckedLedger:
    """A ledger that passed verification."""

    entries: tuple[LedgerEntry, ...]
    head: bytes
    """Digest to compare with other members: ledgers of the same length must have the same."""
    signed_at: int
    checked: tuple[str, ...]
    """Which of our own files were compared with it."""
    members: tuple[str, ...] = ()
    """Other members whose signed manifest says that they had seen the same ledger."""
    receivers: tuple[str, ...] = ()
    """Other parties that have said so after their downlinks."""

    @property
    def trained_on(self) -> tuple[str, ...] | None:
        """Parties whose uplinks the released model is made of; None before the release."""
        return trained_on(self.entries)

    @property
    def seen(self) -> SeenHead:
        """What we say of it in what we sign."""
        return SeenHead(length=len(self.entries), digest=self.head)


def fetch_ledger(session: Session, directory: RoundDirectory) -> tuple[bytes, CheckedLedger]:
    """Fetch the ledger and check it, also against what other members have seen; return file and content.

    One that fails is kept as evidence.
    """
    terms = directory.find(Terms)
    if terms is None or terms.analyst_key is None:
        packed = pack_pages(_fetch_pages(session, directory, start=0))
        return packed, _checked_or_kept(session, directory, packed)
    # before the ledger, which then has all that they can have seen
    manifests, statements = fetch_manifests(session, terms), fetch_seen(session, terms)
    packed = pack_pages(_fetch_pages(session, directory, start=0))
    checked = _checked_or_kept(session, directory, packed)
    members = members_that_agree(session, manifests, checked.entries)
    receivers = parties_that_saw(session, terms, statements, checked.entries)
    if directory.holds(DownlinkManifest):
        tell_seen(session, terms, checked.seen)
    return packed, replace(checked, members=members, receivers=receivers)


def follow_ledger(
    session: Session, directory: RoundDirectory, downlink: DownlinkManifest | None = None
) -> CheckedLedger:
    """Fetch what is new since the stored ledger, and check the whole. What fails is kept as evidence.

    The last entry that was seen is fetched once more: with the head that comes with it, another entry in its
    place proves that there are two ledgers.

    Parameters
    ----------
    downlink : DownlinkManifest, optional
        One that has come but is not stored yet: the ledger must be of this one.
    """
    seen = _stored_pages(directory)
    last = next((page.entries[-1] for page in reversed(seen) if page.entries), None)
    pages = [] if last is None else _fetch_pages(session, directory, start=last.index)
    if last is None or not pages:  # nothing seen, or the analyst says that it has no such entry
        packed = pack_pages(_fetch_pages(session, directory, start=0))
        return _checked_or_kept(session, directory, packed, downlink)
    first = decode(LedgerPage, pages[0])
    if first.entries[0] != last:
        error = LedgerError(f"entry {last.index}: is not the one seen before: the ledger was rewritten")
        _keep_as_evidence(directory, pack_pages(pages), error)
        raise error
    new = first.model_copy(update={"entries": first.entries[1:]})  # keeps fields that we do not know
    packed = directory.read(LEDGER_FILE) + pack_pages([encode(new), *pages[1:]])
    return _checked_or_kept(session, directory, packed, downlink)


def follow_to_receive(
    session: Session, directory: RoundDirectory, downlink: DownlinkManifest
) -> CheckedLedger:
    """Check the ledger with a downlink that has come, also against what others say who have theirs.

    Raises `LedgerError`.
    """
    terms = directory.find(Terms)
    is_told = terms is not None and terms.analyst_key is not None
    statements = fetch_some_seen(session, terms) if terms is not None and is_told else []
    checked = follow_ledger(session, directory, downlink)
    if terms is not None and is_told:
        parties_that_saw(session, terms, statements, checked.entries)
    return checked


def tell_ledger(session: Session, directory: RoundDirectory) -> None:
    """Tell the others which ledger we have seen, now that we have our downlink; where the terms say so."""
    terms = directory.find(Terms)
    if terms is not None and terms.analyst_key is not None:
        tell_seen(session, terms, verify_ledger(session, directory, stored_ledger(directory)).seen)


def analyst_certificate(directory: RoundDirectory) -> x509.Certificate:
    """Return the certificate under the last head of the stored ledger, which was verified with it."""
    last = unpack_pages(stored_ledger(directory))[-1]
    return load_der_certificate(decode(Signed, last.head).certificate)


def is_entered(directory: RoundDirectory) -> bool:
    """Return whether the stored ledger has the entry that our receipt names.

    Its number alone shows nothing: the analyst may have named one of before the uplink.
    """
    receipt = directory.find(Receipt)
    entries = [entry for page in _stored_pages(directory) for entry in page.entries]
    if receipt is None or receipt.ledger_index >= len(entries):
        return False
    return entry_digest(entries[receipt.ledger_index]) == receipt.ledger_digest and _accepts(
        entries[receipt.ledger_index], receipt
    )


def _stored_pages(directory: RoundDirectory) -> list[LedgerPage]:
    """Return the pages of the stored ledger; none, if there is none or it cannot be read."""
    try:
        return unpack_pages(directory.read(LEDGER_FILE)) if directory.holds(LEDGER_FILE) else []
    except ProtocolError:  # whoever verifies the next ledger says so
        return []


def _fetch_pages(session: Session, directory: RoundDirectory, *, start: int) -> list[bytes]:
    """Return the pages from entry ``start`` on; none if the analyst says that there is no such entry."""
    pages: list[bytes] = []
    count, length, size = start, start + 1, 0
    while count < length:
        try:
            data = session.connection.ask(
                FETCH_LEDGER,
                query=f"start={count}" if count else "",
                collaboration_id=directory.collaboration_id,
            ).content
        except MalformedMessageError:
            if start and not pages:
                return []
            raise
        page = decode(LedgerPage, data)
        length = session.verify_from_analyst(
            LedgerHead, page.head, directory.find(Terms), is_new=True
        ).message.length
        count, size = count + len(page.entries), size + len(data)
        pages.append(data)
        if not page.entries:
            raise LedgerError(f"the ledger ends after entry {count - 1}, its head promises {length} entries")
        if size > MAX_LEDGER_BYTES:
            raise LimitExceededError("ledger in bytes", MAX_LEDGER_BYTES, size)
    return pages


def _checked_or_kept(
    session: Session, directory: RoundDirectory, packed: bytes, downlink: DownlinkManifest | None = None
) -> CheckedLedger:
    try:
        return verify_ledger(session, directory, packed, downlink)
    except OdcError as error:
        _keep_as_evidence(directory, packed, error)
        raise


def _keep_as_evidence(directory: RoundDirectory, packed: bytes, error: OdcError) -> None:
    directory.write(REFUSED_FILE, packed)
    if isinstance(error, LedgerError):
        evidence = directory.path / REFUSED_FILE
        error.hint = f"keep {evidence}: the analyst has signed it; {_ASK_OTHERS}"


def stored_ledger(directory: RoundDirectory) -> bytes:
    """Return the longest ledger that passed verification; raises `NotPreparedError` if there is none."""
    if not directory.holds(LEDGER_FILE):
        error = NotPreparedError("no ledger of this collaboration was fetched yet")
        error.hint = "run `odc ledger fetch` first, or name a file"
        raise error
    return directory.read(LEDGER_FILE)


def verify_ledger(
    session: Session, directory: RoundDirectory, data: bytes, downlink: DownlinkManifest | None = None
) -> CheckedLedger:
    """Check a ledger without asking anybody, and store it if it is longer than the one before.

    (1) Its entries are a chain; (2) its heads are signed by the analyst and fit the entries; (3) it begins
    with the longest ledger that passed before; (4) it contains what we have signed and received, and nothing
    else in our name.
    """
    entries, heads, last = _open(session, directory, data)
    seen: list[bytes] = []
    if directory.holds(LEDGER_FILE):  # (3)
        seen = _seen(session, directory)
        for number, (earlier, now) in enumerate(zip(seen[1:], heads[1:], strict=False)):
            if earlier != now:
                raise LedgerError(f"entry {number}: is not the one seen before: the ledger was rewritten")
        if len(heads) < len(seen):
            raise LedgerError(
                f"the ledger ends after entry {len(heads) - 2}; entry {len(seen) - 2} was seen before: "
                "it was shortened, or this is an old copy"
            )
    downlink = downlink or directory.find(DownlinkManifest)
    checked = _check_ours(session, directory, entries, heads, downlink)  # (4)
    if len(heads) > len(seen):
        directory.write(LEDGER_FILE, data)
    return CheckedLedger(tuple(entries), heads[-1], last.at, tuple(checked))


def _seen(session: Session, directory: RoundDirectory) -> list[bytes]:
    try:
        return _open(session, directory, directory.read(LEDGER_FILE))[1]
    except OdcError as error:
        path = directory.path / LEDGER_FILE
        raise LedgerError(f"the ledger seen before, {path}: {error.detail}") from None


def _open(
    session: Session, directory: RoundDirectory, data: bytes
) -> tuple[list[LedgerEntry], list[bytes], LedgerHead]:
    """Return the entries of a file, their heads, and the last signed head: steps (1) and (2)."""
    if len(data) > MAX_LEDGER_BYTES:
        raise LimitExceededError("ledger in bytes", MAX_LEDGER_BYTES, len(data))
    pages, collaboration_id = unpack_pages(data), directory.collaboration_id
    entries = [entry for page in pages for entry in page.entries]
    heads = check_chain(collaboration_id, entries)  # (1)
    terms = directory.find(Terms)
    signed = [_verify_archived(session, LedgerHead, page.head, terms).message for page in pages]  # (2)
    if not signed:
        raise LedgerError("the ledger is empty")
    for head, page in zip(signed, pages, strict=True):
        if head.collaboration_id != collaboration_id:
            raise LedgerError(f"the ledger is of another collaboration, {head.collaboration_id}")
        if not 0 < head.length < len(heads):
            raise LedgerError(
                f"the ledger ends after entry {len(entries) - 1}, a head promises {head.length} entries"
            )
        if head.digest != heads[head.length]:
            raise LedgerError(f"entry {head.length - 1}: is not the one the analyst signed")
        if head.at > session.clock() + CLOCKS_APART_S:
            raise LedgerError(f"the ledger was signed in the future, at {head.at}: compare the clocks")
        require_signed_by(page.head, head.at)
    if signed[-1].length != len(entries):
        raise LedgerError(f"the ledger has {len(entries)} entries, its head is of {signed[-1].length}")
    return entries, heads, signed[-1]


def _verify_archived(session: Session, kind: type[M], data: bytes, terms: Terms | None) -> Verified[M]:
    """Verify what the analyst signed while its certificate was valid; it may have ended since."""
    verified = session.verify_kept(kind, data)
    require_role(verified.author, "analyst", kind.__name__)
    check_archived(session.home, terms, data, kind.__name__)
    return verified


def _check_ours(
    session: Session,
    directory: RoundDirectory,
    entries: Sequence[LedgerEntry],
    heads: Sequence[bytes],
    downlink: DownlinkManifest | None,
) -> list[str]:
    """Compare a ledger with the messages in our state directory; return the files that it confirms.

    An entry in our name must be about the message we have signed, and a message we were sent must be the
    one that the analyst has entered.
    """
    party = session.membership.party
    ours = [entry for entry in entries if entry.party == party]
    terms, acceptance = directory.find(Terms), directory.find(Acceptance)
    anchor, uplink = directory.find(SealedAnchor), _accepted_uplink(directory, ours)
    receipt = directory.find(Receipt)
    if terms is not None:
        _require(entries, Event.PUBLISH_TERMS, digest(terms), "the terms we were shown")
    if anchor is not None:
        _require(entries, Event.PUBLISH_ANCHOR, anchor.commitment, "the anchor we were sent")
    if receipt is not None:
        _verify_archived(session, Receipt, directory.read(RECEIPT_FILE), terms)
        _check_receipt(receipt, entries, heads)
    # our acceptance may never have been sent; but the analyst sends an anchor only to those who accepted
    was_accepted = _require_ours(ours, Event.ACCEPT_TERMS, acceptance, must_stand=anchor is not None)
    was_sent = uplink is None and receipt is not None  # the receipt, checked above, stands for the manifest
    if not was_sent:
        was_sent = _require_ours(ours, Event.ACCEPT_UPLINK, uplink, must_stand=receipt is not None)
    if downlink is not None:  # the ledger also has those that broke off, which were not stored here
        _require_ours(ours, Event.FETCH_DOWNLINK, downlink, must_stand=True)
        _require(entries, Event.RELEASE, downlink.released, "the model we were sent")
    compared = {
        TERMS_FILE: terms is not None,
        ACCEPTANCE_FILE: acceptance is not None and was_accepted,
        ANCHOR_FILE: anchor is not None,
        MANIFEST_FILE: uplink is not None and was_sent,
        RECEIPT_FILE: receipt is not None,
        DOWNLINK_FILE: downlink is not None,
    }
    return [name for name, is_confirmed in compared.items() if is_confirmed]


def _accepted_uplink(directory: RoundDirectory, ours: Sequence[LedgerEntry]) -> UplinkManifest | None:
    """Return the manifest of a kept uplink if the ledger accepts it, else the one in place."""
    for entry in ours:
        if entry.event is Event.ACCEPT_UPLINK and entry.subject is not None:
            kept = kept_uplinks.find(directory, entry.subject)
            if kept is not None:
                return kept
    return directory.find(UplinkManifest)


def _require(entries: Sequence[LedgerEntry], event: Event, subject: bytes | None, what: str) -> None:
    """Raise unless the last such step is about ``subject``."""
    last = next((entry for entry in reversed(entries) if entry.event is event), None)
    if last is None:
        raise LedgerError(f"the ledger has no entry '{event}', though we have {what}")
    if last.subject != subject:
        raise LedgerError(f"entry {last.index}: '{event}' is not of {what}")


def _require_ours(
    ours: Sequence[LedgerEntry],
    event: Event,
    message: Acceptance | UplinkManifest | DownlinkManifest | None,
    *,
    must_stand: bool,
) -> bool:
    """Return whether the ledger has such a step in our name; raise if it is not about our message."""
    steps = [entry for entry in ours if entry.event is event]
    if must_stand and not steps:
        raise LedgerError(f"the ledger has no entry '{event}' in our name")
    for entry in steps:
        if message is None:
            raise LedgerError(
                f"entry {entry.index}: '{event}' in our name, but no such message is stored here"
            )
        if entry.subject != digest(message):
            raise LedgerError(
                f"entry {entry.index}: '{event}' in our name is not about the message we have stored"
            )
    return bool(steps)


def _check_receipt(receipt: Receipt, entries: Sequence[LedgerEntry], heads: Sequence[bytes]) -> None:
    index = receipt.ledger_index
    if index >= len(entries):
        raise LedgerError(f"the ledger ends after entry {len(entries) - 1}; our receipt names entry {index}")
    entry = entries[index]
    if heads[index + 1] != receipt.ledger_digest:
        raise LedgerError(f"entry {index}: is not the one our receipt names; it, or one before, was changed")
    if not _accepts(entry, receipt):
        raise LedgerError(f"entry {index}: does not accept the uplink our receipt is for")


def _accepts(entry: LedgerEntry, receipt: Receipt) -> bool:
    """Return whether an entry is the one about the uplink that a receipt is for."""
    expected = (Event.ACCEPT_UPLINK, receipt.party, receipt.uplink_digest)
    return (entry.event, entry.party, entry.subject) == expected
