"""Who somebody is: role and name, read from a certificate of the consortium.

A certificate carries one subject alternative name ``urn:odc:CONSORTIUM:ROLE:NAME``. Chains are
verified by `cryptography.x509.verification`; nothing here builds a path of its own.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from pydantic import TypeAdapter, ValidationError

from protocol.errors import CertificateRefusedError, CertificateRevokedError, LimitExceededError
from protocol.limits import MAX_REVOCATION_LIST_BYTES
from protocol.messages import Role
from protocol.texts import Identifier, PartyName

_NAME: TypeAdapter[str] = TypeAdapter(PartyName)
_ID: TypeAdapter[str] = TypeAdapter(Identifier)
UNREADABLE = (
    ValueError,
    TypeError,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
    x509.DuplicateExtension,
    UnsupportedAlgorithm,
)
"""What `cryptography` raises for parts of a certificate that it parses only when they are read."""


@dataclass(frozen=True)
class Identity:
    """A member of one consortium."""

    consortium_id: str
    role: Role
    name: str

    @property
    def urn(self) -> str:
        """The name as it stands in a certificate."""
        return f"urn:odc:{self.consortium_id}:{self.role}:{self.name}"

    @classmethod
    def from_urn(cls, urn: str) -> Identity:
        """Parse `urn`; raises `CertificateRefusedError`."""
        parts = urn.split(":")
        try:
            scheme, namespace, consortium_id, role, name = parts
            if (scheme, namespace) != ("urn", "odc") or role not in get_args(Role):
                raise ValueError(urn)
            return cls(_ID.validate_python(consortium_id), role, _NAME.validate_python(name))  # type: ignore[arg-type]  # membership was just tested
        except (ValueError, ValidationError):
            raise CertificateRefusedError("the certificate names no role of a consortium") from None


def load_certificate(data: bytes) -> x509.Certificate:
    """Parse the only certificate of a file in DER or PEM; raises `CertificateRefusedError`.

    Of several, people would compare the first, and TLS would trust them all.
    """
    if not data.startswith(b"-----BEGIN"):
        return load_der_certificate(data)
    if data.count(b"-----BEGIN ") > 1:
        raise CertificateRefusedError("the file has more than one certificate, or a key beside it")
    try:
        return x509.load_pem_x509_certificate(data)
    except UNREADABLE:
        raise CertificateRefusedError("the certificate cannot be read") from None


def load_der_certificate(data: bytes) -> x509.Certificate:
    """Parse a certificate as it stands in a message; raises `CertificateRefusedError`."""
    try:
        certificate = x509.load_der_x509_certificate(data)
        signature = certificate.signature
    except UNREADABLE:
        raise CertificateRefusedError("the certificate cannot be read") from None
    if not data.endswith(b"\x00" + signature):  # bits left over at its end are signed by nobody
        raise CertificateRefusedError("the certificate is not in its one form")
    return certificate


def public_key(holder: x509.Certificate | x509.CertificateSigningRequest) -> ec.EllipticCurvePublicKey:
    """Return the P-256 key in a certificate or request; raises `CertificateRefusedError`."""
    try:
        key = holder.public_key()
    except UNREADABLE:
        raise CertificateRefusedError("the key in the certificate cannot be read") from None
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise CertificateRefusedError("the key in the certificate is not for ECDSA P-256")
    return key


def certificate_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Return a PKCS #10 request (DER) for a key. The name is for people: the issuer does not copy it."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.DER)


def requested_key(csr: bytes) -> ec.EllipticCurvePublicKey:
    """Return the key of a PKCS #10 request (DER), if its holder signed the request.

    Raises `CertificateRefusedError`.
    """
    try:
        request = x509.load_der_x509_csr(csr)
        key, is_signed = public_key(request), request.is_signature_valid
    except UNREADABLE:
        raise CertificateRefusedError("the request for a certificate cannot be read") from None
    if not is_signed:
        raise CertificateRefusedError("the request for a certificate is not signed by its key")
    return key


def same_key(one: ec.EllipticCurvePublicKey, other: ec.EllipticCurvePublicKey) -> bool:
    """Return whether two public keys are the same."""
    return one.public_numbers() == other.public_numbers()


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate in groups of four hexadecimal digits, for people to read aloud."""
    return read_aloud(certificate.fingerprint(hashes.SHA256()))


def key_fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Return the SHA-256 of a public key (DER, SubjectPublicKeyInfo) in the same form."""
    return read_aloud(bytes.fromhex(key_digest(key)))


def key_digest(key: ec.EllipticCurvePublicKey) -> str:
    """Return the same in one piece, as terms have it."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def read_aloud(digest: bytes) -> str:
    """Return a digest in groups of four hexadecimal digits."""
    text = digest.hex()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def certified_name(certificate: x509.Certificate) -> Identity:
    """Return whom a certificate names, without checking it: only for certificates that we issued ourselves.

    Raises `CertificateRefusedError`.
    """
    try:
        return _named(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (*UNREADABLE, x509.ExtensionNotFound):
        raise CertificateRefusedError("the certificate cannot be read") from None


def _named(names: Iterable[x509.GeneralName]) -> Identity:
    urns = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    if len(urns) != 1:
        raise CertificateRefusedError("the certificate names no role of a consortium")
    return Identity.from_urn(urns[0])


def _require_signing(certificate: x509.Certificate) -> None:
    """Raise `CertificateRefusedError` if a keyUsage does not allow signatures: the verifier does not ask.

    Without a keyUsage the key may do everything (RFC 5280, 4.2.1.3).
    """
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return
    except UNREADABLE:  # the verifier does not read every extension
        raise CertificateRefusedError("the certificate cannot be read") from None
    if not usage.digital_signature:
        raise CertificateRefusedError("the certificate's keyUsage does not allow its key to sign")


def reason_of(error: VerificationError) -> str:
    """Return the reason of an error without the subject that it quotes: its holder chose that text."""
    return str(error).partition(" (encountered processing")[0]


class RevocationList:
    """The certificates that the lead institution has revoked: a CRL signed by the root.

    Raises
    ------
    LimitExceededError
        If ``data`` is longer than a list may be.
    CertificateRefusedError
        If it is not a numbered list that ``root`` signed.
    """

    def __init__(self, data: bytes, root: x509.Certificate) -> None:
        if len(data) > MAX_REVOCATION_LIST_BYTES:
            raise LimitExceededError("revocation list in bytes", MAX_REVOCATION_LIST_BYTES, len(data))
        try:
            crl = x509.load_der_x509_crl(data)
            is_signed = crl.issuer == root.subject and crl.is_signature_valid(public_key(root))
            self.number = crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
            self.revoked_at = {
                entry.serial_number: int(entry.revocation_date_utc.timestamp()) for entry in crl
            }
        except (*UNREADABLE, x509.ExtensionNotFound):
            raise CertificateRefusedError("the revocation list cannot be read") from None
        if not is_signed:
            raise CertificateRefusedError("the revocation list was not signed by the consortium's root")
        self.der = data

    def __repr__(self) -> str:
        return f"<RevocationList {self.number}, {len(self.revoked_at)} certificates>"

    def check_after(self, held: RevocationList | None) -> None:
        """Raise `CertificateRefusedError` unless this list may take the place of one that is held.

        It has a higher number, or is the same list: of two with one number, nobody can tell which holds.
        """
        if held is None or self.number > held.number or self.der == held.der:
            return
        if self.number < held.number:
            raise CertificateRefusedError(
                f"the revocation list is number {self.number}, older than {held.number}"
            )
        error = CertificateRefusedError(f"there is another revocation list with the number {self.number}")
        error.hint = "the lead runs `odc revocations`, then `odc consortium revoke PARTY` again"
        raise error


class TrustRoot:
    """The consortium's root certificate: the one thing everybody has to compare out of band.

    It holds the newest revocation list it was given, for everybody who shares this object.
    """

    def __init__(self, certificate: x509.Certificate) -> None:
        try:
            names = certificate.subject.get_attributes_for_oid(x509.NameOID.SERIAL_NUMBER)
        except UNREADABLE:
            raise CertificateRefusedError("the root certificate cannot be read") from None
        if len(names) != 1:
            raise CertificateRefusedError("the root certificate names no consortium")
        self.certificate = certificate
        self.consortium_id = str(names[0].value)
        self._store = Store([certificate])
        self._adopting = threading.Lock()
        self.revocations: RevocationList | None = None

    def __repr__(self) -> str:
        return f"<TrustRoot of consortium {self.consortium_id[:8]}>"

    def adopt(self, revocations: bytes) -> None:
        """Use a revocation list (DER) from now on. Of several threads, the highest number stays.

        Raises `CertificateRefusedError` if it is not the root's, older than the one held, or another with
        the same number.
        """
        found = RevocationList(revocations, self.certificate)
        with self._adopting:
            found.check_after(self.revocations)
            self.revocations = found

    def adopt_unless_newer(self, revocations: bytes) -> None:
        """Use a revocation list (DER) from now on, unless a newer one is in use."""
        found = RevocationList(revocations, self.certificate)
        with self._adopting:
            if self.revocations is None or found.number > self.revocations.number:
                self.revocations = found

    def identify(self, certificate: x509.Certificate, *, at: int) -> Identity:
        """Return whom a certificate names, if this root issued it and it is valid at ``at`` (unix seconds).

        Raises `CertificateRefusedError`, or `CertificateRevokedError`.
        """
        moment = datetime.fromtimestamp(at, UTC)
        verifier = PolicyBuilder().store(self._store).time(moment).max_chain_depth(0).build_client_verifier()
        try:
            verified = verifier.verify(certificate, [])
        except VerificationError as error:
            raise CertificateRefusedError(f"the certificate does not hold: {reason_of(error)}") from None
        except UNREADABLE:
            raise CertificateRefusedError("the certificate cannot be read") from None
        _require_signing(certificate)
        identity = _named(verified.subjects or [])
        if identity.consortium_id != self.consortium_id:
            raise CertificateRefusedError("the certificate belongs to another consortium")
        if self.revocations is not None and certificate.serial_number in self.revocations.revoked_at:
            raise CertificateRevokedError(f"the certificate of {identity.name} was revoked")
        return identity
