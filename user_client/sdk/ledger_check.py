"""The ledger of a collaboration: fetch it, and check it offline against what we have signed and received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from protocol.codec import M, decode, digest
from protocol.envelope import Signed, Verified, verify
from protocol.errors import LedgerError, LimitExceededError, OdcError
from protocol.identity import load_der_certificate
from protocol.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerPage,
    check_chain,
    pack_pages,
    unpack_pages,
)
from protocol.limits import MAX_LEDGER_BYTES
from protocol.messages import Acceptance, DownlinkManifest, Receipt, SealedAnchor, UplinkManifest
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
from user_client.sdk.session import Session, require_role

CLOCKS_APART_S: Final = 300
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


def fetch_ledger(session: Session, directory: RoundDirectory) -> tuple[bytes, CheckedLedger]:
    """Fetch the ledger and check it; return its file and content. One that fails is kept as evidence."""
    pages: list[bytes] = []
    count, length, size = 0, 1, 0
    while count < length:
        data = session.connection.ask(
            FETCH_LEDGER,
            query=f"start={count}" if count else "",
            collaboration_id=directory.collaboration_id,
        ).content
        page = decode(LedgerPage, data)
        length = session.verify_from_analyst(LedgerHead, page.head).message.length
        count, size = count + len(page.entries), size + len(data)
        pages.append(data)
        if not page.entries:
            raise LedgerError(f"the ledger ends after entry {count - 1}, its head promises {length} entries")
        if size > MAX_LEDGER_BYTES:
            raise LimitExceededError("ledger in bytes", MAX_LEDGER_BYTES, size)
    packed = pack_pages(pages)
    try:
        return packed, verify_ledger(session, directory, packed)
    except OdcError as error:
        directory.write(REFUSED_FILE, packed)
        if isinstance(error, LedgerError):
            evidence = directory.path / REFUSED_FILE
            error.hint = f"keep {evidence}: the analyst has signed it; {_ASK_OTHERS}"
        raise


def stored_ledger(directory: RoundDirectory) -> bytes:
    """Return the longest ledger that passed verification; raises `NotPreparedError` if there is none."""
    if not directory.holds(LEDGER_FILE):
        error = NotPreparedError("no ledger of this collaboration was fetched yet")
        error.hint = "run `odc ledger fetch` first, or name a file"
        raise error
    return directory.read(LEDGER_FILE)


def verify_ledger(session: Session, directory: RoundDirectory, data: bytes) -> CheckedLedger:
    """Check a ledger without asking anybody, and store it if it is longer than the one before.

    (1) Its entries are a chain; (2) its heads are signed by the analyst and fit the entries; (3) it begins
    with the longest ledger that passed before; (4) it contains what we have signed and received, and nothing
    else in our name.
    """
    entries, heads, last = _open(session, directory.collaboration_id, data)
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
    checked = _check_ours(session, directory, entries, heads)  # (4)
    if len(heads) > len(seen):
        directory.write(LEDGER_FILE, data)
    return CheckedLedger(tuple(entries), heads[-1], last.at, tuple(checked))


def _seen(session: Session, directory: RoundDirectory) -> list[bytes]:
    try:
        return _open(session, directory.collaboration_id, directory.read(LEDGER_FILE))[1]
    except OdcError as error:
        path = directory.path / LEDGER_FILE
        raise LedgerError(f"the ledger seen before, {path}: {error.detail}") from None


def _open(
    session: Session, collaboration_id: str, data: bytes
) -> tuple[list[LedgerEntry], list[bytes], LedgerHead]:
    """Return the entries of a file, their heads, and the last signed head: steps (1) and (2)."""
    if len(data) > MAX_LEDGER_BYTES:
        raise LimitExceededError("ledger in bytes", MAX_LEDGER_BYTES, len(data))
    pages = unpack_pages(data)
    entries = [entry for page in pages for entry in page.entries]
    heads = check_chain(collaboration_id, entries)  # (1)
    signed = [_verify_archived(session, LedgerHead, page.head).message for page in pages]  # (2)
    if not signed:
        raise LedgerError("the ledger is empty")
    for head in signed:
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
    if signed[-1].length != len(entries):
        raise LedgerError(f"the ledger has {len(entries)} entries, its head is of {signed[-1].length}")
    return entries, heads, signed[-1]


def _verify_archived(session: Session, kind: type[M], data: bytes) -> Verified[M]:
    """Verify what the analyst signed while its certificate was valid; it may have ended since."""
    certificate = load_der_certificate(decode(Signed, data).certificate)
    ended = int(certificate.not_valid_after_utc.timestamp())
    verified = verify(kind, data, session.home.root(), at=min(session.clock(), ended))
    require_role(verified.author, "analyst", kind.__name__)
    return verified


def _check_ours(
    session: Session, directory: RoundDirectory, entries: Sequence[LedgerEntry], heads: Sequence[bytes]
) -> list[str]:
    """Compare a ledger with the messages in our state directory; return the files that it confirms.

    An entry in our name must be about the message we have signed, and a message we were sent must be the
    one that the analyst has entered.
    """
    party = session.membership.party
    ours = [entry for entry in entries if entry.party == party]
    terms, acceptance = directory.find(Terms), directory.find(Acceptance)
    anchor, uplink = directory.find(SealedAnchor), _accepted_uplink(directory, ours)
    receipt, downlink = directory.find(Receipt), directory.find(DownlinkManifest)
    if terms is not None:
        _require(entries, Event.PUBLISH_TERMS, digest(terms), "the terms we were shown")
    if anchor is not None:
        _require(entries, Event.PUBLISH_ANCHOR, anchor.commitment, "the anchor we were sent")
    if receipt is not None:
        _verify_archived(session, Receipt, directory.read(RECEIPT_FILE))
        _check_receipt(receipt, entries, heads)
    # our acceptance may never have been sent; but the analyst sends an anchor only to those who accepted
    was_accepted = _require_ours(ours, Event.ACCEPT_TERMS, acceptance, must_stand=anchor is not None)
    was_sent = uplink is None and receipt is not None  # the receipt, checked above, stands for the manifest
    if not was_sent:
        was_sent = _require_ours(ours, Event.ACCEPT_UPLINK, uplink, must_stand=receipt is not None)
    if downlink is not None:  # the ledger also has those that broke off, which were not stored here
        _require_ours(ours, Event.FETCH_DOWNLINK, downlink, must_stand=True)
        models = [spec.digest for spec in downlink.arrays if spec.name == "model"]
        _require(entries, Event.RELEASE, models[0] if models else None, "the model we were sent")
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
    if (entry.event, entry.party, entry.subject) != (
        Event.ACCEPT_UPLINK,
        receipt.party,
        receipt.uplink_digest,
    ):
        raise LedgerError(f"entry {index}: does not accept the uplink our receipt is for")
