"""Sign and verify messages; seal and open secrets.

A signed message is the message's canonical bytes, its author's certificate and an ECDSA P-256
signature over ``label 0x00 bytes``, so that a signature for one kind of message is none for another.
Sealing is HPKE (RFC 9180) as `cryptography` ships it, bound to what it is for by its ``info``.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, ClassVar, Final, Generic

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x25519
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import Field

from protocol.codec import M, Message, decode, encode
from protocol.errors import MalformedMessageError, SealBrokenError, SignatureError
from protocol.identity import Identity, TrustRoot, load_der_certificate, public_key
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import Blob

SIGNING_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
HYBRID: Final = "mlkem768-x25519"
"""The default suite: traffic recorded today must stay sealed even if X25519 is broken one day."""

_MLKEM_PUBLIC_BYTES: Final = 1184
_MLKEM_PRIVATE_BYTES: Final = 64
_SUITES: Final = {
    HYBRID: Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305),
    "x25519": Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305),
}


class Signed(Message):
    """A message with its author's certificate and signature."""

    signing_label: ClassVar[str] = "odc/v1/signed"

    kind: Annotated[str, Field(max_length=100)]
    payload: Annotated[bytes, Field(max_length=MAX_MESSAGE_BYTES)]
    certificate: Blob
    signature: Blob


@dataclass(frozen=True)
class Verified(Generic[M]):
    """A message whose author is known."""

    message: M
    author: Identity
    digest: bytes
    """SHA-256 of the canonical message, without the signature."""


def sign(message: Message, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    """Return the bytes of ``message`` signed by the holder of ``certificate``."""
    payload = encode(message)
    signature = key.sign(_signed_bytes(message.signing_label, payload), SIGNING_ALGORITHM)
    return encode(
        Signed(
            kind=message.signing_label,
            payload=payload,
            certificate=certificate.public_bytes(Encoding.DER),
            signature=signature,
        )
    )


def verify(kind: type[M], data: bytes, root: TrustRoot, *, at: int) -> Verified[M]:
    """Return the message of ``kind`` in ``data`` and who signed it.

    The steps of docs/protocol.md, "Signed message":
    (1) the bytes are a canonical `Signed`; (2) its kind is the one expected; (3) the certificate
    leads to the consortium's root at time ``at``; (4) the signature is by its key over label and
    payload; (5) the payload is a canonical message of that kind.

    Raises
    ------
    ProtocolError
        At steps 1, 2 and 5.
    TrustError
        At steps 3 and 4.
    """
    signed = decode(Signed, data)  # (1)
    if signed.kind != kind.signing_label:  # (2)
        raise MalformedMessageError(kind.__name__, "is signed as another kind of message")
    certificate = load_der_certificate(signed.certificate)
    author = root.identify(certificate, at=at)  # (3)
    key = public_key(certificate)
    try:  # (4)
        key.verify(signed.signature, _signed_bytes(signed.kind, signed.payload), SIGNING_ALGORITHM)
    except InvalidSignature:
        raise SignatureError(f"{kind.__name__}: was not signed by {author.name}") from None
    message = decode(kind, signed.payload)  # (5)
    return Verified(message, author, sha256(signed.payload).digest())


def decode_stored(kind: type[M], signed: bytes) -> M:
    """Return the message of ``kind`` in bytes that were verified before they were stored.

    The signature is not checked again: the certificate of its author may have ended since.

    Raises `ProtocolError` if the bytes are no such signed message.
    """
    return decode(kind, decode(Signed, signed).payload)


def _signed_bytes(label: str, payload: bytes) -> bytes:
    return label.encode() + b"\x00" + payload


def derive(secret: bytes, label: str, length: int = 32) -> bytes:
    """Return a key for one purpose: HKDF-SHA256 without salt, with ``label`` as its info."""
    return HKDF(hashes.SHA256(), length, None, label.encode()).derive(secret)


def join_mac(secret: bytes, ticket: bytes, csr: bytes, chain: Sequence[bytes] = ()) -> bytes:
    """Return the MAC of a certificate request, keyed by the join secret of its invitation."""
    key = derive(secret, "odc/v1/join-mac")
    return hmac.digest(key, b"".join(sha256(part).digest() for part in (ticket, csr, *chain)), "sha256")


def seed_commitment(seed: bytes) -> bytes:
    """Return the commitment to the anchor's seed: members can compare it without showing the seed."""
    return sha256(b"odc/v1/anchor-commitment\x00" + seed).digest()


class SealingKey:
    """The private key that opens what was sealed for one institution."""

    suite: Final = HYBRID

    def __init__(self, mlkem_key: mlkem.MLKEM768PrivateKey, x25519_key: x25519.X25519PrivateKey) -> None:
        self._mlkem, self._x25519 = mlkem_key, x25519_key

    def __repr__(self) -> str:
        return f"<SealingKey {self.suite}>"

    @classmethod
    def generate(cls) -> SealingKey:
        return cls(mlkem.MLKEM768PrivateKey.generate(), x25519.X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> SealingKey:
        return cls(
            mlkem.MLKEM768PrivateKey.from_seed_bytes(data[:_MLKEM_PRIVATE_BYTES]),
            x25519.X25519PrivateKey.from_private_bytes(data[_MLKEM_PRIVATE_BYTES:]),
        )

    def private_bytes(self) -> bytes:
        """Return ML-KEM seed and X25519 key, in this order: only for the institution's own disk."""
        return self._mlkem.private_bytes_raw() + self._x25519.private_bytes_raw()

    def public_bytes(self) -> bytes:
        """Return ML-KEM-768 encapsulation key (1184 bytes) and X25519 key (32 bytes), in this order."""
        return self._mlkem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()

    def open(self, ciphertext: bytes, info: bytes) -> bytes:
        """Return what was sealed with the same ``info``; raises `SealBrokenError`."""
        key = MLKEM768X25519PrivateKey(self._mlkem, self._x25519)
        try:
            return _SUITES[self.suite].decrypt(ciphertext, key, info=info)
        except (InvalidTag, ValueError):
            raise SealBrokenError("the anchor was sealed for another key or purpose") from None


def seal(plaintext: bytes, suite: str, public_key: bytes, info: bytes) -> bytes:
    """Seal ``plaintext`` so that only the holder of ``public_key`` can open it, for ``info`` alone."""
    try:
        if suite == HYBRID:
            recipient: MLKEM768X25519PublicKey | x25519.X25519PublicKey = MLKEM768X25519PublicKey(
                mlkem.MLKEM768PublicKey.from_public_bytes(public_key[:_MLKEM_PUBLIC_BYTES]),
                x25519.X25519PublicKey.from_public_bytes(public_key[_MLKEM_PUBLIC_BYTES:]),
            )
        else:
            recipient = x25519.X25519PublicKey.from_public_bytes(public_key)
        return _SUITES[suite].encrypt(plaintext, recipient, info=info)
    except (ValueError, KeyError):
        raise MalformedMessageError("Acceptance", f"its sealing key is no {suite} key") from None


def anchor_info(collaboration_id: str, terms_digest: bytes, recipient: str) -> bytes:
    """Return the HPKE ``info`` of a sealed anchor: it opens for this round and recipient alone."""
    return b"odc/v1/sealed-anchor\x00" + collaboration_id.encode() + terms_digest + recipient.encode()
