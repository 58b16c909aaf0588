"""One upload on the disk: which chunks are there, and how more are added.

A chunk counts once it has its sender's digest and lies in the partial blob; beside the blob stands a
list of those digests, so that an upload can go on after a crash of either side and the digests of
whole arrays need no second pass. What a session holds in memory is only that: it can be rebuilt from
the disk at any time.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from analyst_server.store import DirectoryBlobs
from protocol.arrays import DIGEST_BYTES, ArrayDigest, Chunk, Layout, StreamReader, check_values
from protocol.errors import NotFoundError, OffsetMismatchError, TruncatedError, UploadSupersededError

_LABELS = 2
"""Place of the labels among the arrays of an uplink."""


@dataclass
class UploadSession:
    """An upload in progress. Its lock guards every field."""

    blobs: DirectoryBlobs
    key: str
    layout: Layout
    classes: int
    digests: list[bytes] = field(default_factory=list)
    generation: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def rebuild(cls, blobs: DirectoryBlobs, key: str, layout: Layout, classes: int) -> UploadSession:
        """Find the chunks that lie on the disk as their digests say; the rest comes again."""
        whole_but_unsigned = blobs.exists(key) and not blobs.has_partial(key)
        data_path = blobs.path(key) if whole_but_unsigned else blobs.partial_path(key)
        digests = list(_intact_chunks(layout, data_path, blobs.partial_path(_list_key(key))))
        if whole_but_unsigned and len(digests) < layout.chunk_count:
            digests = []  # a whole blob is not appended to: it comes again from the start
        return cls(blobs, key, layout, classes, digests)

    @property
    def offset(self) -> int:
        """Where the stream goes on: always at the end of a chunk."""
        return self.layout.stream_offset(len(self.digests))

    def array_digests(self) -> list[bytes]:
        """Return the digest of each array, from those of its chunks."""
        running = [ArrayDigest() for _ in self.layout.specs]
        for index, chunk_digest in enumerate(self.digests):
            running[self.layout.slot(index).array].update(chunk_digest)
        return [array.digest() for array in running]

    def keep(self, chunk: Chunk) -> None:
        """Write a checked chunk behind the others; raises `NotFoundError` if those were erased."""
        if self.digests and not self.blobs.has_partial(self.key):
            error = NotFoundError("what had arrived of this upload was erased: its collaboration has ended")
            error.hint = "`odc status` shows the collaborations that go on"
            raise error
        with self.blobs.append_partial(self.key, chunk.slot.payload_offset) as file:
            file.write(chunk.data)
        with self.blobs.append_partial(_list_key(self.key), DIGEST_BYTES * len(self.digests)) as file:
            file.write(chunk.digest)
        self.digests.append(chunk.digest)

    def sync(self) -> None:
        """Make what arrived survive a power cut."""
        self.blobs.sync_partial(self.key)
        self.blobs.sync_partial(_list_key(self.key))

    def commit(self) -> None:
        """Give the blob its final name, if an earlier try has not done so."""
        if self.blobs.has_partial(self.key):
            size = self.blobs.partial_path(self.key).stat().st_size
            if size != self.layout.payload_bytes:  # another process has written here
                self.start_over()
                raise TruncatedError("uplink on the disk", self.layout.payload_bytes, size)
            self.blobs.commit(self.key)

    def start_over(self) -> None:
        """Forget what arrived; appends under way are refused from now on."""
        self.generation += 1
        self.digests.clear()
        self.blobs.discard_partial(self.key)
        self.discard_list()

    def discard_list(self) -> None:
        """Remove the list of digests: the blob is complete and signed for."""
        self.blobs.discard_partial(_list_key(self.key))


class Append:
    """One request's worth of bytes, from the offset where the upload stood.

    A newer `Append` of the same upload makes `write` raise `UploadSupersededError`, so that a
    connection which died unnoticed cannot get between.
    """

    def __init__(self, session: UploadSession, offset: int) -> None:
        with session.lock:
            if offset != session.offset:
                raise OffsetMismatchError(session.offset, offset)
            session.generation += 1
            self._generation = session.generation
            self._reader = StreamReader(session.layout, len(session.digests))
        self._session = session

    def write(self, data: bytes) -> None:
        """Check and keep the chunks that ``data`` completes."""
        for chunk in self._reader.feed(data):
            is_label = chunk.slot.array == _LABELS
            check_values(self._session.layout, chunk, self._session.classes if is_label else None)
            with self._session.lock:
                if self._generation != self._session.generation:
                    raise UploadSupersededError("another connection continues this upload")
                self._session.keep(chunk)

    def close(self) -> int:
        """Make what arrived durable and return the offset to go on from."""
        with self._session.lock:
            self._session.sync()
            return self._session.offset


def _intact_chunks(layout: Layout, data_path: Path, list_path: Path) -> Iterator[bytes]:
    """Yield the listed digests of the chunks that lie on the disk as they say, up to the
    first that does not.
    """
    if not (data_path.exists() and list_path.exists()):
        return
    listed = list_path.read_bytes()
    with data_path.open("rb") as data:
        for index in range(min(layout.chunk_count, len(listed) // DIGEST_BYTES)):
            claimed = listed[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)]
            if hashlib.sha256(data.read(layout.slot(index).payload_bytes)).digest() != claimed:
                return
            yield claimed


def _list_key(key: str) -> str:
    return key + ".digests"
