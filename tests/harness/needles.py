"""Looks for many byte patterns at once, in files and in the memory of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_BLOCK_BYTES = 8 * 2**20
SHORTEST_BYTES = 12
"""Shorter patterns turn up by chance."""


class Needles:
    """Named byte patterns to look for, each with something random about its middle.

    Four bytes from the middle of each pattern are looked up in two tables, at every offset; what is
    left is compared in full. So a hundred patterns cost little more than one.
    """

    def __init__(self, patterns: Mapping[str, bytes]) -> None:
        self.patterns = dict(patterns)
        for name, pattern in self.patterns.items():
            assert len(pattern) >= SHORTEST_BYTES, name
        self._tables = np.zeros((2, 2**16), dtype=np.bool_)
        self._by_key: dict[bytes, list[str]] = {}
        for name, pattern in self.patterns.items():
            key = pattern[self._middle(pattern) :][:4]
            self._by_key.setdefault(key, []).append(name)
            for table, part in zip(self._tables, np.frombuffer(key, "<u2"), strict=True):
                table[part] = True
        self.overlap = max(map(len, self.patterns.values()))

    @staticmethod
    def _middle(pattern: bytes) -> int:
        return len(pattern) // 2

    def found_in(self, data: bytes) -> set[str]:
        """Return the names of the patterns that occur in ``data``."""
        found = set()
        for start in (0, 1):
            words = np.frombuffer(data, "<u2", count=(len(data) - start) // 2, offset=start)
            for index in self._candidates(words):
                at = start + 2 * int(index)
                for name in self._by_key.get(data[at : at + 4], ()):
                    pattern = self.patterns[name]
                    begin = at - self._middle(pattern)
                    if begin >= 0 and data[begin : begin + len(pattern)] == pattern:
                        found.add(name)
        return found

    def _candidates(self, words: NDArray[np.uint16]) -> NDArray[np.intp]:
        first = np.flatnonzero(self._tables[0][words[:-1]])
        return np.asarray(first[self._tables[1][words[first + 1]]])

    def found_in_all(self, blocks: Iterator[bytes]) -> set[str]:
        """Return the names of the patterns that occur in any block."""
        return set().union(*map(self.found_in, blocks))


def blocks_of_files(directory: Path, overlap: int) -> Iterator[bytes]:
    """Yield the content and the name of every file below a directory."""
    for path in sorted(directory.rglob("*")):
        yield str(path).encode()
        if path.is_file():
            data = path.read_bytes()
            for start in range(0, len(data), _BLOCK_BYTES):
                yield data[start : start + _BLOCK_BYTES + overlap]


def blocks_of_memory(pid: int, overlap: int) -> Iterator[bytes]:
    """Yield all memory a process can read; raises `PermissionError` where the system forbids it."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            addresses, rights, *rest = line.split(maxsplit=5)
            if "r" not in rights or rest[-1].startswith("[v"):  # the kernel's own pages
                continue
            start, end = (int(text, 16) for text in addresses.split("-"))
            for at in range(start, end, _BLOCK_BYTES):
                try:
                    memory.seek(at)
                    yield memory.read(min(_BLOCK_BYTES + overlap, end - at))
                except OSError:  # gone since we read the map, or behind the end of its file
                    continue


def of_matrix(name: str, matrix: NDArray[np.float64]) -> dict[str, bytes]:
    """Patterns of several consecutive entries of each row and column, in both precisions."""
    found = {}
    for way, lines in (("row", matrix), ("column", matrix.T)):
        for index, entries in enumerate(lines):
            found[f"{name} {way} {index} f8"] = entries[:3].astype("<f8").tobytes()
            found[f"{name} {way} {index} f4"] = entries[:4].astype("<f4").tobytes()
    return found
