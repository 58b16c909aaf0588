"""Which process writes an upload, and the sessions of those that this one writes.

It is the process that has taken the upload over last, by a number in the records that is part of the names
of its partial blobs (docs/adr/0072). First the number grows; then what arrived is moved to the new names, so
that the process before finds nothing to write to. None acknowledges a byte before it has seen, after it was
stored, that the number is still its own: so all that is acknowledged was there to be moved. A session is a
cache: whoever has none, or an old one, takes the upload over and builds one from what is stored.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from contextlib import suppress

from analyst_server.services.analyst import Analyst, find, stored_terms
from analyst_server.services.stored import blob_key, damaged_key, stored_manifest
from analyst_server.services.upload_session import UploadSession
from analyst_server.store import Unit, Uplink
from protocol.arrays import Layout
from protocol.errors import NotFoundError, OffsetMismatchError
from protocol.row_bounds import RowBounds


def layout_of(uplink: Uplink) -> Layout:
    manifest = stored_manifest(uplink)
    return Layout(manifest.arrays, manifest.chunk_bytes)


def locked(unit: Unit, upload_id: str) -> Uplink:
    """Return the row of an upload; if this transaction writes, no other one changes it before its end.

    Raises `NotFoundError`.
    """
    row = unit.uplink(upload_id)
    if row is None:
        raise NotFoundError("there is no such upload")
    return row


class CompletedMeanwhileError(Exception):
    """An upload was signed for since its row was read; never shown to anybody."""


class UploadSessions:
    """The sessions of one process."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self._sessions: dict[str, UploadSession] = {}
        self._rebuilding: dict[str, Future[UploadSession]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<UploadSessions, {len(self._sessions)} here>"

    def of(self, uplink: Uplink, *, is_new: bool = False) -> UploadSession:
        """Return the session of an upload; take it over if this process has none, or an old one.

        Of those who ask at once after a restart, one does so. Nobody else knows of an upload that ``is_new``.

        Raises
        ------
        CompletedMeanwhileError
            If another process has signed for it since its row was read: read it again.
        OffsetMismatchError
            If another process takes it over at the same time.
        """
        with self._lock:
            session = self._current(uplink)
            if session is not None:
                return session
            stale = self._sessions.pop(uplink.id, None)
            under_way = self._rebuilding.get(uplink.id)
            ours = under_way or self._rebuilding.setdefault(uplink.id, Future())
        if under_way is not None:
            return under_way.result()
        try:
            if stale is not None:
                with stale.lock:
                    stale.let_go()
            rebuilt = self._rebuild(uplink, 0 if is_new else self._take_over(uplink))
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

    def seen(self, uplink: Uplink) -> UploadSession:
        """Return how an upload stands, whoever writes it: only to look at."""
        while (session := self._current(uplink)) is None:
            found: UploadSession | None = None
            with suppress(FileNotFoundError):
                found = self._stored(uplink, uplink.stored_as)
            again = self._read(uplink.id)
            if found is not None and again.stored_as == uplink.stored_as:
                return found
            uplink = again  # it was moved while we looked, or is being moved
        return session

    def _current(self, uplink: Uplink) -> UploadSession | None:
        """Return the session of this process, unless another one has taken the upload over since."""
        session = self._sessions.get(uplink.id)
        return session if session is not None and session.takeovers >= uplink.takeovers else None

    def require_ours(self, session: UploadSession) -> None:
        """Raise `OffsetMismatchError` if another process has taken the upload of a session over."""
        if self._read(_upload_id(session)).takeovers != session.takeovers:
            raise self.lost(session)

    def lost(self, session: UploadSession) -> OffsetMismatchError:
        """Forget a session whose upload another process has taken over; return what its sender is told."""
        reached = session.offset
        session.let_go()
        self.drop(session)
        row = self._read(_upload_id(session))
        stands = layout_of(row).stream_bytes if row.receipt is not None else self.seen(row).offset
        return OffsetMismatchError(stands, reached)

    def drop(self, session: UploadSession) -> None:
        """Forget a session, unless there is a newer one of its upload."""
        upload_id = _upload_id(session)
        with self._lock:
            if self._sessions.get(upload_id) is session:
                del self._sessions[upload_id]

    def forget(self, uplink: Uplink) -> None:
        """Remove what is stored of an upload that its party has replaced: its number has grown by one."""
        with self._lock:
            under_way = self._rebuilding.get(uplink.id)
        if under_way is not None:
            wait([under_way])
        with self._lock:
            known = self._sessions.pop(uplink.id, None)
        written = self._empty(uplink, uplink.stored_as)
        for session in (written,) if known is None else (known, written):
            with session.lock:
                session.start_over()
        key = blob_key(uplink)
        self._analyst.blobs.tidy(key, keep=damaged_key(key))

    def _take_over(self, uplink: Uplink) -> int:
        """Let this process alone write an upload from now on; return how often it was taken over."""
        with self._analyst.records.begin(write=True) as unit:
            row = locked(unit, uplink.id)
            if row.receipt is not None and uplink.receipt is None:
                raise CompletedMeanwhileError
            row.takeovers += 1
            ours = row.takeovers
        # in a transaction of its own: from here on the process before acknowledges nothing more
        with self._analyst.records.begin(write=True) as unit:
            row = locked(unit, uplink.id)
            if row.takeovers == ours:
                UploadSession.hand_over(self._analyst.blobs, blob_key(uplink), row.stored_as, ours)
                row.stored_as = ours
                return ours
        stands = self.seen(self._read(uplink.id)).offset
        raise OffsetMismatchError(stands, stands)

    def _read(self, upload_id: str) -> Uplink:
        with self._analyst.records.begin() as unit:
            return locked(unit, upload_id)

    def _rebuild(self, uplink: Uplink, takeovers: int) -> UploadSession:
        with self._analyst.records.begin() as unit:
            terms = stored_terms(find(unit, uplink.collaboration_id))
        bounds = RowBounds.of(terms, uplink.party, stored_manifest(uplink).privacy)
        session = self._stored(uplink, takeovers)
        session.label, session.bounds = terms.table_schema.label_column, bounds
        return session

    def _stored(self, uplink: Uplink, takeovers: int) -> UploadSession:
        blobs, bounds = self._analyst.blobs, RowBounds(uplink.party)
        return UploadSession.rebuild(blobs, blob_key(uplink), layout_of(uplink), None, bounds, takeovers)

    def _empty(self, uplink: Uplink, takeovers: int) -> UploadSession:
        blobs, bounds = self._analyst.blobs, RowBounds(uplink.party)
        return UploadSession(blobs, blob_key(uplink), layout_of(uplink), None, bounds, takeovers)


def _upload_id(session: UploadSession) -> str:
    return session.key.rpartition("/")[2]
