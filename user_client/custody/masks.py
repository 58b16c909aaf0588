"""The key of an institution's masks, and the streams that each pair of institutions shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from user_client.custody.keystream import KeyStream

_MASK_LABEL: Final = b"odc/v1/mask\x00"


class MaskKey:
    """The X25519 key of one institution for the masks of one collaboration."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "<MaskKey>"

    @classmethod
    def generate(cls) -> MaskKey:
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> MaskKey:
        return cls(X25519PrivateKey.from_private_bytes(data))

    def private_bytes(self) -> bytes:
        """Return the private key: only for the institution's own disk."""
        return self._key.private_bytes_raw()

    def public_bytes(self) -> bytes:
        """Return the public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def stream(self, other: bytes, seed: bytes, context: bytes) -> Callable[[int], bytes]:
        """Return the key stream that we and the holder of another key share.

        Parameters
        ----------
        other : bytes
            The public key of the other institution.
        seed : bytes
            The sealed seed, which the analyst does not have.
        context : bytes
            What the stream is for: the same at both institutions, and never used for anything else.

        Raises
        ------
        ValueError
            If ``other`` is no X25519 key, or one that agrees on the same secret with everybody.
        """
        shared = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        derived = HKDF(hashes.SHA256(), 32, seed, _MASK_LABEL + context).derive(shared)
        return KeyStream(derived, "odc/v1/mask-stream").read
