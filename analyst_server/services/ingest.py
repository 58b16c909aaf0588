"""Uplinks: begin, append at an offset, ask the offset, complete.

`Ingest` decides who may send what and when, and writes the records. An `UploadSession` keeps the bytes of
one upload. A chunk counts once its bytes have the digest its sender gave them and lie in the partial blob.
A second partial blob lists those digests, so that an upload continues after a crash of either side, and the
digests of whole arrays need no second pass. What a session holds in memory can be rebuilt from the blobs.
Which of several processes writes an upload is kept by `UploadSessions`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from analyst_server.services import damage, own_arrays, rounds
from analyst_server.services.analyst import (
    Analyst,
    check_seen,
    find,
    find_as_member,
    move,
    require_turn,
    stored_terms,
)
from analyst_server.services.exclusion import is_complete, require_taking_part
from analyst_server.services.space import LookFirstError, Space, payload_bytes_of, require_within_limits
from analyst_server.services.stored import stored_manifest
from analyst_server.services.upload_session import Append, UploadSession
from analyst_server.services.upload_sessions import (
    CompletedMeanwhileError,
    UploadSessions,
    layout_of,
    locked,
)
from analyst_server.store import Collaboration, Member, Unit, Uplink
from protocol.arrays import whole_digest
from protocol.envelope import Verified
from protocol.errors import (
    DifferentUplinkError,
    DigestMismatchError,
    NotFoundError,
    NotPermittedError,
    OffsetMismatchError,
    TermsMismatchError,
    TermsNotAcceptedError,
    TruncatedError,
    UploadSupersededError,
)
from protocol.identity import Identity
from protocol.messages import Receipt, UplinkManifest
from protocol.row_bounds import RowBounds
from protocol.states import Event, State
from protocol.uplinks import check_uplink


@dataclass(frozen=True)
class UploadStatus:
    """How much of an upload has arrived; offsets count the bytes of its stream.

    ``begun`` bytes after ``offset`` are kept as well, of a chunk that is not whole.
    """

    upload_id: str
    offset: int
    length: int
    complete: bool
    created: bool = False
    begun: int = 0


def _record(verified: Verified[UplinkManifest], body: bytes, now: int) -> Uplink:
    manifest = verified.message
    return Uplink(
        id=secrets.token_hex(16),
        collaboration_id=manifest.collaboration_id,
        party=manifest.party,
        manifest=body,
        manifest_digest=verified.digest,
        rows=manifest.rows,
        payload_bytes=payload_bytes_of(manifest),
        created_at=now,
    )


def _is_newest(unit: Unit, uplink: Uplink) -> bool:
    """Return whether no other uplink of the party was begun after this one, as the ledger has it."""
    begun = unit.last_step_of(uplink.collaboration_id, uplink.party, Event.BEGIN_UPLINK)
    return begun is None or begun.subject == uplink.manifest_digest


def _of_sender(unit: Unit, sender: Identity, upload_id: str) -> Uplink:
    uplink = locked(unit, upload_id)
    if uplink.party != sender.name or sender.role == "analyst":
        raise NotFoundError("there is no such upload")
    return uplink


def _replaced() -> UploadSupersededError:
    return UploadSupersededError("another uplink of this institution was begun in its place")


class Ingest:
    """The uploads of all collaborations."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self._sessions = UploadSessions(analyst)

    def begin(self, sender: Identity, collaboration_id: str, body: bytes) -> UploadStatus:
        """Open an upload for a signed manifest, or find the one it belongs to.

        Raises
        ------
        DifferentUplinkError
            If the party's uplink with another manifest is complete. Until one is, the manifest that was begun
            last replaces all others: only that upload can be completed.
        TermsNotAcceptedError, TermsMismatchError, ShapeMismatchError, DtypeMismatchError
            If the manifest is not what the terms promise.
        OutOfOrderError
            If the collaboration takes no uplink now.
        LimitExceededError
            If it is too large, alone or with what is kept of its party or of its round.
        DiskFullError
            If there is no space for it.
        StorageError
            If the store of the arrays is not where it belongs.
        """
        verified = self._analyst.verify_from(sender, UplinkManifest, body)
        manifest, now = verified.message, self._analyst.clock()
        if (manifest.collaboration_id, manifest.party) != (collaboration_id, sender.name):
            raise NotPermittedError(f"{sender.name} sends an uplink of another party or collaboration")
        try:
            return self._begin(sender, verified, body, now, Space.of_disk(self._analyst))
        except LookFirstError:
            return self._begin(sender, verified, body, now, Space.of_uploads(self._analyst))

    def _begin(
        self, sender: Identity, verified: Verified[UplinkManifest], body: bytes, now: int, space: Space
    ) -> UploadStatus:
        manifest = verified.message
        with self._analyst.records.begin(write=True) as unit:
            unit.alone_with(f"bytes of {sender.name}")  # in all its rounds there are so many at most
            collaboration, member = find_as_member(unit, manifest.collaboration_id, sender)
            earlier = unit.uplinks_of(collaboration.id, sender.name)
            same = next((row for row in earlier if row.manifest_digest == verified.digest), None)
            goes_on = same is not None and (same.receipt is not None or _is_newest(unit, same))
            if not goes_on:
                if any(row.receipt is not None for row in earlier):
                    raise DifferentUplinkError(sender.name)
                if member.acceptance is None:
                    raise TermsNotAcceptedError(sender.name)
                require_turn(collaboration, sender.name, Event.BEGIN_UPLINK)  # before the finer reasons below
                require_taking_part(unit, collaboration, sender.name, Event.BEGIN_UPLINK)
                if same is None:
                    self._check(manifest, collaboration, member)
                    check_seen(unit, collaboration, manifest)
                own_arrays.require_here(self._analyst, unit)
                require_within_limits(self._analyst, unit, manifest)
                space.require(unit, manifest)
                if same is None:
                    unit.add(uplink := _record(verified, body, now))
                # this entry abandons the others: `_accept` refuses them, even if this process dies now
                move(
                    unit,
                    collaboration,
                    Event.BEGIN_UPLINK,
                    at=now,
                    party=sender.name,
                    subject=verified.digest,
                )
                for row in earlier:  # nor does a process that still receives one acknowledge any more of it
                    locked(unit, row.id).takeovers += 1
        for replaced in () if goes_on else earlier:
            self._sessions.forget(replaced)
        begun = same or uplink
        if not self._is_complete(begun):
            try:
                self._sessions.of(begun, is_new=same is None)
            except CompletedMeanwhileError:
                begun = self._find(sender, begun.id)
        return self._status(begun, created=same is None)

    def _check(self, manifest: UplinkManifest, collaboration: Collaboration, member: Member) -> None:
        if manifest.terms_digest != collaboration.terms_digest:
            raise TermsMismatchError("uplink")
        if manifest.anchor_commitment != member.anchor_commitment:
            raise TermsMismatchError("uplink, by its anchor")
        terms = stored_terms(collaboration)
        check_uplink(manifest, terms)
        RowBounds.of(
            terms, manifest.party, manifest.privacy
        )  # noise that cannot be computed is refused before a byte comes

    def status(self, sender: Identity, upload_id: str) -> UploadStatus:
        """Return how much of the sender's upload has arrived."""
        return self._status(self._find(sender, upload_id))

    def append(self, sender: Identity, upload_id: str, offset: int) -> Append | None:
        """Start an append, or return None if the upload is complete.

        A sealed round takes no byte, but for those of an uplink that is damaged here: they are no others.

        Raises `OffsetMismatchError` with the offset to use instead.
        """
        with self._analyst.records.begin() as unit:
            uplink = _of_sender(unit, sender, upload_id)
            if uplink.receipt is None:
                collaboration = find(unit, uplink.collaboration_id)
                require_turn(collaboration, uplink.party, Event.ACCEPT_UPLINK)
                require_taking_part(unit, collaboration, uplink.party, Event.ACCEPT_UPLINK)
        if self._is_complete(uplink):
            length = layout_of(uplink).stream_bytes
            if offset != length:
                raise OffsetMismatchError(length, offset)
            return None
        try:
            session = self._sessions.of(uplink)
        except CompletedMeanwhileError:
            return self.append(sender, upload_id, offset)
        return Append(session, offset, self._sessions.require_ours)

    def complete(self, sender: Identity, upload_id: str, claimed: bytes) -> bytes:
        """Accept an upload whose bytes are all there, and return the signed receipt.

        Completing again returns the same receipt.

        Raises
        ------
        TruncatedError
            If bytes are missing; those that have arrived are kept.
        DigestMismatchError
            If the arrays are not the signed ones; the upload starts again from nothing.
        OffsetMismatchError
            If what arrived before a restart is damaged, or is not where it was stored; the upload goes on
            there.
        StorageError
            If the store of the arrays is not where it belongs; nothing is signed for.
        """
        uplink = self._find(sender, upload_id)
        if uplink.receipt is not None and self._is_complete(uplink):
            return uplink.receipt
        try:
            session = self._sessions.of(uplink)
        except CompletedMeanwhileError:
            return self.complete(sender, upload_id, claimed)
        manifest = stored_manifest(uplink)
        with session.lock:
            if len(session.digests) < session.layout.chunk_count:
                self._require_newest(uplink)
                raise TruncatedError("uplink", session.layout.stream_bytes, session.offset)
            try:
                session.check_stored()
            except FileNotFoundError:
                self._sessions.require_ours(session)
                raise
            self._check_digests(session, manifest, claimed)
            receipt = uplink.receipt
            if receipt is None:
                receipt = self._accept(sender, uplink, session)
            else:
                self._mend(uplink, session)
        self._close(session)
        return receipt

    def _require_newest(self, uplink: Uplink) -> None:
        """Ask nobody for the bytes of an upload that was replaced, and whose bytes were erased."""
        with self._analyst.records.begin() as unit:
            if uplink.receipt is None and not _is_newest(unit, uplink):
                raise _replaced()

    def _check_digests(self, session: UploadSession, manifest: UplinkManifest, claimed: bytes) -> None:
        found = session.array_digests()
        wrong = [spec.name for spec, got in zip(manifest.arrays, found, strict=True) if spec.digest != got]
        if wrong or claimed != whole_digest(found):
            session.start_over()
            raise DigestMismatchError(", ".join(wrong) or "uplink as a whole")

    def _accept(self, sender: Identity, uplink: Uplink, session: UploadSession) -> bytes:
        now = self._analyst.clock()
        with self._analyst.records.begin(write=True) as unit:
            collaboration, _ = find_as_member(unit, uplink.collaboration_id, sender)
            row = locked(unit, uplink.id)
            if row.receipt is not None:
                return row.receipt
            if row.takeovers != session.takeovers:
                raise self._sessions.lost(session)
            for other in unit.uplinks_of(collaboration.id, sender.name):
                if other.receipt is not None:
                    raise DifferentUplinkError(sender.name)
            if not _is_newest(unit, row):
                raise _replaced()
            require_turn(collaboration, sender.name, Event.ACCEPT_UPLINK)
            require_taking_part(unit, collaboration, sender.name, Event.ACCEPT_UPLINK)
            entry = move(
                unit,
                collaboration,
                Event.ACCEPT_UPLINK,
                at=now,
                party=sender.name,
                subject=row.manifest_digest,
            )
            row.receipt = self._analyst.sign(
                Receipt(
                    collaboration_id=collaboration.id,
                    party=sender.name,
                    uplink_digest=row.manifest_digest,
                    payload_bytes=row.payload_bytes,
                    received_at=now,
                    ledger_index=entry.index,
                    ledger_digest=entry.digest,
                )
            )
            row.received_at = now
            # the blob first: one without a receipt can be completed again, but a receipt without its
            # blob could not be honoured
            session.commit()
            own_arrays.require_here(self._analyst, unit)
            is_late = collaboration.now_in is State.RELEASED
            is_last = not is_late and is_complete(unit, collaboration)
            if is_last:
                move(unit, collaboration, Event.SEAL, at=now)
            receipt = row.receipt
        if is_last or is_late:
            self._analyst.call_worker(collaboration.id)
        return receipt

    def _mend(self, uplink: Uplink, session: UploadSession) -> None:
        """Replace damaged bytes by those that the receipt is for; with the last of them the round goes on."""
        with self._analyst.records.begin(write=True) as unit:
            collaboration = find(unit, uplink.collaboration_id)
            if locked(unit, uplink.id).takeovers != session.takeovers:
                raise self._sessions.lost(session)
            session.commit()
            own_arrays.require_here(self._analyst, unit)
            damage.unmark([uplink], self._analyst.blobs)
            received = unit.uplinks_taking_part(collaboration.id)
            is_whole = not any(damage.is_marked(other, self._analyst.blobs) for other in received)
            if is_whole and collaboration.now_in is State.FAILED:
                rounds.start_again(unit, collaboration, self._analyst.clock())
        self._analyst.call_worker(collaboration.id)

    def _close(self, session: UploadSession) -> None:
        session.discard_list()
        self._sessions.drop(session)

    def _is_complete(self, uplink: Uplink) -> bool:
        return uplink.receipt is not None and not damage.is_marked(uplink, self._analyst.blobs)

    def _find(self, sender: Identity, upload_id: str) -> Uplink:
        with self._analyst.records.begin() as unit:
            return _of_sender(unit, sender, upload_id)

    def _status(self, uplink: Uplink, *, created: bool = False) -> UploadStatus:
        layout = layout_of(uplink)
        if self._is_complete(uplink):
            return UploadStatus(uplink.id, layout.stream_bytes, layout.stream_bytes, complete=True)
        session = self._sessions.seen(uplink)
        with session.lock:
            return UploadStatus(
                uplink.id,
                session.offset,
                layout.stream_bytes,
                complete=False,
                created=created,
                begun=session.begun_bytes,
            )
