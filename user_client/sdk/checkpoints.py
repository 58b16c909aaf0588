"""Checkpoints of the ledger: compare one with what we have followed, cosign it, and prove that it grew."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography import x509

from protocol.checkpoint import Note, NoteKey, leaf_hashes
from protocol.errors import LedgerError, MalformedMessageError, NotPermittedError
from protocol.ledger import LedgerEntry
from protocol.merkle import check_consistency, consistency_proof, root_hash
from protocol.operations import FETCH_CHECKPOINT
from user_client.custody.round_directory import RoundDirectory
from user_client.sdk.ledger_check import (
    CheckedLedger,
    analyst_certificate,
    fetch_ledger,
    stored_ledger,
    verify_ledger,
)
from user_client.sdk.session import Session


def fetch_checkpoint(session: Session, directory: RoundDirectory) -> tuple[Note, CheckedLedger]:
    """Fetch the analyst's newest checkpoint and the ledger after it; return both, if they agree.

    Raises `LedgerError` if the ledger does not begin with what the checkpoint is of, and `NotPermittedError`
    if it is not signed with the key of the ledger's heads.
    """
    answer = session.connection.ask(FETCH_CHECKPOINT, collaboration_id=directory.collaboration_id)
    note = Note.parse(answer.content)
    checked = fetch_ledger(session, directory)[1]
    compare(note, directory.collaboration_id, checked.entries)
    check_signers(note, [analyst_certificate(directory)])
    return note, checked


def cosign(session: Session, directory: RoundDirectory, note: Note) -> Note:
    """Return a checkpoint with our signature, if the ledger that we have followed has it. Asks nobody.

    Raises
    ------
    NotPreparedError
        If no ledger was fetched yet.
    LedgerError
        If it is of another ledger, or of a longer one than we have.
    """
    checked = verify_ledger(session, directory, stored_ledger(directory))
    compare(note, directory.collaboration_id, checked.entries)
    certificate = session.home.certificate()
    if note.is_signed_by(certificate):
        return note
    return note.signed(session.home.key(), certificate)


def prove_growth(session: Session, directory: RoundDirectory, earlier: Note, later: Note) -> bytes:
    """Return a file that proves to whoever has no entry that the later checkpoint begins as the earlier."""
    entries = verify_ledger(session, directory, stored_ledger(directory)).entries
    for note in (earlier, later):
        compare(note, directory.collaboration_id, entries)
    size, end = earlier.checkpoint.size, later.checkpoint.size
    if not 0 < size <= end:
        raise LedgerError(f"a ledger of {size} entries is no beginning of one with {end}")
    hashes = consistency_proof(size, leaf_hashes(entries[:end]))
    return (json.dumps([base64.b64encode(one).decode() for one in hashes], indent=1) + "\n").encode()


def check_growth(earlier: Note, later: Note, proof: bytes) -> None:
    """Raise `LedgerError` unless the file proves that. Needs no entry and asks nobody."""
    before, after = earlier.checkpoint, later.checkpoint
    if before.origin != after.origin:
        raise LedgerError("the two checkpoints are of different collaborations")
    check_consistency(before.size, after.size, before.root, after.root, _hashes(proof))


def check_signers(note: Note, certificates: Sequence[x509.Certificate]) -> list[str]:
    """Return under which names the holders of certificates have signed a checkpoint.

    Raises `NotPermittedError` if one of them has not, `SignatureError` if a signature is wrong.
    """
    for certificate in certificates:
        if not note.is_signed_by(certificate):
            raise NotPermittedError(f"the checkpoint is not signed by {note.name_of(certificate)}")
    return [note.name_of(certificate) for certificate in certificates]


def check_witnesses(note: Note, witnesses: Mapping[str, NoteKey]) -> list[str]:
    """Return the names of witnesses outside, who have signed a checkpoint; raises as `check_signers`."""
    for name, key in witnesses.items():
        if not note.is_signed_with(name, key):
            raise NotPermittedError(f"the checkpoint is not signed by {name} with this key")
    return list(witnesses)


def compare(note: Note, collaboration_id: str, entries: Sequence[LedgerEntry]) -> None:
    """Raise `LedgerError` unless a ledger begins with what a checkpoint is of."""
    found = note.checkpoint
    if found.collaboration_id != collaboration_id:
        raise LedgerError(f"the checkpoint is of another collaboration, {found.collaboration_id}")
    if found.size > len(entries):
        error = LedgerError(f"the checkpoint is of {found.size} entries, our ledger has {len(entries)}")
        error.hint = "run `odc ledger fetch` first"
        raise error
    if root_hash(leaf_hashes(entries[: found.size])) != found.root:
        error = LedgerError(f"the first {found.size} entries of our ledger are not those of the checkpoint")
        error.hint = "keep the checkpoint: if the analyst has signed it, it has signed two histories"
        raise error


def _hashes(proof: bytes) -> list[bytes]:
    try:
        listed: Any = json.loads(proof)
        return [base64.b64decode(one, validate=True) for one in listed]
    except (ValueError, TypeError, RecursionError):
        raise MalformedMessageError("proof", "is no list of hashes in base64") from None
