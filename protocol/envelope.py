"""Sign and verify messages; seal and open secrets.

A signed message is the message's canonical bytes, its author's certificate and a signature over
``label 0x00 bytes``, so that a signature for one kind of message is none for another. The one algorithm today
is ECDSA on P-256; with any other, what is signed names the algorithm too.
Sealing is HPKE (RFC 9180) as `cryptography` ships it, bound to what it is for by its ``info``.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final, Generic, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from protocol.codec import M, Message, decode, encode, without_absent
from protocol.errors import MalformedMessageError, SealBrokenError, SignatureError
from protocol.identity import Identity, TrustRoot, load_der_certificate, public_key
from protocol.limits import MAX_MESSAGE_BYTES
from protocol.messages import Blob, SealingSuite
from protocol.sealing import HYBRID, SEALINGS
from protocol.version import UnknownAlgorithmError

SIGNING_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
DEFAULT_ALGORITHM: Final = "ecdsa-p256-sha256"
"""The name of `SIGNING_ALGORITHM`, which no message writes."""
SIGNATURE_ALGORITHMS: Final = (DEFAULT_ALGORITHM,)
"""The names of those that this program verifies (docs/protocol.md, "Registries")."""


class Signed(Message):
    """A message with its author's certificate and signature."""

    signing_label: ClassVar[str] = "odc/v1/signed"

    kind: Annotated[str, Field(max_length=100)]
    payload: Annotated[bytes, Field(max_length=MAX_MESSAGE_BYTES)]
    certificate: Blob
    signature: Blob
    algorithm: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._@-]{0,99}$")] | None = None
    """Other than `DEFAULT_ALGORITHM`; a message signed with that has no such field on the wire."""

    @model_serializer(mode="wrap")
    def _content(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_absent(serialise(self), "algorithm")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.algorithm == DEFAULT_ALGORITHM:
            raise ValueError(f"algorithm is left out for {DEFAULT_ALGORITHM}")
        return self


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
    signature = key.sign(signed_bytes(message.signing_label, payload), SIGNING_ALGORITHM)
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
    (1) the bytes are a canonical `Signed`; (2) its kind is the one expected, and its algorithm known;
    (3) the certificate leads to the consortium's root at time ``at``; (4) the signature is by its key over
    label and payload; (5) the payload is a canonical message of that kind.

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
    if (algorithm := signed.algorithm or DEFAULT_ALGORITHM) not in SIGNATURE_ALGORITHMS:
        raise UnknownAlgorithmError(kind.__name__, algorithm, SIGNATURE_ALGORITHMS)
    certificate = load_der_certificate(signed.certificate)
    author = root.identify(certificate, at=at)  # (3)
    key = public_key(certificate)
    try:  # (4)
        data = signed_bytes(signed.kind, signed.payload, signed.algorithm)
        key.verify(signed.signature, data, SIGNING_ALGORITHM)
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


def signed_bytes(label: str, payload: bytes, algorithm: str | None = None) -> bytes:
    """Return what a signature covers; one by another algorithm than the default covers its name as well."""
    names = (label,) if algorithm is None else (Signed.signing_label, algorithm, label)
    return b"".join(name.encode() + b"\x00" for name in names) + payload


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

    def __init__(self, suite: SealingSuite, private: bytes) -> None:
        self.suite, self._private = suite, private
        try:
            self._key = SEALINGS[suite].private_key(private)
        except ValueError:
            raise SealBrokenError(f"our own sealing key is no {suite} key") from None

    def __repr__(self) -> str:
        return f"<SealingKey {self.suite}>"

    @classmethod
    def generate(cls, suite: SealingSuite = HYBRID) -> SealingKey:
        return cls(suite, SEALINGS[suite].generate())

    @classmethod
    def from_bytes(cls, data: bytes, suite: SealingSuite = HYBRID) -> SealingKey:
        """Return the key that `private_bytes` has written; raises `SealBrokenError` for any other bytes."""
        return cls(suite, data)

    def private_bytes(self) -> bytes:
        """Return the parts of the private key, that of ML-KEM first: only for the institution's own disk."""
        return self._private

    def public_bytes(self) -> bytes:
        """Return the public key as an `Acceptance` has it."""
        return SEALINGS[self.suite].public_bytes(self._private)

    def open(self, ciphertext: bytes, info: bytes) -> bytes:
        """Return what was sealed with the same ``info``; raises `SealBrokenError`."""
        try:
            return SEALINGS[self.suite].hpke.decrypt(ciphertext, self._key, info=info)
        except (InvalidTag, ValueError):
            raise SealBrokenError("the anchor was sealed for another key or purpose") from None


def seal(plaintext: bytes, suite: str, public_key: bytes, info: bytes) -> bytes:
    """Seal ``plaintext`` so that only the holder of ``public_key`` can open it, for ``info`` alone."""
    try:
        sealing = SEALINGS[suite]
        return sealing.hpke.encrypt(plaintext, sealing.public_key(public_key), info=info)
    except (ValueError, KeyError):
        raise MalformedMessageError("Acceptance", f"its sealing key is no {suite} key") from None


def anchor_info(collaboration_id: str, terms_digest: bytes, recipient: str) -> bytes:
    """Return the HPKE ``info`` of a sealed anchor: it opens for this round and recipient alone."""
    return b"odc/v1/sealed-anchor\x00" + collaboration_id.encode() + terms_digest + recipient.encode()
