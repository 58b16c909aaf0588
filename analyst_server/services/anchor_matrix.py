"""The matrix of a public anchor: taken from the lead, kept and relayed. Nobody here can open it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from analyst_server.services.analyst import (
    Analyst,
    find,
    find_as_member,
    published_anchor,
    require_lead,
    stored_terms,
)
from analyst_server.store import Unit
from protocol.anchor_matrix import sealed_matrix_bytes
from protocol.arrays import chunks_of
from protocol.errors import (
    AlreadyExistsError,
    LimitExceededError,
    MalformedMessageError,
    OutOfOrderError,
    TruncatedError,
)
from protocol.identity import Identity
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.states import State
from protocol.terms import Terms

_PUBLISH: Final = "publish anchor matrix"


def matrix_key(collaboration_id: str) -> str:
    """Return the key of the sealed matrix."""
    return f"{collaboration_id}/anchor.matrix"


class MatrixUpload:
    """Takes the sealed matrix in pieces; nothing is kept before `finish`."""

    def __init__(self, analyst: Analyst, collaboration_id: str, length: int, *, is_published: bool) -> None:
        self._analyst, self._collaboration_id = analyst, collaboration_id
        self._blobs, self._key = analyst.blobs, matrix_key(collaboration_id)
        self._length, self._received, self._digest = length, 0, hashlib.sha256()
        self._is_published = is_published
        if not is_published:
            self._blobs.discard(self._key)

    def write(self, piece: bytes) -> None:
        """Take the next piece.

        Raises `LimitExceededError` once there are too many bytes, and `OutOfOrderError` once the
        collaboration has ended.
        """
        offset = self._received
        self._received += len(piece)
        if self._received > self._length:
            raise LimitExceededError("anchor matrix in bytes", self._length, self._received)
        self._digest.update(piece)
        if not self._is_published:
            with self._telling_an_end():
                self._blobs.append(self._key, offset, piece)

    def finish(self) -> None:
        """Keep the matrix, or acknowledge the same one again once members may have fetched it.

        Raises
        ------
        TruncatedError
            If bytes are missing.
        AlreadyExistsError
            If another matrix is published.
        OutOfOrderError
            If the anchor was published, or the collaboration ended, while the bytes came.
        """
        if self._received != self._length:
            raise TruncatedError("anchor matrix", self._length, self._received)
        if not self._is_published:
            with self._telling_an_end():
                self._blobs.sync(self._key)
            with self._analyst.records.begin(write=True) as unit:  # nobody publishes another meanwhile
                self._require_enrolling(unit)
                self._blobs.commit(self._key)
        elif hashlib.sha256(self._blobs.read(self._key)).digest() != self._digest.digest():
            raise AlreadyExistsError("the anchor of this collaboration is already published")

    def _require_enrolling(self, unit: Unit) -> None:
        state = find(unit, self._collaboration_id).now_in
        if state is not State.ENROLLING:
            raise OutOfOrderError(state, _PUBLISH)

    @contextmanager
    def _telling_an_end(self) -> Iterator[None]:
        """Say that the collaboration has ended, if that is why what has come is no longer there."""
        try:
            yield
        except FileNotFoundError:
            with self._analyst.records.begin() as unit:
                self._require_enrolling(unit)
            raise


def begin(analyst: Analyst, sender: Identity, collaboration_id: str) -> MatrixUpload:
    """Begin to take the matrix from the lead.

    Raises
    ------
    NotPermittedError
        If the sender is not the lead.
    MalformedMessageError
        If the terms have no such matrix.
    OutOfOrderError
        If the collaboration has ended.
    """
    with analyst.records.begin(write=True) as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender)
        terms = stored_terms(collaboration)
        require_lead(sender, terms)
        _check_public(terms)
        is_published = published_anchor(collaboration, member) is not None
        if not is_published and collaboration.now_in is not State.ENROLLING:
            raise OutOfOrderError(collaboration.state, _PUBLISH)
    return MatrixUpload(analyst, collaboration_id, sealed_matrix_bytes(terms), is_published=is_published)


def fetch(analyst: Analyst, sender: Identity, collaboration_id: str) -> tuple[int, Iterator[bytes]]:
    """Return the length of the sealed matrix in bytes, and its pieces, once the anchor is published."""
    with analyst.records.begin() as unit:
        collaboration, member = find_as_member(unit, collaboration_id, sender)
        _check_public(stored_terms(collaboration))
        if published_anchor(collaboration, member) is None:
            raise OutOfOrderError(collaboration.state, "fetch anchor matrix")
    sealed = analyst.blobs.read(matrix_key(collaboration_id))
    # copied here, in a thread: the event loop must not wait for pages of a disk
    return len(sealed), (bytes(piece) for piece in chunks_of(sealed, DEFAULT_CHUNK_BYTES))


def _check_public(terms: Terms) -> None:
    if not terms.anchor_matrix_bytes:
        raise MalformedMessageError("matrix", "these terms have no public anchor")
