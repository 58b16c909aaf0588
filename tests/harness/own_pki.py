"""A hospital's own PKI: a root, an issuing CA below it, and certificates for keys of the hospital."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.harness.certificates import NOT_AFTER, NOT_BEFORE

HOST = "gateway.hospital.example"
NAME = f"dns:{HOST}"


@dataclass(frozen=True)
class Ca:
    """A CA: its key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


def make_ca(name: str, above: Ca | None = None) -> Ca:
    """Return a new CA, a root if nobody is above it."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = dict.fromkeys(
        ("content_commitment", "data_encipherment", "decipher_only", "digital_signature"), False
    )
    usage |= dict.fromkeys(("encipher_only", "key_agreement", "key_encipherment"), False)
    builder = (
        _builder(_subject(name), key.public_key(), above, NOT_BEFORE, NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage, crl_sign=True, key_cert_sign=True), critical=True)
    )
    return Ca(key, builder.sign(above.key if above else key, hashes.SHA256()))


def issue(
    issuer: Ca,
    key: CertificatePublicKeyTypes,
    names: Sequence[x509.GeneralName] = (x509.DNSName(HOST),),
    *,
    subject: str = "hospital gateway",
    not_before: int = NOT_BEFORE,
    not_after: int = NOT_AFTER,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> bytes:
    """Return a certificate (DER) for a TLS client's key, as a hospital's PKI makes them."""
    builder = _builder(_subject(subject), key, issuer, not_before, not_after).add_extension(
        x509.ExtendedKeyUsage([usage]), critical=False
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER)


def pem(*chain: bytes) -> bytes:
    """Return a chain as the file that a person has."""
    return b"".join(x509.load_der_x509_certificate(one).public_bytes(Encoding.PEM) for one in chain)


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hospital"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _builder(
    subject: x509.Name, key: CertificatePublicKeyTypes, above: Ca | None, not_before: int, not_after: int
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.certificate.subject if above else subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(not_before, UTC))
        .not_valid_after(datetime.fromtimestamp(not_after, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    if above is None:
        return builder
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(above.key.public_key())
    return builder.add_extension(key_id, critical=False)
