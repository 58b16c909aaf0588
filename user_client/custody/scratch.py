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
_BEYOND: Final = _COUNTER_BYTES - 1
"""What the library wants to have room for beyond what it writes."""
_NUMBER_BYTES: Final = 8
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
        self._using = threading.Lock()
        self._room = bytearray()
        """For the ciphertext of one block: new memory for each would cost more than to encrypt it."""

    def append(self, rows: Matrix64) -> Block:
        start, shape, size = self._bytes, rows.shape, rows.nbytes
        with self._using:
            self._crypt(np.ascontiguousarray(rows).data.cast("B"), start, self._room_for(size + _BEYOND))
            left = self._room_for(size)
            self._file.seek(start)
            while left:
                left = left[self._file.write(left) :]
        self._bytes += -(-size // _COUNTER_BYTES) * _COUNTER_BYTES
        return Block(
            lambda: self._read(start, size).reshape(shape),
            len(rows),
            load_some=lambda numbers: self._read_some(start, shape, numbers),
        )

    def _read(self, start: int, count: int) -> Matrix64:
        """Return the numbers in so many bytes at an offset, a multiple of the counter's size."""
        found = np.empty(count + _BEYOND, np.uint8)
        with self._using:
            left = ciphertext = self._room_for(count)
            self._file.seek(start)
            while left:
                taken = self._file.readinto(left)
                if not taken:
                    raise OSError("a temporary file of this process has lost what was written to it")
                left = left[taken:]
            self._crypt(ciphertext, start, found.data)
        return found[:count].view(np.float64)

    def _read_some(self, start: int, shape: tuple[int, ...], numbers: Numbers) -> Matrix64:
        width = shape[1]
        if len(numbers) * _ONE_BY_ONE > shape[0]:
            return self._read(start, shape[0] * width * _NUMBER_BYTES).reshape(shape)[numbers]
        found = np.empty((len(numbers), width))
        for row, number in zip(found, numbers.tolist(), strict=True):
            place = start + number * width * _NUMBER_BYTES
            before = place % _COUNTER_BYTES
            row[:] = self._read(place - before, before + width * _NUMBER_BYTES)[before // _NUMBER_BYTES :]
        return found

    def _room_for(self, count: int) -> memoryview:
        if len(self._room) < count:
            self._room = bytearray(count)
        return memoryview(self._room)[:count]

    def _crypt(self, data: memoryview, start: int, out: memoryview) -> None:
        """Encrypt or decrypt what stands at an offset, a multiple of the counter's size."""
        counter = (start // _COUNTER_BYTES).to_bytes(_COUNTER_BYTES, "big")
        Cipher(self._key, CTR(counter)).encryptor().update_into(data, out)
