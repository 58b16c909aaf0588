"""The bytes of an upload under way: chunks that are kept, where the stream goes on, and when all is durable.

Who may send what, and when, is `ingest`'s to decide.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from analyst_server.blobs import Blobs
from analyst_server.services.stored import damaged_key, partial_key
from protocol.arrays import DIGEST_BYTES, ArrayDigest, Chunk, Layout, StreamReader
from protocol.chunk_checks import begun_row_bytes, check_chunk, row_begun_in
from protocol.errors import NotFoundError, OffsetMismatchError, TruncatedError, UploadSupersededError
from protocol.labels import AnyLabel
from protocol.row_bounds import RowBounds, RowTooLongError

log = logging.getLogger(__name__)

LISTED_TOGETHER: Final = 4
"""Digests of so many chunks are listed by one append: what a process that is killed loses at the most."""


@dataclass
class UploadSession:
    """The bytes of an upload under way. Its lock guards every field."""

    blobs: Blobs
    key: str
    """Of the whole blob."""
    layout: Layout
    label: AnyLabel | None
    bounds: RowBounds
    takeovers: int = 0
    """How often the upload had been taken over when this process took it."""
    digests: list[bytes] = field(default_factory=list)
    listed: int = 0
    """How many of them stand in the list, which the next process reads."""
    unchecked: int = 0
    """How many of the first chunks an earlier process has stored: `check_stored` compares them."""
    begun_bytes: int = 0
    """How much of the next chunk is kept, unchecked, from a connection that broke."""
    begun_row: bytes | None = None
    """What is stored of the row that goes on in the next chunk; None: it has to be read."""
    generation: int = 0
    """Of the appends of this process."""
    unsynced_bytes: int = 0
    left_something: bool = False
    """Whether something may lie beside the blob that nobody sees."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def rebuild(
        cls,
        blobs: Blobs,
        key: str,
        layout: Layout,
        label: AnyLabel | None,
        bounds: RowBounds,
        takeovers: int = 0,
    ) -> UploadSession:
        """Return a session with the chunks that an earlier process has listed and stored, unread."""
        part = partial_key(key, takeovers)
        is_whole = blobs.exists(key) and blobs.partial_size(part) is None  # but there is no receipt yet
        has_list = blobs.partial_size(_list_key(part)) is not None
        stored_bytes = layout.payload_bytes if is_whole else blobs.partial_size(part) or 0
        digests = list(_listed(layout, blobs.read_partial(_list_key(part)), stored_bytes)) if has_list else []
        if is_whole and len(digests) < layout.chunk_count:
            digests = []  # nothing is appended to a whole blob, so the upload starts again
        count = len(digests)
        found = cls(blobs, key, layout, label, bounds, takeovers, digests, listed=count, unchecked=count)
        if not is_whole and count < layout.chunk_count:
            slot, kept = layout.slot(count), blobs.partial_size(_begun_key(part, count)) or 0
            found.begun_bytes = kept if kept < slot.stream_end - slot.stream_offset else 0
        return found

    @staticmethod
    def hand_over(blobs: Blobs, key: str, before: int, now: int) -> None:
        """Move what is stored of an upload to where its next process writes: the last one cannot, any more.

        Tries that were cut off may have moved some of it since ``before``.
        """

        def move(name: Callable[[str], str]) -> None:
            for number in range(now, before - 1, -1):
                if blobs.partial_size(name(partial_key(key, number))) is not None:
                    if number != now:
                        blobs.hand_over(name(partial_key(key, number)), name(partial_key(key, now)))
                    break

        move(lambda part: part)
        move(_list_key)
        listed = (blobs.partial_size(_list_key(partial_key(key, now))) or 0) // DIGEST_BYTES
        move(lambda part: _begun_key(part, listed))

    def let_go(self) -> None:
        """Forget what is held back here: another process goes on."""
        self.generation += 1
        for key in (self.part, _list_key(self.part), self._begun_key):
            self.blobs.let_go(key)

    @property
    def part(self) -> str:
        """The key under which it grows."""
        return partial_key(self.key, self.takeovers)

    @property
    def _begun_key(self) -> str:
        return _begun_key(self.part, len(self.digests))

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
        is_whole = self.blobs.partial_size(self.part) is None
        if is_whole and not self.blobs.exists(self.key):
            return  # erased: whoever signs for it finds out
        key, read = (self.key, self.blobs.read) if is_whole else (self.part, self.blobs.read_partial)
        for index in range(self.unchecked):
            slot = self.layout.slot(index)
            stored = read(key, slot.payload_offset, slot.payload_bytes)
            if hashlib.sha256(stored).digest() != self.digests[index]:
                reached = self.offset
                if is_whole:  # nothing is appended to a whole blob
                    self.start_over()
                else:
                    self.generation += 1
                    self.keep_begun(b"")
                    self.begun_row = None
                    del self.digests[index:]
                    self.listed = min(self.listed, index)
                self.unchecked = 0
                raise OffsetMismatchError(self.offset, reached)
        self.unchecked = 0

    def keep(self, chunk: Chunk) -> None:
        """Check a chunk, and store it after the others.

        Raises what `check_values` raises, `NotFoundError` if those were erased, and `RowTooLongError` if a
        row that ends in it is too long: the upload is then abandoned, and another can be begun.
        """
        try:
            begun = self._begun_row(chunk)
            check_chunk(self.layout, chunk, self.label, self.bounds, begun)
            self.keep_begun(b"")
            with self._saying_if_erased():
                self.blobs.append(self.part, chunk.slot.payload_offset, chunk.data)
        except RowTooLongError:
            self.start_over()
            raise
        self.digests.append(chunk.digest)
        if not self.listed or len(self.digests) - self.listed >= LISTED_TOGETHER:
            self._list()  # the first at once: a list that is begun later could be made where all was erased
        self.begun_row = row_begun_in(self.layout, chunk, begun)
        self.unsynced_bytes += len(chunk.data)
        if 0 < self.blobs.holds_back_bytes <= self.unsynced_bytes:
            self.sync()

    def _list(self) -> None:
        """List the digests of the chunks that are stored."""
        if self.listed < len(self.digests):
            new = b"".join(self.digests[self.listed :])
            with self._saying_if_erased():
                self.blobs.append(_list_key(self.part), DIGEST_BYTES * self.listed, new)
            self.listed = len(self.digests)

    @contextmanager
    def _saying_if_erased(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if not self.digests:
                raise  # there was nothing to erase
            error = NotFoundError("what had arrived of this upload was erased: its collaboration has ended")
            error.hint = "`odc status` shows the collaborations that go on"
            raise error from None

    def _begun_row(self, chunk: Chunk) -> bytes:
        """Return what is stored of a chunk's first row."""
        begun = begun_row_bytes(self.layout, chunk)
        if not begun:
            return b""
        if self.begun_row is not None:
            return self.begun_row
        return self.blobs.read_partial(self.part, chunk.slot.payload_offset - begun, begun)

    def keep_begun(self, begun: bytes) -> None:
        """Keep what came of the next chunk in the place of what was kept before."""
        if begun:
            self.blobs.append(self._begun_key, 0, begun)
            if self.blobs.holds_back_bytes:  # else another process would not find it
                self.blobs.sync(self._begun_key)
        elif self.begun_bytes:
            self.blobs.abandon(self._begun_key)
            self.left_something = True
        self.begun_bytes = len(begun)

    def reader_from(self, offset: int) -> StreamReader:
        """Return what reads the stream from an offset on; raises `OffsetMismatchError`."""
        if offset == self.offset:
            self.keep_begun(b"")
            return StreamReader(self.layout, len(self.digests), reuses_room=True)
        if offset != self.offset + self.begun_bytes:
            raise OffsetMismatchError(self.offset, offset)
        try:
            begun = self.blobs.read_partial(self._begun_key)
        except FileNotFoundError:  # a process before has removed it
            self.begun_bytes = 0
            raise OffsetMismatchError(self.offset, offset) from None
        return StreamReader(self.layout, len(self.digests), begun, reuses_room=True)

    def sync(self) -> None:
        """Make what arrived survive a power cut, or start over; raises `OffsetMismatchError` if it did."""
        with suppress(NotFoundError):  # erased: whoever signs for it finds out
            self._list()
        with self._starting_over_if_refused():
            self.blobs.sync(self.part)
            self.blobs.sync(_list_key(self.part))
        self.unsynced_bytes = 0

    def commit(self) -> None:
        """Commit the blob, unless an earlier try has done so; start over as `sync` does.

        Also if there is neither: another disk may have been mounted since the bytes were written.
        """
        size = self.blobs.partial_size(self.part)
        if size is None:
            if not self.blobs.exists(self.key):
                reached = self.offset
                self.start_over()
                raise OffsetMismatchError(self.offset, reached)
            return
        if size != self.layout.payload_bytes:  # another process has written here
            self.start_over()
            raise TruncatedError("stored uplink", self.layout.payload_bytes, size)
        with self._starting_over_if_refused():
            self.blobs.commit(self.part, self.key)

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
        self.left_something = True
        for key in (self.part, _list_key(self.part), self._begun_key):
            self.blobs.abandon(key)
        self.begun_bytes = 0
        self.digests.clear()
        self.listed = 0
        self.unchecked = 0
        self.begun_row = None

    def discard_list(self) -> None:
        """Remove the list of digests, once the blob is complete and signed for, and what else may be left."""
        self.blobs.discard(_list_key(self.part))
        if self.takeovers or self.left_something:
            self.blobs.tidy(self.key, keep=damaged_key(self.key))


class Append:
    """The bytes of one request, from the offset where the upload stood.

    A newer `Append` of the same upload makes `write` raise `UploadSupersededError`, so that bytes of a
    connection that died unnoticed cannot come in between.
    """

    def __init__(
        self,
        session: UploadSession,
        offset: int,
        require_ours: Callable[[UploadSession], None] = lambda _session: None,
    ) -> None:
        self._require_ours = require_ours
        """Raises if another process has taken the upload over."""
        with session.lock, self._saying_if_lost(session):
            self._reader = session.reader_from(offset)
            session.generation += 1
            self._generation = session.generation
        self._session = session

    def write(self, data: bytes | bytearray) -> None:
        """Check and keep the chunks that ``data`` completes."""
        for chunk in self._reader.feed(data):
            with self._session.lock:
                if self._generation != self._session.generation:
                    raise UploadSupersededError("another connection continues this upload")
                with self._saying_if_lost(self._session):
                    self._session.keep(chunk)

    def close(self) -> int:
        """Make what arrived durable, keep what came of the next chunk, and return the offset to go on from.

        Nothing of this request may be acknowledged before it has returned.

        Raises `OffsetMismatchError` if the disk refuses: the upload then stands at zero; or if another
        process goes on with it.
        """
        with self._session.lock, self._saying_if_lost(self._session):
            self._session.sync()
            self._session.begun_row = None  # a row can be long, and uploads that wait are many
            if self._generation == self._session.generation:
                self._session.keep_begun(self._reader.begun)
            # after what was stored, not before: whoever takes over from now on finds it
            self._require_ours(self._session)
            return self._session.offset

    @contextmanager
    def _saying_if_lost(self, session: UploadSession) -> Iterator[None]:
        """Say of stored bytes that are gone whether another process has moved them."""
        try:
            yield
        except (NotFoundError, FileNotFoundError):
            self._require_ours(session)
            raise

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


def _begun_key(key: str, index: int) -> str:
    """Return the key of what came of a chunk; by its number, so that it is taken for no other's."""
    return f"{key}.{index}.begun"


def _list_key(key: str) -> str:
    return key + ".digests"
