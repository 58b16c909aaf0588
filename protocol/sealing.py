"""The sealing suites: HPKE (RFC 9180) as `cryptography` ships it, and the keys that each takes.

The numbers and the layout of keys stand in docs/protocol.md, "Sealing". `protocol.envelope` seals with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    MLKEM1024P384PrivateKey,
    MLKEM1024P384PublicKey,
    Suite,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.messages import SealingSuite

HYBRID: Final[SealingSuite] = "mlkem768-x25519"
"""The default suite: traffic recorded today must stay sealed even if X25519 is broken one day."""

_MLKEM_PRIVATE_BYTES: Final = 64
"""The seed of FIPS 203: d || z."""
_MLKEM768_PUBLIC_BYTES: Final = 1184
_MLKEM1024_PUBLIC_BYTES: Final = 1568
_UNCOMPRESSED: Final = 4
"""The first byte of a point in the one form that is taken (SEC 1, 2.3.3)."""


@dataclass(frozen=True)
class Sealing:
    """One suite: how its keys are made, written and read.

    Attributes
    ----------
    hpke : Suite
    generate : callable
        Return the bytes of a new private key.
    private_key, public_key : callable
        Return the key that ``hpke`` takes from its bytes; raise `ValueError` for bytes that are no such key.
    public_bytes : callable
        Return the public key's bytes from those of the private one.
    matrix_cipher : type
        The AEAD of the suite, for a public anchor's matrix.
    matrix_label : str
        Of the key that the matrix is sealed with.
    """

    hpke: Suite
    generate: Callable[[], bytes]
    private_key: Callable[[bytes], Any]
    public_key: Callable[[bytes], Any]
    public_bytes: Callable[[bytes], bytes]
    matrix_cipher: type[ChaCha20Poly1305] | type[AESGCM] = ChaCha20Poly1305
    matrix_label: str = "odc/v1/anchor/public"


def _x25519_private(data: bytes) -> x25519.X25519PrivateKey:
    return x25519.X25519PrivateKey.from_private_bytes(data)


def _mlkem768_x25519_private(data: bytes) -> MLKEM768X25519PrivateKey:
    return MLKEM768X25519PrivateKey(
        mlkem.MLKEM768PrivateKey.from_seed_bytes(data[:_MLKEM_PRIVATE_BYTES]),
        _x25519_private(data[_MLKEM_PRIVATE_BYTES:]),
    )


def _mlkem768_x25519_public(data: bytes) -> MLKEM768X25519PublicKey:
    return MLKEM768X25519PublicKey(
        mlkem.MLKEM768PublicKey.from_public_bytes(data[:_MLKEM768_PUBLIC_BYTES]),
        x25519.X25519PublicKey.from_public_bytes(data[_MLKEM768_PUBLIC_BYTES:]),
    )


def _mlkem768_x25519_public_bytes(data: bytes) -> bytes:
    key = mlkem.MLKEM768PrivateKey.from_seed_bytes(data[:_MLKEM_PRIVATE_BYTES])
    own = _x25519_private(data[_MLKEM_PRIVATE_BYTES:])
    return key.public_key().public_bytes_raw() + own.public_key().public_bytes_raw()


def _scalar(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes((key.curve.key_size + 7) // 8, "big")


def _curve_private(curve: ec.EllipticCurve, data: bytes) -> ec.EllipticCurvePrivateKey:
    if len(data) != (curve.key_size + 7) // 8:
        raise ValueError("a private key is as long as its curve's order")
    return ec.derive_private_key(int.from_bytes(data, "big"), curve)


def _curve_public(curve: ec.EllipticCurve, data: bytes) -> ec.EllipticCurvePublicKey:
    if data[:1] != bytes([_UNCOMPRESSED]):
        raise ValueError("a point is uncompressed")
    return ec.EllipticCurvePublicKey.from_encoded_point(curve, data)


def _point(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _mlkem1024_p384_private(data: bytes) -> MLKEM1024P384PrivateKey:
    return MLKEM1024P384PrivateKey(
        mlkem.MLKEM1024PrivateKey.from_seed_bytes(data[:_MLKEM_PRIVATE_BYTES]),
        _curve_private(ec.SECP384R1(), data[_MLKEM_PRIVATE_BYTES:]),
    )


def _mlkem1024_p384_public(data: bytes) -> MLKEM1024P384PublicKey:
    return MLKEM1024P384PublicKey(
        mlkem.MLKEM1024PublicKey.from_public_bytes(data[:_MLKEM1024_PUBLIC_BYTES]),
        _curve_public(ec.SECP384R1(), data[_MLKEM1024_PUBLIC_BYTES:]),
    )


def _mlkem1024_p384_public_bytes(data: bytes) -> bytes:
    key = mlkem.MLKEM1024PrivateKey.from_seed_bytes(data[:_MLKEM_PRIVATE_BYTES])
    return key.public_key().public_bytes_raw() + _point(
        _curve_private(ec.SECP384R1(), data[_MLKEM_PRIVATE_BYTES:])
    )


SEALINGS: Final[Mapping[str, Sealing]] = {
    HYBRID: Sealing(
        hpke=Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305),
        generate=lambda: (
            mlkem.MLKEM768PrivateKey.generate().private_bytes_raw()
            + x25519.X25519PrivateKey.generate().private_bytes_raw()
        ),
        private_key=_mlkem768_x25519_private,
        public_key=_mlkem768_x25519_public,
        public_bytes=_mlkem768_x25519_public_bytes,
    ),
    "x25519": Sealing(
        hpke=Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305),
        generate=lambda: x25519.X25519PrivateKey.generate().private_bytes_raw(),
        private_key=_x25519_private,
        public_key=x25519.X25519PublicKey.from_public_bytes,
        public_bytes=lambda data: _x25519_private(data).public_key().public_bytes_raw(),
    ),
    "mlkem1024-p384": Sealing(
        hpke=Suite(KEM.MLKEM1024_P384, KDF.HKDF_SHA384, AEAD.AES_256_GCM),
        generate=lambda: (
            mlkem.MLKEM1024PrivateKey.generate().private_bytes_raw()
            + _scalar(ec.generate_private_key(ec.SECP384R1()))
        ),
        private_key=_mlkem1024_p384_private,
        public_key=_mlkem1024_p384_public,
        public_bytes=_mlkem1024_p384_public_bytes,
        matrix_cipher=AESGCM,
        matrix_label="odc/v1/anchor/public/aes-256-gcm",
    ),
    "p256": Sealing(
        hpke=Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM),
        generate=lambda: _scalar(ec.generate_private_key(ec.SECP256R1())),
        private_key=lambda data: _curve_private(ec.SECP256R1(), data),
        public_key=lambda data: _curve_public(ec.SECP256R1(), data),
        public_bytes=lambda data: _point(_curve_private(ec.SECP256R1(), data)),
        matrix_cipher=AESGCM,
        matrix_label="odc/v1/anchor/public/aes-256-gcm",
    ),
}
"""Every `SealingSuite`."""
