"""A reproducible stream of secret bytes from a 32-byte seed (docs/protocol.md, "Anchor")."""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from protocol.envelope import derive
from protocol.limits import MAX_KEY_STREAM_BYTES, SEED_BYTES


class KeyStream:
    """ChaCha20 (RFC 8439) with a zero nonce, keyed from the seed for one purpose."""

    def __init__(self, seed: bytes, purpose: str) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"expected a seed of {SEED_BYTES} bytes, got {len(seed)}")
        self._stream = Cipher(ChaCha20(derive(seed, purpose), bytes(16)), None).encryptor()
        self._left = MAX_KEY_STREAM_BYTES

    def __repr__(self) -> str:
        return "<KeyStream>"

    @classmethod
    def fresh(cls, purpose: str) -> KeyStream:
        """Return a stream that nobody can repeat: its seed is random and not stored."""
        return cls(secrets.token_bytes(SEED_BYTES), purpose)

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes; raises `ValueError` at the end of the stream."""
        if count > self._left:
            raise ValueError(f"the key stream ends after {MAX_KEY_STREAM_BYTES} bytes")
        self._left -= count
        return self._stream.update(bytes(count))
