"""Erase the secret basis and what leads to it, say so by signature, and look whether it is gone.

NRI-DC (Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", Algorithm 1): F_i and P_i
are erased right after the uplink, and the party predicts with a model of its own. P_i is never written.
docs/nri.md says what erasing a file can and cannot do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from protocol.arrays import ArrayDigest, Layout
from protocol.codec import digest
from protocol.envelope import decode_stored, verify
from protocol.errors import OdcError, TrustError
from protocol.messages import ErasedFile, ForgettingStatement, UplinkManifest
from protocol.terms import Terms
from runtime.files import erase, write_whole
from user_client.custody.home import exclusive
from user_client.custody.inventory import (
    ANCHOR_FILES,
    BASIS_FILES,
    DOWNLINK_FILE,
    MANIFEST_FILE,
    RECEIPT_FILE,
    STATEMENT_FILE,
    RoundFile,
    files_of,
    paths_of,
)
from user_client.errors import ConfirmationNeededError, NotPreparedError
from user_client.sdk.session import Session
from user_client.sdk.terms import stored_terms


@dataclass(frozen=True)
class Examined:
    """What lies in the directory of a round."""

    files: tuple[RoundFile, ...]
    held: tuple[str, ...]
    """Files that hold the basis, or lead to it."""
    unknown: tuple[str, ...]
    """Files nobody knows: look at them yourself."""
    statement: ForgettingStatement | None
    """What we have signed, once it is verified."""
    statement_is_ours: bool

    @property
    def is_forgotten(self) -> bool:
        return self.statement_is_ours and not self.held and not self.unknown


def forget(session: Session, collaboration_id: str, *, confirmed: bool = False) -> ForgettingStatement:
    """Erase the secret basis and what leads to it; return our signed statement.

    The anchor goes too once nothing needs it: our own model is trained, or the terms have none. Calling
    again erases what has become superfluous since, and adds it to what was stated.

    Parameters
    ----------
    confirmed : bool
        Needed where something is lost: under terms that predict with F_i, and before the uplink is sent.
        Under NRI-DC it gives the anchor up too, and with it our own model if that is not trained yet: for a
        round that will not be released.

    Raises
    ------
    ConfirmationNeededError
        Which says what would be lost.
    NotPreparedError
        If there is nothing to forget.
    BusyError
        If another process works in this directory.
    """
    with exclusive(session.home.collaboration(collaboration_id)):
        terms = stored_terms(session, collaboration_id)
        directory = session.home.collaboration(collaboration_id)
        lost = _what_is_lost(terms, directory)
        if lost and not confirmed:
            raise ConfirmationNeededError(lost)
        statement = _erase(session, terms, also_anchor=confirmed)
    if statement is None:
        error = NotPreparedError("there is nothing to forget: no basis was drawn here for this collaboration")
        error.hint = "`odc forget --check` lists what lies in its directory"
        raise error
    return statement


def forget_if_demanded(session: Session, collaboration_id: str) -> None:
    """Under NRI-DC erase what the present step has made superfluous; the caller holds the lock.

    Called after the receipt, and after our own model is trained. A command that was cut off in between
    does it when it is run again.
    """
    terms = stored_terms(session, collaboration_id)
    if terms.returns_anchor_predictions:
        _erase(session, terms)


def was_forgotten(session: Session, collaboration_id: str) -> ForgettingStatement | None:
    """Return our statement, if we made one."""
    if not (session.home.collaboration(collaboration_id) / STATEMENT_FILE).exists():
        return None
    statement, _ = session.stored(collaboration_id, ForgettingStatement, STATEMENT_FILE, "odc forget")
    return statement


def examine(session: Session, collaboration_id: str) -> Examined:
    """Go through every file of a round's directory, and verify our statement.

    The bytes that were erased cannot be searched for: nobody has them any more. What can be told of an
    unknown file is told: whether it is the uplink under another name (its digests are kept), and whether
    it is a matrix of the shape of the basis.
    """
    terms = stored_terms(session, collaboration_id)
    directory = session.home.collaboration(collaboration_id)
    uplink = None
    if (directory / MANIFEST_FILE).exists():
        uplink, _ = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
    files = tuple(
        file if file.role else _recognised(directory / file.name, file, terms, uplink)
        for file in files_of(directory)
    )
    leading = {**BASIS_FILES, **(ANCHOR_FILES if _anchor_is_superfluous(terms, directory) else {})}
    held = [
        file.name
        for file in files
        if file.role.removeprefix("half written: ") in leading.values() or file.role.startswith("copy: ")
    ]
    statement, is_ours = _verified_statement(session, terms, uplink)
    unknown = tuple(file.name for file in files if not file.role)
    return Examined(files, tuple(held), unknown, statement, is_ours)


def _what_is_lost(terms: Terms, directory: Path) -> str:
    if not (directory / RECEIPT_FILE).exists():
        return "our uplink is not acknowledged: what was prepared could not be sent any more"
    if not terms.returns_anchor_predictions:
        return "these terms predict with the secret basis: `odc predict` would not be possible any more"
    return ""


def _anchor_is_superfluous(terms: Terms, directory: Path) -> bool:
    needed_for_training = terms.returns_anchor_predictions and not (directory / DOWNLINK_FILE).exists()
    return (directory / RECEIPT_FILE).exists() and not needed_for_training


def _erase(session: Session, terms: Terms, *, also_anchor: bool = False) -> ForgettingStatement | None:
    directory = session.home.collaboration(terms.collaboration_id)
    if also_anchor:  # a table can be prepared anew with it, until one was sent
        also_anchor = (directory / RECEIPT_FILE).exists()
    with_anchor = also_anchor or _anchor_is_superfluous(terms, directory)
    names = [*BASIS_FILES, *(ANCHOR_FILES if with_anchor else ())]
    earlier = was_forgotten(session, terms.collaboration_id)
    now = session.clock()
    erased = [
        ErasedFile(name=path.name, size_bytes=path.stat().st_size, erased_at=now)
        for name in names
        for path in paths_of(directory, name)
    ]
    if not erased:
        return earlier
    for file in erased:
        erase(directory / file.name)
    statement = ForgettingStatement(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        uplink_digest=_sent_digest(session, terms.collaboration_id),
        erased=(*(earlier.erased if earlier else ()), *erased),
    )
    # last: a statement must never be of files that are still there
    write_whole(directory / STATEMENT_FILE, session.sign(statement))
    return statement


def _sent_digest(session: Session, collaboration_id: str) -> bytes | None:
    directory = session.home.collaboration(collaboration_id)
    if not (directory / RECEIPT_FILE).exists():
        return None
    uplink, _ = session.stored(collaboration_id, UplinkManifest, MANIFEST_FILE, "odc prepare TABLE")
    return digest(uplink)


def _verified_statement(
    session: Session, terms: Terms, uplink: UplinkManifest | None
) -> tuple[ForgettingStatement | None, bool]:
    """Return the statement, and whether it is our own word on this round."""
    path = session.home.collaboration(terms.collaboration_id) / STATEMENT_FILE
    if not path.exists():
        return None, False
    data = path.read_bytes()
    try:
        statement = decode_stored(ForgettingStatement, data)
        # at its own time: our certificate may have ended since
        verified = verify(ForgettingStatement, data, session.home.root(), at=statement.erased[-1].erased_at)
    except TrustError:
        return statement, False
    except OdcError:
        return None, False
    expected = (terms.collaboration_id, digest(terms), session.membership.party)
    is_ours = verified.author == session.membership.identity
    is_ours &= (statement.collaboration_id, statement.terms_digest, statement.party) == expected
    if statement.uplink_digest is not None:
        is_ours &= uplink is not None and statement.uplink_digest == digest(uplink)
    return statement, is_ours


def _recognised(path: Path, file: RoundFile, terms: Terms, uplink: UplinkManifest | None) -> RoundFile:
    """Give an unknown file a role if it is a copy of what was erased."""
    if uplink is not None and file.size_bytes == Layout(uplink.arrays, uplink.chunk_bytes).payload_bytes:
        with path.open("rb") as content:
            if holds_uplink(content, uplink):
                return RoundFile(file.name, file.size_bytes, "copy: the uplink under another name")
    if _npy_shape(path) == (terms.table_schema.width, terms.latent_dim):
        return RoundFile(file.name, file.size_bytes, "copy: a matrix of the shape of the secret basis")
    return file


def _npy_shape(path: Path) -> tuple[int, ...] | None:
    """Return the shape of a matrix numpy has saved, or None for any other file."""
    with path.open("rb") as file:
        if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
            return None
    try:
        return tuple(np.load(path, mmap_mode="r", allow_pickle=False).shape)
    except ValueError:
        return None


def holds_uplink(content: Any, uplink: UplinkManifest) -> bool:
    """Whether an open file is, to its end, what the manifest says."""
    layout = Layout(uplink.arrays, uplink.chunk_bytes)
    digests = [ArrayDigest() for _ in uplink.arrays]
    for slot in _slots(layout):
        digests[slot.array].update(hashlib.sha256(content.read(slot.payload_bytes)).digest())
    is_longer = content.read(1) != b""
    return not is_longer and [each.digest() for each in digests] == [spec.digest for spec in uplink.arrays]


def _slots(layout: Layout) -> Iterator[Any]:
    return (layout.slot(index) for index in range(layout.chunk_count))


def in_words(statement: ForgettingStatement) -> Sequence[str]:
    """Return what the statement says, one line a file."""
    roles = {**BASIS_FILES, **ANCHOR_FILES}
    return [
        f"{file.name} ({roles[file.name]})" if file.name in roles else file.name for file in statement.erased
    ]
