"""The index of a blob in S3: which pieces it has (`analyst_server.blobs.s3`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self


@dataclass(frozen=True)
class Index:
    """Which pieces a blob has, in order: their numbers, and how many bytes of each count."""

    run: str
    of: str
    """The key under which its pieces lie."""
    pieces: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return sum(length for _, length in self.pieces)

    def cut(self, offset: int) -> Self:
        """Return what is left of it before an offset."""
        left, kept = offset, []
        for number, length in self.pieces:
            if left <= 0:
                break
            kept.append((number, min(length, left)))
            left -= length
        return replace(self, pieces=tuple(kept))

    def with_piece(self, number: int, length: int) -> Self:
        return replace(self, pieces=(*self.pieces, (number, length)))

    def place(self, number: int) -> str:
        """Return the key of a piece."""
        return f"{self.of}.pieces/{self.run}/{number}"

    def ranges(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the number of each piece that a range meets, and where the range begins and ends in it."""
        at = 0
        for number, length in self.pieces:
            first, last = max(start - at, 0), min(end - at, length)
            if first < last:
                yield number, first, last
            at += length

    def encode(self) -> bytes:
        # an earlier version counts pieces: what it adds has a number that is not drawn again
        following = max((number for number, _ in self.pieces), default=-1) + 1
        return json.dumps({"run": self.run, "of": self.of, "pieces": self.pieces, "next": following}).encode()

    @classmethod
    def decode(cls, data: bytes, key: str) -> Index:
        found = json.loads(data)
        pieces = tuple((number, length) for number, length in found["pieces"])
        return cls(found["run"], found.get("of", key), pieces)  # an earlier version says nothing of it


@dataclass
class Growing:
    """A partial blob with bytes that are held back here."""

    index: Index
    held: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return self.index.size + len(self.held)
