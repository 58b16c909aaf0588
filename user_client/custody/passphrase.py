"""Encrypt bytes under a passphrase: scrypt (RFC 7914) and ChaCha20-Poly1305.

It is used for the root key of a lead, and for the storage key of a protected directory (`vault`).

Layout: the line ``odc-scrypt-v1``, one byte log2(N), a 16-byte salt, a 12-byte nonce, the ciphertext.
Everything before the nonce is authenticated with it.
"""

from __future__ import annotations

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from protocol.errors import InputError
from user_client.errors import PassphraseError

_MAGIC: Final = b"odc-scrypt-v1\n"
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
LOG2_N: Final = 17
"""128 MiB and about half a second: acceptable at a terminal, and what OWASP recommends for r = 8, p = 1."""
_MAX_LOG2_N: Final = 20
MIN_CHARS: Final = 8
"""Of a new passphrase."""


def require_long_enough(passphrase: str) -> None:
    """Raise `InputError` for a new passphrase that is too short."""
    if len(passphrase) < MIN_CHARS:
        raise InputError(f"a passphrase needs at least {MIN_CHARS} characters")


def _key(passphrase: str, salt: bytes, log2_n: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=2**log2_n, r=8, p=1).derive(passphrase.encode())


def lock(data: bytes, passphrase: str, *, log2_n: int = LOG2_N) -> bytes:
    """Return ``data`` encrypted under ``passphrase``."""
    header = _MAGIC + bytes([log2_n]) + os.urandom(_SALT_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    key = _key(passphrase, header[-_SALT_BYTES:], log2_n)
    return header + nonce + ChaCha20Poly1305(key).encrypt(nonce, data, header)


def unlock(locked: bytes, passphrase: str) -> bytes:
    """Return what was locked; raises `PassphraseError`."""
    header_bytes = len(_MAGIC) + 1 + _SALT_BYTES
    header, rest = locked[:header_bytes], locked[header_bytes:]
    log2_n = header[len(_MAGIC)] if len(header) == header_bytes else 0
    if not header.startswith(_MAGIC) or not 1 <= log2_n <= _MAX_LOG2_N or len(rest) < _NONCE_BYTES:
        raise PassphraseError("the file is not encrypted under a passphrase")
    key = _key(passphrase, header[-_SALT_BYTES:], log2_n)
    try:
        return ChaCha20Poly1305(key).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], header)
    except InvalidTag:
        raise PassphraseError("the passphrase is wrong, or the file is damaged") from None
