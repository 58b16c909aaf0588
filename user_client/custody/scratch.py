"""Rows that are too many for memory, in a file that nobody else can read.

The file has no name and is encrypted under a key that this process alone has, and only in memory. So no
readable row reaches the disk, and nothing is left of it when the process ends, however it ends.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from user_client.rows import Block, Matrix64, Numbers, Rows

IN_MEMORY_BYTES: Final = 8 * 2**20
"""Rows of a table up to this size stay in memory."""
_KEY_BYTES: Final = 16
_COUNTER_BYTES: Final = 16
_ONE_BY_ONE: Final = 10
"""How many times as long a row takes that is read alone as one that is read with its block."""


class Scratch:
    """Keeps blocks of rows for as long as somebody may read them."""

    def __init__(self, directory: Path, *, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        """Keep what exceeds ``in_memory_bytes`` on the disk of ``directory``."""
        self._directory = directory
        self._left_bytes = in_memory_bytes
        self._file: _EncryptedFile | None = None

    def keep(self, blocks: Iterable[Matrix64], width: int) -> Rows:
        """Keep blocks of rows, each (k, ``width``), and return them; raises `OSError` if the disk is full."""
        return Rows([self.keep_one(block) for block in blocks if len(block)], width)

    def keep_one(self, rows: Matrix64) -> Block:
        """Keep one block, which has rows."""
        if rows.nbytes <= self._left_bytes:
            self._left_bytes -= rows.nbytes
            return Block(lambda: rows, len(rows))
        if self._file is None:
            self._file = _EncryptedFile(self._directory)
        return self._file.append(rows)


class _EncryptedFile:
    """Blocks under AES-128 in counter mode; each begins at a counter of its own."""

    def __init__(self, directory: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=directory, prefix=".rows-", buffering=0)  # noqa: SIM115  # see below
        weakref.finalize(self, self._file.close)  # once nobody has one of its blocks any more
        self._key = AES(secrets.token_bytes(_KEY_BYTES))
        self._bytes = 0
        self._moving = threading.Lock()

    def append(self, rows: Matrix64) -> Block:
        start, shape = self._bytes, rows.shape
        left = memoryview(self._crypted(np.ascontiguousarray(rows).data.cast("B"), start))
        with self._moving:
            self._file.seek(start)
            while left:
                left = left[self._file.write(left) :]
        self._bytes += -(-rows.nbytes // _COUNTER_BYTES) * _COUNTER_BYTES
        return Block(
            lambda: self._read(start, shape),
            len(rows),
            load_some=lambda numbers: self._read_some(start, shape, numbers),
        )

    def _read(self, start: int, shape: tuple[int, ...]) -> Matrix64:
        found = np.empty(shape)
        view = found.data.cast("B")
        self._fill(view, start)
        return np.frombuffer(self._crypted(view, start)).reshape(shape)

    def _read_some(self, start: int, shape: tuple[int, ...], numbers: Numbers) -> Matrix64:
        if len(numbers) * _ONE_BY_ONE > shape[0]:
            return self._read(start, shape)[numbers]
        row_bytes, found = shape[1] * np.dtype(np.float64).itemsize, bytearray()
        for number in numbers.tolist():
            place = start + number * row_bytes
            before = place % _COUNTER_BYTES
            data = memoryview(bytearray(before + row_bytes))
            self._fill(data, place - before)
            found += self._crypted(data, place - before)[before:]
        return np.frombuffer(found).reshape(len(numbers), shape[1])

    def _fill(self, left: memoryview, start: int) -> None:
        """Read what stands at an offset, as it is in the file."""
        with self._moving:
            self._file.seek(start)
            while left:
                count = self._file.readinto(left)
                if not count:
                    raise OSError("a temporary file of this process has lost what was written to it")
                left = left[count:]

    def _crypted(self, data: memoryview, start: int) -> bytes:
        """Encrypt or decrypt what stands at an offset, a multiple of the counter's size."""
        counter = (start // _COUNTER_BYTES).to_bytes(_COUNTER_BYTES, "big")
        return Cipher(self._key, CTR(counter)).encryptor().update(data)
