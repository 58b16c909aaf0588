"""Erase the secret basis and what leads to it, sign a statement of that, and examine what is left.

NRI-DC (Nosaka and Yoshise, "Data collaboration analysis over matrix manifolds", Algorithm 1): F_i and P_i
are erased right after the uplink, and the party predicts with a model of its own. P_i is never written.
docs/nri.md says what erasing a file can and cannot do.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from protocol.arrays import ArrayDigest, Layout
from protocol.codec import digest
from protocol.envelope import decode_stored, verify
from protocol.errors import OdcError, TrustError
from protocol.messages import DownlinkManifest, ErasedFile, ForgettingStatement, Receipt, UplinkManifest
from protocol.terms import Terms
from runtime.files import erase
from user_client.custody.round_directory import (
    ANCHOR_FILES,
    BASIS_FILES,
    FORGETTING_FILE,
    STATEMENT_FILE,
    RoundDirectory,
    RoundFile,
)
from user_client.errors import ConfirmationNeededError, NotPreparedError
from user_client.sdk.own_map import is_packed
from user_client.sdk.session import Session
from user_client.sdk.terms import accepted_terms, own_party


@dataclass(frozen=True)
class Examined:
    """What is in the directory of a round."""

    files: tuple[RoundFile, ...]
    held: tuple[str, ...]
    """Files that contain the basis, or lead to it."""
    unknown: tuple[str, ...]
    """Files of unknown content, for a person to look at."""
    statement: ForgettingStatement | None
    """Our signed statement, if there is one."""
    statement_is_ours: bool
    """Whether its signature was verified and it is about this round."""

    @property
    def is_forgotten(self) -> bool:
        """Whether the statement is ours and the directory agrees with it."""
        return self.statement_is_ours and not self.held and not self.unknown


def forget(session: Session, directory: RoundDirectory, *, confirmed: bool) -> ForgettingStatement:
    """Erase the secret basis and what leads to it; return our signed statement."""
    with directory.exclusive():
        terms = accepted_terms(directory)
        lost = _what_is_lost(terms, directory)
        if lost and not confirmed:
            raise ConfirmationNeededError(lost)
        statement = _erase(session, directory, terms, also_anchor=confirmed)
    if statement is None:
        error = NotPreparedError(
            "there is nothing to forget: this collaboration has no basis on this machine"
        )
        error.hint = "`odc forget --check` lists the files of the collaboration"
        raise error
    return statement


def forget_if_required(session: Session, directory: RoundDirectory) -> None:
    """Under NRI-DC erase what is not needed any more; the caller holds the lock.

    Called after the receipt is stored and after our own model is trained. If a command is killed in between,
    the next run of the same command erases it.
    """
    terms = accepted_terms(directory)
    if terms.returns_anchor_predictions:
        _erase(session, directory, terms)


def examine(session: Session, directory: RoundDirectory) -> Examined:
    """List every file of the round and verify our statement.

    The bytes that were erased cannot be searched for, because nobody has them any more. Of an unknown file
    it can be told whether it is the uplink under another name (its digests are stored), and whether it is a
    matrix of the shape of the basis.
    """
    terms = accepted_terms(directory)
    uplink = directory.find(UplinkManifest)
    width = len(terms.features_of(session.membership.party))
    own_dim = terms.latent_dim if uplink is None or uplink.has_sums else uplink.rep.shape[1]
    files = tuple(
        file if file.role else _recognised(directory.path / file.name, file, (width, own_dim), uplink)
        for file in directory.files()
    )
    leading = {**BASIS_FILES, **(ANCHOR_FILES if _anchor_is_superfluous(terms, directory) else {})}
    held = tuple(
        file.name for file in files if file.content in leading.values() or file.role.startswith("copy: ")
    )
    statement, is_ours = _verified_statement(session, directory, terms, uplink)
    unknown = tuple(file.name for file in files if not file.role)
    return Examined(files, held, unknown, statement, is_ours)


def _what_is_lost(terms: Terms, directory: RoundDirectory) -> str:
    if not directory.holds(Receipt):
        return "our uplink is not acknowledged: it could not be sent any more"
    if not terms.returns_anchor_predictions:
        lost = "these terms predict with the secret basis: `odc predict` would not be possible any more"
        group = terms.group_of(own_party(directory))
        others = "" if group is None else ", ".join(group.others(own_party(directory)))
        return f"{lost}, nor would {others} get a part of ours to predict with" if others else lost
    return ""


def _anchor_is_superfluous(terms: Terms, directory: RoundDirectory) -> bool:
    needed_for_training = terms.returns_anchor_predictions and not directory.holds(DownlinkManifest)
    return directory.holds(Receipt) and not needed_for_training


def _erase(
    session: Session, directory: RoundDirectory, terms: Terms, *, also_anchor: bool = False
) -> ForgettingStatement | None:
    if also_anchor:  # until an uplink was sent, the anchor serves to prepare another
        also_anchor = directory.holds(Receipt)
    with_anchor = also_anchor or _anchor_is_superfluous(terms, directory)
    names = [*BASIS_FILES, *(ANCHOR_FILES if with_anchor else ())]
    earlier = directory.find(ForgettingStatement)
    now = session.clock()
    found = [
        ErasedFile(
            name=path.relative_to(directory.path).as_posix(), size_bytes=path.stat().st_size, erased_at=now
        )
        for name in names
        for path in directory.copies(name)
    ]
    still_there = {file.name for file in found}
    begun = (file for file in _begun(directory, earlier) if file.name not in still_there)
    # of now, when our certificate is the one that signs
    erased = [*(file.model_copy(update={"erased_at": now}) for file in begun), *found]
    if not erased:
        directory.remove(FORGETTING_FILE)
        return earlier
    # first: a command that is killed half-way leaves what the statement will have to name
    directory.write(FORGETTING_FILE, json.dumps([file.model_dump() for file in erased]).encode())
    for file in erased:
        erase(directory.path / file.name)
    statement = ForgettingStatement(
        collaboration_id=terms.collaboration_id,
        terms_digest=digest(terms),
        party=session.membership.party,
        uplink_digest=digest(directory.load(UplinkManifest)) if directory.holds(Receipt) else None,
        erased=(*(earlier.erased if earlier else ()), *erased),
    )
    # last: a statement must never name files that are still there
    directory.write(ForgettingStatement, session.sign(statement))
    directory.remove(FORGETTING_FILE)
    return statement


def _begun(directory: RoundDirectory, earlier: ForgettingStatement | None) -> list[ErasedFile]:
    """Return what a command that was killed has erased, or was about to, and the statement does not name."""
    if not directory.holds(FORGETTING_FILE):
        return []
    begun = [ErasedFile.model_validate(file) for file in json.loads(directory.read(FORGETTING_FILE))]
    return [file for file in begun if earlier is None or file not in earlier.erased]


def _verified_statement(
    session: Session, directory: RoundDirectory, terms: Terms, uplink: UplinkManifest | None
) -> tuple[ForgettingStatement | None, bool]:
    """Return the statement, and whether we have signed it for this round."""
    if not directory.holds(ForgettingStatement):
        return None, False
    data = directory.read(STATEMENT_FILE)
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


def _recognised(
    path: Path, file: RoundFile, basis_shape: tuple[int, int], uplink: UplinkManifest | None
) -> RoundFile:
    """Return an unknown file with a role if it is a copy of something that was erased."""
    if uplink is not None and file.size_bytes == Layout(uplink.arrays, uplink.chunk_bytes).payload_bytes:
        with path.open("rb") as content:
            if is_uplink(content, uplink):
                return RoundFile(file.name, file.size_bytes, "copy: the uplink under another name")
    if _npy_shape(path) == basis_shape or is_packed(path):
        return RoundFile(file.name, file.size_bytes, "copy: a matrix of the shape of the secret basis")
    return file


def _npy_shape(path: Path) -> tuple[int, ...] | None:
    """Return the shape of a matrix in numpy's file format, or None for any other file."""
    with path.open("rb") as file:
        if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
            return None
    try:
        return tuple(np.load(path, mmap_mode="r", allow_pickle=False).shape)
    except ValueError:
        return None


def is_uplink(content: BinaryIO, uplink: UplinkManifest) -> bool:
    """Return whether the content of an open file has the digests of a manifest, and nothing more."""
    layout = Layout(uplink.arrays, uplink.chunk_bytes)
    digests = [ArrayDigest() for _ in uplink.arrays]
    for index in range(layout.chunk_count):
        slot = layout.slot(index)
        digests[slot.array].update(hashlib.sha256(content.read(slot.payload_bytes)).digest())
    is_longer = content.read(1) != b""
    return not is_longer and [each.digest() for each in digests] == [spec.digest for spec in uplink.arrays]
