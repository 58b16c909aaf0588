"""Uplinks: begin, append at an offset, ask the offset, complete.

`Ingest` decides who may send what and when, and writes the records. An `UploadSession` keeps the bytes of
one upload. A chunk counts once its bytes have the digest its sender gave them and lie in the partial blob.
A second partial blob lists those digests, so that an upload continues after a crash of either side, and the
digests of whole arrays need no second pass. What a session holds in memory can be rebuilt from the blobs.
"""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass

from analyst_server.services import damage, rounds
from analyst_server.services.analyst import (
    Analyst,
    check_seen,
    find,
    find_as_member,
    move,
    require_turn,
    stored_terms,
)
from analyst_server.services.exclusion import require_taking_part
from analyst_server.services.space import LookFirstError, Space, payload_bytes_of, require_within_limits
from analyst_server.services.stored import blob_key, stored_manifest
from analyst_server.services.upload_session import Append, UploadSession
from analyst_server.store import Collaboration, Member, Unit, Uplink
from protocol.arrays import Layout, whole_digest
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


def _layout(uplink: Uplink) -> Layout:
    manifest = stored_manifest(uplink)
    return Layout(manifest.arrays, manifest.chunk_bytes)


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


class Ingest:
    """The uploads of all collaborations, and the sessions of those under way."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self._sessions: dict[str, UploadSession] = {}
        self._rebuilding: dict[str, Future[UploadSession]] = {}
        self._lock = threading.Lock()

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
        for replaced in () if goes_on else earlier:
            self._forget(replaced)
        return self._status(same or uplink, created=same is None)

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
        uplink = self._find(sender, upload_id)
        if self._is_complete(uplink):
            length = _layout(uplink).stream_bytes
            if offset != length:
                raise OffsetMismatchError(length, offset)
            return None
        if uplink.receipt is None:
            with self._analyst.records.begin() as unit:
                collaboration = find(unit, uplink.collaboration_id)
                require_turn(collaboration, uplink.party, Event.ACCEPT_UPLINK)
                require_taking_part(unit, collaboration, uplink.party, Event.ACCEPT_UPLINK)
        return Append(self._session(uplink), offset)

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
            If what arrived before a restart is damaged; the upload goes on there.
        """
        uplink = self._find(sender, upload_id)
        if uplink.receipt is not None and self._is_complete(uplink):
            return uplink.receipt
        session = self._session(uplink)
        manifest = stored_manifest(uplink)
        with session.lock:
            if len(session.digests) < session.layout.chunk_count:
                raise TruncatedError("uplink", session.layout.stream_bytes, session.offset)
            session.check_stored()
            self._check_digests(session, manifest, claimed)
            receipt = uplink.receipt
            if receipt is None:
                receipt = self._accept(sender, uplink, session)
            else:
                self._mend(uplink, session)
        self._close(uplink, session)
        return receipt

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
            row = unit.uplink(uplink.id)
            if row is None:
                raise NotFoundError("there is no such upload")
            if row.receipt is not None:
                return row.receipt
            for other in unit.uplinks_of(collaboration.id, sender.name):
                if other.receipt is not None:
                    raise DifferentUplinkError(sender.name)
            if not _is_newest(unit, row):
                raise UploadSupersededError("another uplink of this institution was begun in its place")
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
            is_late = collaboration.now_in is State.RELEASED
            is_last = not is_late and self._is_last(unit, collaboration)
            if is_last:
                move(unit, collaboration, Event.SEAL, at=now)
            receipt = row.receipt
        if is_last or is_late:
            self._analyst.call_worker(collaboration.id)
        return receipt

    def _is_last(self, unit: Unit, collaboration: Collaboration) -> bool:
        """Return whether nobody is awaited any more. Each party has one uplink at most."""
        awaited, received = stored_terms(collaboration).awaited_parties, unit.count_received(collaboration.id)
        excluded = unit.excluded(collaboration.id)
        if excluded:
            received = len(unit.uplinks_taking_part(collaboration.id))
        return received == len(awaited) - len(excluded)

    def _mend(self, uplink: Uplink, session: UploadSession) -> None:
        """Replace damaged bytes by those that the receipt is for; with the last of them the round goes on."""
        session.commit()
        with self._analyst.records.begin(write=True) as unit:
            collaboration = find(unit, uplink.collaboration_id)
            damage.unmark([uplink], self._analyst.blobs)
            received = unit.uplinks_taking_part(collaboration.id)
            is_whole = not any(damage.is_marked(other, self._analyst.blobs) for other in received)
            if is_whole and collaboration.now_in is State.FAILED:
                rounds.start_again(unit, collaboration, self._analyst.clock())
        self._analyst.call_worker(collaboration.id)

    def _close(self, uplink: Uplink, session: UploadSession) -> None:
        session.discard_list()
        with self._lock:
            self._sessions.pop(uplink.id, None)

    def _is_complete(self, uplink: Uplink) -> bool:
        return uplink.receipt is not None and not damage.is_marked(uplink, self._analyst.blobs)

    def _find(self, sender: Identity, upload_id: str) -> Uplink:
        with self._analyst.records.begin() as unit:
            uplink = unit.uplink(upload_id)
        if uplink is None or uplink.party != sender.name or sender.role == "analyst":
            raise NotFoundError("there is no such upload")
        return uplink

    def _status(self, uplink: Uplink, *, created: bool = False) -> UploadStatus:
        layout = _layout(uplink)
        if self._is_complete(uplink):
            return UploadStatus(uplink.id, layout.stream_bytes, layout.stream_bytes, complete=True)
        session = self._session(uplink)
        with session.lock:
            return UploadStatus(
                uplink.id,
                session.offset,
                layout.stream_bytes,
                complete=False,
                created=created,
                begun=session.begun_bytes,
            )

    def _session(self, uplink: Uplink) -> UploadSession:
        """Return the session of an upload. Of those who ask at once after a restart, one rebuilds it."""
        with self._lock:
            session = self._sessions.get(uplink.id)
            if session is not None:
                return session
            under_way = self._rebuilding.get(uplink.id)
            ours = under_way or self._rebuilding.setdefault(uplink.id, Future())
        if under_way is not None:
            return under_way.result()
        try:
            rebuilt = self._rebuild(uplink)
        except BaseException as error:
            with self._lock:
                del self._rebuilding[uplink.id]
            ours.set_exception(error)
            raise
        with self._lock:
            self._sessions[uplink.id] = rebuilt
            del self._rebuilding[uplink.id]
        ours.set_result(rebuilt)
        return rebuilt

    def _rebuild(self, uplink: Uplink) -> UploadSession:
        with self._analyst.records.begin() as unit:
            terms = stored_terms(find(unit, uplink.collaboration_id))
        label = terms.table_schema.label_column
        bounds = RowBounds.of(terms, uplink.party, stored_manifest(uplink).privacy)
        return UploadSession.rebuild(self._analyst.blobs, blob_key(uplink), _layout(uplink), label, bounds)

    def _forget(self, uplink: Uplink) -> None:
        """Drop an upload that the party has replaced by another."""
        with self._lock:
            under_way = self._rebuilding.get(uplink.id)
        if under_way is not None:
            wait([under_way])
        with self._lock:
            known = self._sessions.pop(uplink.id, None)
        session = known or UploadSession(
            self._analyst.blobs, blob_key(uplink), _layout(uplink), None, RowBounds(uplink.party)
        )
        with session.lock:
            session.start_over()
