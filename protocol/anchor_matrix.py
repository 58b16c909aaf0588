"""A public anchor's matrix: sealed once under a key from the anchor's seed, relayed unread.

It is cut into chunks, each sealed with the AEAD of the terms' suite under a nonce that counts them and marks
the last, so that none can be left out, doubled, moved or cut off (the STREAM construction, as in C2SP age).
The key is used for one matrix alone. Layout and test vectors: docs/protocol.md, "Matrix".
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from protocol.envelope import derive
from protocol.errors import SealBrokenError
from protocol.limits import DEFAULT_CHUNK_BYTES
from protocol.sealing import HYBRID, SEALINGS
from protocol.terms import Terms

TAG_BYTES: Final = 16
_COMMITMENT_LABEL: Final = b"odc/v1/anchor-matrix-commitment\x00"


def sealed_matrix_bytes(terms: Terms) -> int:
    """Return the exact length of the sealed matrix under these terms; 0 if they have none."""
    payload_bytes = terms.anchor_matrix_bytes
    return payload_bytes + TAG_BYTES * -(-payload_bytes // DEFAULT_CHUNK_BYTES)


def seal_matrix(seed: bytes, data: bytes, suite: str = HYBRID) -> Iterator[bytes]:
    """Yield the sealed chunks of a matrix (float32, little-endian, C order)."""
    key = _cipher(seed, suite)
    for number, start in enumerate(range(0, len(data), DEFAULT_CHUNK_BYTES)):
        end = start + DEFAULT_CHUNK_BYTES
        yield key.encrypt(_nonce(number, is_last=end >= len(data)), data[start:end], None)


def open_matrix(seed: bytes, sealed: bytes, suite: str = HYBRID) -> bytes:
    """Return the matrix; raises `SealBrokenError` unless every chunk is there and whole."""
    key, size = _cipher(seed, suite), DEFAULT_CHUNK_BYTES + TAG_BYTES
    opened = []
    try:
        for number, start in enumerate(range(0, len(sealed), size)):
            nonce = _nonce(number, is_last=start + size >= len(sealed))
            opened.append(key.decrypt(nonce, sealed[start : start + size], None))
    except InvalidTag:
        raise SealBrokenError("the anchor's matrix does not open") from None
    return b"".join(opened)


def matrix_commitment(seed: bytes, sealed: bytes) -> bytes:
    """Return the commitment to matrix and seed: members can compare it without showing either."""
    return sha256(_COMMITMENT_LABEL + seed + sha256(sealed).digest()).digest()


def _cipher(seed: bytes, suite: str) -> ChaCha20Poly1305 | AESGCM:
    sealing = SEALINGS[suite]
    return sealing.matrix_cipher(derive(seed, sealing.matrix_label))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])
