"""The bytes of an upload under way: chunks that are kept, where the stream goes on, and when all is durable.

Who may send what, and when, is `ingest`'s to decide.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from analyst_server.store import Blobs
from protocol.arrays import (
    DIGEST_BYTES,
    ArrayDigest,
    Chunk,
    Layout,
    StreamReader,
    begun_row_bytes,
    check_rows,
    check_values,
    row_begun_in,
)
from protocol.errors import NotFoundError, OffsetMismatchError, TruncatedError, UploadSupersededError
from protocol.row_bounds import RowBounds, RowTooLongError
from protocol.table_schema import AnyLabel

log = logging.getLogger(__name__)


@dataclass
class UploadSession:
    """The bytes of an upload under way. Its lock guards every field."""

    blobs: Blobs
    key: str
    layout: Layout
    label: AnyLabel | None
    bounds: RowBounds
    digests: list[bytes] = field(default_factory=list)
    unchecked: int = 0
    """How many of the first chunks an earlier process has stored: `check_stored` compares them."""
    begun_bytes: int = 0
    """How much of the next chunk is kept, unchecked, from a connection that broke."""
    begun_row: bytes | None = None
    """What is stored of the row that goes on in the next chunk; None: it has to be read."""
    generation: int = 0
    unsynced_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def rebuild(
        cls, blobs: Blobs, key: str, layout: Layout, label: AnyLabel, bounds: RowBounds
    ) -> UploadSession:
        """Return a session with the chunks that an earlier process has listed and stored, unread."""
        is_whole = blobs.exists(key) and blobs.partial_size(key) is None  # but there is no receipt yet
        has_list = blobs.partial_size(_list_key(key)) is not None
        stored_bytes = layout.payload_bytes if is_whole else blobs.partial_size(key) or 0
        digests = list(_listed(layout, blobs.read_partial(_list_key(key)), stored_bytes)) if has_list else []
        if is_whole and len(digests) < layout.chunk_count:
            digests = []  # nothing is appended to a whole blob, so the upload starts again
        found = cls(blobs, key, layout, label, bounds, digests, unchecked=len(digests))
        if not is_whole and len(digests) < layout.chunk_count:
            slot, kept = layout.slot(len(digests)), blobs.partial_size(_begun_key(key)) or 0
            found.begun_bytes = kept if kept < slot.stream_end - slot.stream_offset else 0
        return found

    @property
    def offset(self) -> int:
        """Where the stream goes on: at the end of a chunk, or ``begun_bytes`` later."""
        return self.layout.stream_offset(len(self.digests))

    def array_digests(self) -> list[bytes]:
        """Return the digest of each array, from those of its chunks."""
        running = [ArrayDigest() for _ in self.layout.specs]
        for index, chunk_digest in enumerate(self.digests):
            running[self.layout.slot(index).array].update(chunk_digest)
        return [array.digest() for array in running]

    def check_stored(self) -> None:
        """Compare what an earlier process has stored with its digests, before it is signed for.

        Raises `OffsetMismatchError` if a chunk differs; the upload goes on there.
        """
        is_whole = self.blobs.partial_size(self.key) is None
        if is_whole and not self.blobs.exists(self.key):
            return  # erased: whoever signs for it finds out
        read = self.blobs.read if is_whole else self.blobs.read_partial
        for index in range(self.unchecked):
            slot = self.layout.slot(index)
            stored = read(self.key, slot.payload_offset, slot.payload_bytes)
            if hashlib.sha256(stored).digest() != self.digests[index]:
                reached = self.offset
                if is_whole:  # nothing is appended to a whole blob
                    self.start_over()
                else:
                    self.generation += 1
                    self.keep_begun(b"")
                    self.begun_row = None
                    del self.digests[index:]
                self.unchecked = 0
                raise OffsetMismatchError(self.offset, reached)
        self.unchecked = 0

    def keep(self, chunk: Chunk) -> None:
        """Store a checked chunk after the others.

        Raises `NotFoundError` if those were erased, and `RowTooLongError` if a row that ends in it is too
        long: the upload is then abandoned, and another can be begun.
        """
        try:
            begun = self._begun_row(chunk)
            check_rows(self.layout, chunk, self.bounds, begun)
            self.blobs.append(self.key, chunk.slot.payload_offset, chunk.data)
            self.blobs.append(_list_key(self.key), DIGEST_BYTES * len(self.digests), chunk.digest)
        except RowTooLongError:
            self.start_over()
            raise
        except FileNotFoundError:
            if not self.digests:
                raise  # there was nothing to erase
            error = NotFoundError("what had arrived of this upload was erased: its collaboration has ended")
            error.hint = "`odc status` shows the collaborations that go on"
            raise error from None
        self.digests.append(chunk.digest)
        self.begun_row = row_begun_in(self.layout, chunk, begun)
        self.keep_begun(b"")
        self.unsynced_bytes += len(chunk.data)
        if 0 < self.blobs.holds_back_bytes <= self.unsynced_bytes:
            self.sync()

    def _begun_row(self, chunk: Chunk) -> bytes:
        """Return what is stored of a chunk's first row."""
        begun = begun_row_bytes(self.layout, chunk)
        if not begun:
            return b""
        if self.begun_row is not None:
            return self.begun_row
        return self.blobs.read_partial(self.key, chunk.slot.payload_offset - begun, begun)

    def keep_begun(self, begun: bytes) -> None:
        """Keep what came of the next chunk in the place of what was kept before."""
        if begun:
            self.blobs.append(_begun_key(self.key), 0, begun)
        elif self.begun_bytes:
            self.blobs.discard(_begun_key(self.key))
        self.begun_bytes = len(begun)

    def reader_from(self, offset: int) -> StreamReader:
        """Return what reads the stream from an offset on; raises `OffsetMismatchError`."""
        if offset == self.offset:
            self.keep_begun(b"")
            return StreamReader(self.layout, len(self.digests), reuses_room=True)
        if offset != self.offset + self.begun_bytes:
            raise OffsetMismatchError(self.offset, offset)
        begun = self.blobs.read_partial(_begun_key(self.key))
        return StreamReader(self.layout, len(self.digests), begun, reuses_room=True)

    def sync(self) -> None:
        """Make what arrived survive a power cut, or start over; raises `OffsetMismatchError` if it did."""
        with self._starting_over_if_refused():
            self.blobs.sync(self.key)
            self.blobs.sync(_list_key(self.key))
        self.unsynced_bytes = 0

    def commit(self) -> None:
        """Commit the blob, unless an earlier try has done so; start over as `sync` does."""
        size = self.blobs.partial_size(self.key)
        if size is None:
            return
        if size != self.layout.payload_bytes:  # another process has written here
            self.start_over()
            raise TruncatedError("stored uplink", self.layout.payload_bytes, size)
        with self._starting_over_if_refused():
            self.blobs.commit(self.key)

    @contextmanager
    def _starting_over_if_refused(self) -> Iterator[None]:
        """Start over if the disk does not make bytes durable, and raise where the stream goes on then.

        After a failed fsync the system may have dropped what it could not write, and the next fsync of the
        same file succeeds: what arrived before it cannot be signed for.
        """
        reached = self.offset
        try:
            yield
        except OSError as error:
            log.error("%s: starts again, the disk refused to keep what had arrived: %s", self.key, error)
            self.start_over()
            raise OffsetMismatchError(self.offset, reached) from error

    def start_over(self) -> None:
        """Forget what arrived; appends under way are refused from now on."""
        self.generation += 1
        self.digests.clear()
        self.unchecked = 0
        self.begun_row = None
        self.blobs.discard(self.key)
        self.discard_list()

    def discard_list(self) -> None:
        """Remove the list of digests, once the blob is complete and signed for."""
        self.blobs.discard(_list_key(self.key))
        self.blobs.discard(_begun_key(self.key))
        self.begun_bytes = 0


class Append:
    """The bytes of one request, from the offset where the upload stood.

    A newer `Append` of the same upload makes `write` raise `UploadSupersededError`, so that bytes of a
    connection that died unnoticed cannot come in between.
    """

    def __init__(self, session: UploadSession, offset: int) -> None:
        with session.lock:
            self._reader = session.reader_from(offset)
            session.generation += 1
            self._generation = session.generation
        self._session = session

    def write(self, data: bytes | bytearray) -> None:
        """Check and keep the chunks that ``data`` completes."""
        for chunk in self._reader.feed(data):
            check_values(self._session.layout, chunk, self._session.label)
            with self._session.lock:
                if self._generation != self._session.generation:
                    raise UploadSupersededError("another connection continues this upload")
                self._session.keep(chunk)

    def close(self) -> int:
        """Make what arrived durable, keep what came of the next chunk, and return the offset to go on from.

        Raises `OffsetMismatchError` if the disk refuses; the upload then stands at zero.
        """
        with self._session.lock:
            self._session.sync()
            self._session.begun_row = None  # a row can be long, and uploads that wait are many
            if self._generation == self._session.generation:
                self._session.keep_begun(self._reader.begun)
            return self._session.offset

    @property
    def begun_bytes(self) -> int:
        """How many bytes of the next chunk are kept, once this is closed."""
        return self._session.begun_bytes


def _listed(layout: Layout, listed: bytes, stored_bytes: int) -> Iterator[bytes]:
    """Yield the listed digests up to the first whose chunk is not stored to its end."""
    for index in range(min(layout.chunk_count, len(listed) // DIGEST_BYTES)):
        slot = layout.slot(index)
        if slot.payload_offset + slot.payload_bytes > stored_bytes:
            return
        yield listed[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)]


def _begun_key(key: str) -> str:
    return key + ".begun"


def _list_key(key: str) -> str:
    return key + ".digests"
