"""Encrypt files under a storage key that a passphrase locks.

Layout of a sealed file: the line ``odc-sealed-v1``, a 16-byte salt, then pieces of 1 MiB, each followed by
its ChaCha20-Poly1305 tag. The file's key is derived from the storage key and the salt. A piece's nonce is
its number (11 bytes, big-endian) and one byte that is 1 for the last piece, and the file's name in the state
directory is its associated data: no piece can be moved, dropped, or taken from another file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from protocol.envelope import derive
from protocol.errors import UnreadableFileError
from user_client.custody.passphrase import lock, unlock

_MAGIC: Final = b"odc-sealed-v1\n"
_SALT_BYTES: Final = 16
_HEADER_BYTES: Final = len(_MAGIC) + _SALT_BYTES
_PIECE_BYTES: Final = 2**20
_TAG_BYTES: Final = 16


def is_sealed(data: bytes) -> bool:
    """Return whether the content of a file begins like one that a vault has sealed."""
    return data.startswith(_MAGIC)


class Vault:
    """The storage key of one state directory, while it is unlocked."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "<Vault, unlocked>"

    @classmethod
    def create(cls) -> Vault:
        """Return a vault with a new storage key."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def unlock(cls, locked: bytes, passphrase: str) -> Vault:
        """Open a locked storage key; raises `PassphraseError`."""
        return cls(unlock(locked, passphrase))

    def lock(self, passphrase: str) -> bytes:
        """Return the storage key encrypted under a passphrase."""
        return lock(self._key, passphrase)

    @property
    def key_password(self) -> bytes:
        """The password of ``key.pem``, which the TLS library has to open by itself."""
        return derive(self._key, "odc/v1/key-password").hex().encode()

    def seal(self, name: str, parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
        """Yield the sealed file of some content, one piece at a time."""
        salt = os.urandom(_SALT_BYTES)
        cipher = self._cipher(salt)
        yield _MAGIC + salt
        number, held = 0, bytearray()
        for part in parts:
            view = memoryview(part).cast("B")
            for start in range(0, len(view), _PIECE_BYTES):
                held += view[start : start + _PIECE_BYTES]
                if len(held) > _PIECE_BYTES:  # a full piece is not the last one if something follows it
                    yield cipher.encrypt(_nonce(number), bytes(held[:_PIECE_BYTES]), name.encode())
                    del held[:_PIECE_BYTES]
                    number += 1
        yield cipher.encrypt(_nonce(number, is_last=True), bytes(held), name.encode())

    def open(self, name: str, data: bytes) -> bytes:
        """Return what was sealed under ``name``; raises `UnreadableFileError`."""
        cipher, step = self._cipher(data[len(_MAGIC) : _HEADER_BYTES]), _PIECE_BYTES + _TAG_BYTES
        view, opened = memoryview(data)[_HEADER_BYTES:], bytearray()
        count = max(1, -(-len(view) // step))
        try:
            for number in range(count):
                piece = view[number * step : (number + 1) * step]
                nonce = _nonce(number, is_last=number == count - 1)
                opened += cipher.decrypt(nonce, piece, name.encode())
        except InvalidTag:
            raise UnreadableFileError(name, "it is damaged, or was sealed elsewhere") from None
        return bytes(opened)

    def _cipher(self, salt: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, salt, b"odc/v1/sealed-file").derive(self._key))


def _nonce(number: int, *, is_last: bool = False) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])
