"""Certificates of a consortium that exists only in tests.

Every validity is a fixed number, so that a test chooses its own time and nothing depends on today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.identity import Identity, TrustRoot
from protocol.messages import Role

CONSORTIUM_ID = "0123456789abcdef0123456789abcdef"
NOT_BEFORE = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
NOT_AFTER = int(datetime(2126, 1, 1, tzinfo=UTC).timestamp())
NOW = int(datetime(2030, 6, 1, tzinfo=UTC).timestamp())
"""A moment at which the certificates made here hold."""

_DIGITAL_SIGNATURE = {"digital_signature": True, "key_cert_sign": False, "crl_sign": False}
_SIGNS_CERTIFICATES = {"digital_signature": False, "key_cert_sign": True, "crl_sign": True}


@dataclass(frozen=True)
class Authority:
    """A consortium's root: its key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def trust_root(self) -> TrustRoot:
        return TrustRoot(self.certificate)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True)
class Credential:
    """A member's key and certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


def make_root(
    consortium_id: str | None = CONSORTIUM_ID,
    *,
    not_before: int = NOT_BEFORE,
    not_after: int = NOT_AFTER,
) -> Authority:
    """Return a new root; with ``consortium_id`` None its subject names no consortium."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, "ODC consortium root")]
    if consortium_id is not None:
        attributes.append(x509.NameAttribute(NameOID.SERIAL_NUMBER, consortium_id))
    name = x509.Name(attributes)
    public_key = key.public_key()
    certificate = (
        _builder(name, name, public_key, not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(**_SIGNS_CERTIFICATES), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def issue(
    root: Authority,
    role: Role = "institution",
    name: str = "hospital-a",
    *,
    consortium_id: str = CONSORTIUM_ID,
    dns: Sequence[str] = (),
    not_before: int = NOT_BEFORE,
    not_after: int = NOT_AFTER,
) -> Credential:
    """Return a new key and its certificate for one member."""
    urn = Identity(consortium_id, role, name).urn
    names = [x509.UniformResourceIdentifier(urn), *(x509.DNSName(host) for host in dns)]
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = issue_for(
        root, key.public_key(), names, common_name=name, not_before=not_before, not_after=not_after
    )
    return Credential(key, certificate)


def issue_for(
    root: Authority,
    public_key: CertificatePublicKeyTypes,
    names: Sequence[x509.GeneralName],
    *,
    common_name: str = "member",
    not_before: int = NOT_BEFORE,
    not_after: int = NOT_AFTER,
    ca: bool = False,
    client_auth: bool = True,
) -> x509.Certificate:
    """Return a certificate with any key and any names, the wrong ones included."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] if client_auth else []
    if not client_auth or any(isinstance(name, (x509.DNSName, x509.IPAddress)) for name in names):
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(subject, root.certificate.subject, public_key, not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(_key_usage(**_DIGITAL_SIGNATURE), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(root.key.public_key()), critical=False
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(root.key, hashes.SHA256())


def reissue(root: Authority, tbs: bytes) -> bytes:
    """Return a DER certificate with any inside, signed by the root: what a careless lead could issue."""

    def element(tag: int, content: bytes) -> bytes:
        size = len(content)
        if size < 128:
            return bytes([tag, size]) + content
        length = size.to_bytes((size.bit_length() + 7) // 8, "big")
        return bytes([tag, 0x80 | len(length)]) + length + content

    ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
    signature = root.key.sign(tbs, ec.ECDSA(hashes.SHA256()))
    return element(0x30, tbs + ecdsa_with_sha256 + element(0x03, b"\0" + signature))


@cache
def shared_root() -> Authority:
    """The one root most tests can share: made once per run."""
    return make_root()


@cache
def shared_member(role: Role = "institution", name: str = "hospital-a") -> Credential:
    """A member under `shared_root`, made once per run."""
    return issue(shared_root(), role, name)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: CertificatePublicKeyTypes,
    not_before: int,
    not_after: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(not_before, UTC))
        .not_valid_after(datetime.fromtimestamp(not_after, UTC))
    )


def _key_usage(*, digital_signature: bool, key_cert_sign: bool, crl_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def revoke(root: Authority, *revoked: x509.Certificate, number: int | None = 1, at: int = NOW) -> bytes:
    """Return a revocation list (DER); with ``number`` None, one that has none."""
    moment = datetime.fromtimestamp(at, UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.certificate.subject)
        .last_update(moment)
        .next_update(root.certificate.not_valid_after_utc)
    )
    if number is not None:
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    for certificate in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(moment).build())
    return builder.sign(root.key, hashes.SHA256()).public_bytes(Encoding.DER)
