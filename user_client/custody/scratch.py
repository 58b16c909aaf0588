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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from user_client.rows import Block, Matrix64, Numbers, Rows

Float = type[np.float64] | type[np.float32]
IN_MEMORY_BYTES: Final = 8 * 2**20
"""Rows of a table up to this size stay in memory."""
_KEY_BYTES: Final = 16
_COUNTER_BYTES: Final = 16
_BEYOND: Final = _COUNTER_BYTES - 1
"""What the library wants to have room for beyond what it writes."""
_ONE_BY_ONE: Final = 10
"""How many times as long a row takes that is read alone as one that is read with its block."""


class Scratch:
    """Keeps blocks of rows for as long as somebody may read them."""

    def __init__(self, directory: Path, *, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        """Keep what exceeds ``in_memory_bytes`` on the disk of ``directory``."""
        self._directory = directory
        self._left_bytes = in_memory_bytes
        self._file: _EncryptedFile | None = None

    def keep(self, blocks: Iterable[Matrix64], width: int, dtype: Float = np.float64) -> Rows:
        """Keep blocks of rows, each (k, ``width``), and return them.

        Parameters
        ----------
        dtype : numpy.float64 or numpy.float32
            What their numbers are on the disk. Those that stay in memory lose no digit.

        Raises
        ------
        OSError
            If the disk is full.
        """
        kept = []
        for block in blocks:
            if len(block):
                kept.append(self.keep_one(block, dtype))
            del block  # it may be all that holds a part of a table, while the next one is read
        return Rows(kept, width)

    def keep_one(self, rows: Matrix64, dtype: Float = np.float64) -> Block:
        """Keep one block, which has rows."""
        if rows.nbytes <= self._left_bytes:
            self._left_bytes -= rows.nbytes
            return Block(lambda: rows, len(rows))
        if self._file is None:
            self._file = _EncryptedFile(self._directory)
        return self._file.append(np.ascontiguousarray(rows, dtype))


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

    def append(self, rows: NDArray[Any]) -> Block:
        start, size = self._bytes, rows.nbytes
        with self._using:
            self._crypt(rows.data.cast("B"), start, self._room_for(size + _BEYOND))
            left = self._room_for(size)
            self._file.seek(start)
            while left:
                left = left[self._file.write(left) :]
        self._bytes += -(-size // _COUNTER_BYTES) * _COUNTER_BYTES
        count, width = rows.shape
        kept = _KeptRows(self, start, count, width, rows.dtype)
        return Block(kept.load, count, load_some=kept.load_some)

    def read(self, start: int, count: int) -> NDArray[np.uint8]:
        """Return so many bytes at an offset, a multiple of the counter's size."""
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
        return found[:count]

    def _room_for(self, count: int) -> memoryview:
        if len(self._room) < count:
            self._room = bytearray(count)
        return memoryview(self._room)[:count]

    def _crypt(self, data: memoryview, start: int, out: memoryview) -> None:
        """Encrypt or decrypt what stands at an offset, a multiple of the counter's size."""
        counter = (start // _COUNTER_BYTES).to_bytes(_COUNTER_BYTES, "big")
        Cipher(self._key, CTR(counter)).encryptor().update_into(data, out)


@dataclass(frozen=True, repr=False, slots=True)
class _KeptRows:
    """Rows, (count, width), in a file from an offset on; of a large table there are very many of these."""

    file: _EncryptedFile
    start: int
    count: int
    width: int
    dtype: np.dtype[Any]

    def load(self) -> Matrix64:
        found = self.file.read(self.start, self.count * self._row_bytes).view(self.dtype)
        return found.reshape(self.count, self.width).astype(np.float64, copy=False)

    def load_some(self, numbers: Numbers) -> Matrix64:
        if len(numbers) * _ONE_BY_ONE > self.count:
            return self.load()[numbers]
        found = np.empty((len(numbers), self.width))
        for row, number in zip(found, numbers.tolist(), strict=True):
            place = self.start + number * self._row_bytes
            before = place % _COUNTER_BYTES
            row[:] = self.file.read(place - before, before + self._row_bytes)[before:].view(self.dtype)
        return found

    @property
    def _row_bytes(self) -> int:
        return self.width * self.dtype.itemsize
