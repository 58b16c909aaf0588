"""A consortium whose keys, serial numbers and signatures are the same on every run: nothing here is secret.

ECDSA is deterministic (RFC 6979), so what these people sign can be compared with the stored vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.vectors.examples import CONSORTIUM
from tests.vectors.packing import pack

NOT_BEFORE: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOT_AFTER: Final = datetime(2126, 1, 1, tzinfo=UTC)
AT: Final = int(datetime(2030, 6, 1, tzinfo=UTC).timestamp())
SHA256: Final = hashes.SHA256()


def key(number: int) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key with this private number."""
    return ec.derive_private_key(number, ec.SECP256R1())


def urn(role: str, name: str, consortium: str = CONSORTIUM) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(f"urn:odc:{consortium}:{role}:{name}")


def subject(consortium: str = CONSORTIUM) -> x509.Name:
    """Return the name of a root."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "ODC consortium root"),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, consortium),
        ]
    )


def usage(*, signs: bool = True, issues: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, False, False, False, issues, issues, False, False)


ROOT_KEY: Final = key(7001)
MEMBER_EXTENSIONS: Final[Sequence[tuple[x509.ExtensionType, bool]]] = (
    (x509.BasicConstraints(False, None), True),
    (usage(), True),
    (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False),
    (x509.AuthorityKeyIdentifier.from_issuer_public_key(ROOT_KEY.public_key()), False),
)


def certificate(
    holder: Any,
    names: Sequence[x509.GeneralName],
    serial: int,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = MEMBER_EXTENSIONS,
    *,
    issuer: x509.Name | None = None,
    issuer_key: ec.EllipticCurvePrivateKey = ROOT_KEY,
    begins: datetime = NOT_BEFORE,
    ends: datetime = NOT_AFTER,
) -> bytes:
    """Return a certificate (DER) for any key, with any names and extensions."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "member")]))
        .issuer_name(issuer or subject())
        .public_key(holder)
        .serial_number(serial)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(holder), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, SHA256, ecdsa_deterministic=True).public_bytes(Encoding.DER)


def root(consortium: str = CONSORTIUM) -> x509.Certificate:
    """Return the consortium's root."""
    public = ROOT_KEY.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject(consortium))
        .issuer_name(subject(consortium))
        .public_key(public)
        .serial_number(1)
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=False, issues=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(ROOT_KEY, SHA256, ecdsa_deterministic=True)
    )


ROOT: Final = root()
ROOT_PEM: Final = ROOT.public_bytes(Encoding.PEM).decode()


@dataclass(frozen=True)
class Person:
    """A member: a key and a certificate for it."""

    key: ec.EllipticCurvePrivateKey
    certificate: bytes

    @classmethod
    def named(cls, role: str, name: str, number: int, **options: Any) -> Person:
        own = key(number)
        return cls(own, certificate(own.public_key(), [urn(role, name)], number, **options))

    def sign(self, label: str, message: dict[str, Any], *, label_signed: str | None = None) -> bytes:
        """Return the Signed bytes of a message."""
        payload = pack(message)
        covered = (label_signed or label).encode() + b"\0" + payload
        signature = self.key.sign(covered, ec.ECDSA(SHA256, deterministic_signing=True))
        return pack(
            {"kind": label, "payload": payload, "certificate": self.certificate, "signature": signature}
        )


ANALYST: Final = Person.named("analyst", "analyst", 7002)
SECOND_ANALYST: Final = Person.named("analyst", "analyst", 7003)
LEAD: Final = Person.named("lead", "hospital-a", 7004)
HOSPITAL: Final = Person.named("institution", "hospital-b", 7005)
OTHER: Final = Person.named("institution", "hospital-c", 7006)


def revocations(
    number: int | None, *serials: int, issuer: x509.Name | None = None, signer: Any = ROOT_KEY
) -> bytes:
    """Return a revocation list (DER)."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer or subject())
        .last_update(datetime(2030, 1, 1, tzinfo=UTC))
        .next_update(NOT_AFTER)
    )
    if number is not None:
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    for serial in serials:
        revoked = x509.RevokedCertificateBuilder().serial_number(serial)
        builder = builder.add_revoked_certificate(
            revoked.revocation_date(datetime(2030, 1, 1, tzinfo=UTC)).build()
        )
    return builder.sign(signer, SHA256, ecdsa_deterministic=True).public_bytes(Encoding.DER)
