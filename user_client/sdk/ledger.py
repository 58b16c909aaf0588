"""The ledger of a collaboration: fetch it, and check it offline against what we have signed and got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.codec import M, decode, digest
from protocol.envelope import Signed, Verified, decode_stored, verify
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
from runtime.files import read_bytes, write_whole
from user_client.custody.inventory import (
    ACCEPTANCE_FILE,
    ANCHOR_FILE,
    DOWNLINK_FILE,
    LEDGER_FILE,
    MANIFEST_FILE,
    RECEIPT_FILE,
    REFUSED_FILE,
    TERMS_FILE,
)
from user_client.errors import NotPreparedError
from user_client.sdk.session import Session, require_role

CLOCKS_APART_S: Final = 300
_ASK_OTHERS: Final = "ask the lead institution and other members for theirs"


@dataclass(frozen=True)
class CheckedLedger:
    """A ledger that holds."""

    entries: tuple[LedgerEntry, ...]
    head: bytes
    """Digest to compare with other members: the same length must have the same."""
    signed_at: int
    checked: tuple[str, ...]
    """What of ours was compared with it."""


def fetch_ledger(session: Session, collaboration_id: str) -> tuple[bytes, CheckedLedger]:
    """Fetch the ledger, check it as `verify_ledger` does, and return its file and what it says.

    Raises
    ------
    LedgerError, TrustError, ProtocolError
        If it does not hold. What came is kept beside the good one, as evidence.
    """
    pages: list[bytes] = []
    count, length, size = 0, 1, 0
    while count < length:
        query = f"start={count}" if count else ""
        data = session.connection.ask(FETCH_LEDGER, query=query, collaboration_id=collaboration_id).content
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
        return packed, verify_ledger(session, collaboration_id, packed)
    except OdcError as error:
        evidence = session.home.collaboration(collaboration_id) / REFUSED_FILE
        write_whole(evidence, packed)
        if isinstance(error, LedgerError):
            error.hint = f"keep {evidence}: the analyst has signed it; {_ASK_OTHERS}"
        raise


def stored_ledger(session: Session, collaboration_id: str) -> bytes:
    """Return the longest ledger that held so far; raises `NotPreparedError` before there is one."""
    path = session.home.collaboration(collaboration_id) / LEDGER_FILE
    if not path.exists():
        error = NotPreparedError("no ledger of this collaboration was fetched yet")
        error.hint = "run `odc ledger fetch` first, or name a file"
        raise error
    return read_bytes(path)


def verify_ledger(session: Session, collaboration_id: str, data: bytes) -> CheckedLedger:
    """Check a ledger without asking anybody; a good one that is longer than before is kept.

    (1) Its entries are a chain; (2) its heads are signed by the analyst, and theirs; (3) it begins with
    the longest ledger that held before; (4) what we have signed and received stands in it, and nothing
    else does under our name.

    Raises
    ------
    LedgerError
        Which entry is wrong, and how.
    TrustError, ProtocolError
        If it is no ledger under the signature of our analyst.
    """
    entries, heads, last = _open(session, collaboration_id, data)
    path = session.home.collaboration(collaboration_id) / LEDGER_FILE
    seen: list[bytes] = []
    if path.exists():  # (3)
        seen = _seen(session, collaboration_id, path)
        for number, (earlier, now) in enumerate(zip(seen[1:], heads[1:], strict=False)):
            if earlier != now:
                raise LedgerError(f"entry {number}: is not the one seen before: the ledger was rewritten")
        if len(heads) < len(seen):
            raise LedgerError(
                f"the ledger ends after entry {len(heads) - 2}; entry {len(seen) - 2} was seen before: "
                "it was shortened, or this is an old copy"
            )
    checked = _check_ours(session, collaboration_id, entries, heads)  # (4)
    if len(heads) > len(seen):
        write_whole(path, data)
    return CheckedLedger(tuple(entries), heads[-1], last.at, tuple(checked))


def _seen(session: Session, collaboration_id: str, path: Path) -> list[bytes]:
    try:
        return _open(session, collaboration_id, read_bytes(path))[1]
    except OdcError as error:
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
    """Verify what the analyst signed while its certificate held, though that may have ended since."""
    certificate = load_der_certificate(decode(Signed, data).certificate)
    ended = int(certificate.not_valid_after_utc.timestamp())
    verified = verify(kind, data, session.home.root(), at=min(session.clock(), ended))
    require_role(verified.author, "analyst", kind.__name__)
    return verified


def _check_ours(
    session: Session, collaboration_id: str, entries: Sequence[LedgerEntry], heads: Sequence[bytes]
) -> list[str]:
    """Compare with the messages in our state directory; return which of them stand there.

    What stands there under our name must be what we have signed, what we were sent what the analyst entered.
    """
    directory, party = session.home.collaboration(collaboration_id), session.membership.party
    ours = [entry for entry in entries if entry.party == party]
    there: dict[str, bytes] = {}

    def found(kind: type[M], name: str) -> M | None:
        if not (directory / name).exists():
            return None
        there[name] = read_bytes(directory / name)
        return decode_stored(kind, there[name])

    terms, acceptance = found(Terms, TERMS_FILE), found(Acceptance, ACCEPTANCE_FILE)
    anchor, uplink = found(SealedAnchor, ANCHOR_FILE), found(UplinkManifest, MANIFEST_FILE)
    receipt, downlink = found(Receipt, RECEIPT_FILE), found(DownlinkManifest, DOWNLINK_FILE)
    if terms is not None:
        _require(entries, Event.PUBLISH_TERMS, digest(terms), "the terms we were shown")
    if anchor is not None:
        _require(entries, Event.PUBLISH_ANCHOR, anchor.commitment, "the anchor we were sent")
    if receipt is not None:
        _verify_archived(session, Receipt, there[RECEIPT_FILE])
        _check_receipt(receipt, entries, heads)
    # a message may lie here that never left; the analyst sends an anchor to who has accepted only
    if not _require_ours(ours, Event.ACCEPT_TERMS, acceptance, must_stand=anchor is not None):
        there.pop(ACCEPTANCE_FILE, None)
    is_forgotten = uplink is None and receipt is not None  # its receipt was checked above
    if not (is_forgotten or _require_ours(ours, Event.ACCEPT_UPLINK, uplink, must_stand=receipt is not None)):
        there.pop(MANIFEST_FILE, None)
    if downlink is not None:  # one that broke off is in the ledger, and not here
        _require_ours(ours, Event.FETCH_DOWNLINK, downlink, must_stand=True)
        models = [spec.digest for spec in downlink.arrays if spec.name == "model"]
        _require(entries, Event.RELEASE, models[0] if models else None, "the model we were sent")
    return list(there)


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
    """Return whether there is such a step of ours; raise unless each of them is our message."""
    steps = [entry for entry in ours if entry.event is event]
    if must_stand and not steps:
        raise LedgerError(f"the ledger has no entry '{event}' of ours")
    for entry in steps:
        if message is None:
            raise LedgerError(f"entry {entry.index}: '{event}' in our name, of which nothing is known here")
        if entry.subject != digest(message):
            raise LedgerError(
                f"entry {entry.index}: '{event}' in our name is not of the message that lies here"
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
