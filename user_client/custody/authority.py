"""The consortium's root: an offline key under a passphrase that issues every certificate.

The names in a certificate come from the lead's invitation; only the key is taken from the request.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.errors import CertificateRefusedError
from protocol.identity import Identity
from user_client.custody.passphrase import lock, unlock

ROOT_VALIDITY: Final = timedelta(days=3650)
MEMBER_VALIDITY: Final = timedelta(days=365)
_BACKDATED: Final = timedelta(hours=1)
"""Clocks of institutions differ; a certificate issued now must be valid there at once."""
_PublicKey = ec.EllipticCurvePublicKey


class Authority:
    """The root key while it is unlocked, and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate = certificate

    def __repr__(self) -> str:
        return "<Authority, unlocked>"

    @classmethod
    def create(cls, name: str, *, now: int) -> Authority:
        """Generate the root of a new consortium, and the id of the consortium with it."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, name[:64]),
                x509.NameAttribute(NameOID.COMMON_NAME, "ODC consortium root"),
                x509.NameAttribute(NameOID.SERIAL_NUMBER, secrets.token_hex(16)),
            ]
        )
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(subject, subject, key.public_key(), now, ROOT_VALIDITY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def unlock(cls, locked: bytes, passphrase: str, certificate: x509.Certificate) -> Authority:
        """Open the locked key; raises `PassphraseError`."""
        return cls.from_bytes(unlock(locked, passphrase), certificate)

    @classmethod
    def from_bytes(cls, data: bytes, certificate: x509.Certificate) -> Authority:
        """Return the authority whose key has these `private_bytes`."""
        key = load_der_private_key(data, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateRefusedError("the root key is not an ECDSA key")
        return cls(key, certificate)

    def lock(self, passphrase: str) -> bytes:
        """Return the key encrypted under a passphrase."""
        return lock(self.private_bytes(), passphrase)

    def private_bytes(self) -> bytes:
        """Return the key unencrypted, for a vault and nothing else."""
        return self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def issue(
        self, public_key: _PublicKey, identity: Identity, *, hosts: Sequence[str] = (), now: int
    ) -> x509.Certificate:
        """Return a certificate for a member; ``hosts`` are the names and addresses of a server."""
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.urn)]
        names += [_host(host) for host in hosts]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.name)])
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        root_key_id = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        return (
            _builder(subject, self.certificate.subject, public_key, now, MEMBER_VALIDITY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(root_key_id.value),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )

    def revoke(self, revoked: Mapping[int, int], *, number: int, now: int) -> bytes:
        """Return a revocation list (DER) of serial numbers and the times at which they were revoked.

        It is valid as long as the root: whoever has no newer list keeps refusing these certificates.
        """
        moment = datetime.fromtimestamp(now, UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(moment - _BACKDATED)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
        )
        for serial, at in sorted(revoked.items()):
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(
                entry.revocation_date(datetime.fromtimestamp(at, UTC)).build()
            )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.DER)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: _PublicKey, now: int, validity: timedelta
) -> x509.CertificateBuilder:
    moment = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _BACKDATED)
        .not_valid_after(moment + validity)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
