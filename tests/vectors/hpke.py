"""HPKE (RFC 9180, mode base, single shot) for the suites of docs/protocol.md, written from the documents.

A second opinion on what the packages seal with: extract, expand, the key schedule and the three KEMs are
written out; curves, ML-KEM, SHA-3 and the AEADs are those of `cryptography` and hashlib.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


@dataclass(frozen=True)
class Numbers:
    """A row of the table of suites."""

    kem: int
    kdf: int
    aead: int
    public_bytes: int
    enc_bytes: int


SUITES = {
    "mlkem768-x25519": Numbers(0x647A, 0x0001, 0x0003, 1216, 1120),
    "x25519": Numbers(0x0020, 0x0001, 0x0003, 32, 32),
    "mlkem1024-p384": Numbers(0x0051, 0x0002, 0x0002, 1665, 1665),
    "p256": Numbers(0x0010, 0x0001, 0x0002, 65, 65),
}
_HASH = {0x0001: "sha256", 0x0002: "sha384"}


def _extract(kdf: int, suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt or b"\0", b"HPKE-v1" + suite + label + secret, _HASH[kdf])


def _expand(kdf: int, suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    content = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    out = block = b""
    for counter in range(1, 8):
        block = hmac.digest(key, block + content + bytes([counter]), _HASH[kdf])
        out += block
    return out[:length]


def _diffie_hellman(name: str, private: bytes, enc: bytes) -> tuple[bytes, bytes]:
    """Return the shared secret and our public key."""
    if name == "x25519":
        own = x25519.X25519PrivateKey.from_private_bytes(private)
        peer = x25519.X25519PublicKey.from_public_bytes(enc)
        return own.exchange(peer), own.public_key().public_bytes_raw()
    curve: Any = {"p256": ec.SECP256R1, "p384": ec.SECP384R1}[name]()
    key = ec.derive_private_key(int.from_bytes(private, "big"), curve)
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(curve, enc))
    return shared, key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _decapsulated(name: str, private: bytes, enc: bytes) -> bytes:
    if name in ("p256", "x25519"):  # DHKEM, RFC 9180, section 4.1
        shared, public = _diffie_hellman(name, private, enc)
        suite = b"KEM" + SUITES[name].kem.to_bytes(2, "big")
        key = _extract(0x0001, suite, b"", b"eae_prk", shared)
        return _expand(0x0001, suite, key, b"shared_secret", enc + public, 32)
    key_of: Any
    key_of, part, label = {
        "mlkem768-x25519": (mlkem.MLKEM768PrivateKey, "x25519", bytes.fromhex("5c2e2f2f5e5c")),
        "mlkem1024-p384": (mlkem.MLKEM1024PrivateKey, "p384", b"MLKEM1024-P384"),
    }[name]
    length = {"mlkem768-x25519": 1088, "mlkem1024-p384": 1568}[name]
    lattice = key_of.from_seed_bytes(private[:64]).decapsulate(enc[:length])
    shared, public = _diffie_hellman(part, private[64:], enc[length:])
    return hashlib.sha3_256(lattice + shared + enc[length:] + public + label).digest()


def opened(name: str, private: bytes, sealed: bytes, info: bytes) -> bytes:
    """Return the plaintext; raises `InvalidTag`."""
    numbers = SUITES[name]
    enc, ciphertext = sealed[: numbers.enc_bytes], sealed[numbers.enc_bytes :]
    suite = b"HPKE" + b"".join(
        number.to_bytes(2, "big") for number in (numbers.kem, numbers.kdf, numbers.aead)
    )
    context = b"\0" + _extract(numbers.kdf, suite, b"", b"psk_id_hash", b"")
    context += _extract(numbers.kdf, suite, b"", b"info_hash", info)
    secret = _extract(numbers.kdf, suite, _decapsulated(name, private, enc), b"secret", b"")
    key = _expand(numbers.kdf, suite, secret, b"key", context, 32)
    nonce = _expand(numbers.kdf, suite, secret, b"base_nonce", context, 12)
    cipher: Any = {0x0002: AESGCM, 0x0003: ChaCha20Poly1305}[numbers.aead]
    plaintext: bytes = cipher(key).decrypt(nonce, ciphertext, b"")
    return plaintext
