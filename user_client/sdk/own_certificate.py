"""A certificate of our own PKI, for joining and renewing; it is checked here before the lead sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from protocol.errors import InputError, TrustError
from protocol.identity import load_der_certificate, public_key, same_key
from protocol.limits import MAX_CHAIN_CERTIFICATE_BYTES, MAX_CHAIN_CERTIFICATES
from protocol.own_pki import NameMapping, carries_name, check_name
from user_client.errors import PassphraseError


@dataclass(frozen=True)
class OwnCertificate:
    """A key and the certificates that our own PKI has issued for it.

    Parameters
    ----------
    key : EllipticCurvePrivateKey
        P-256.
    chain : tuple of bytes
        Certificates (DER), that of the key first.
    authority : Certificate, optional
        The CA that the chain must lead to.

    Raises
    ------
    InputError
        If the first certificate is not for the key, or there are too many of them.
    """

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    chain: tuple[bytes, ...]
    authority: x509.Certificate | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.chain) <= MAX_CHAIN_CERTIFICATES:
            raise InputError(
                f"the file contains {len(self.chain)} certificates, expected 1 to {MAX_CHAIN_CERTIFICATES}: "
                "ours first, then the intermediate ones"
            )
        if max(map(len, self.chain)) > MAX_CHAIN_CERTIFICATE_BYTES:
            raise InputError(f"a certificate has more than {MAX_CHAIN_CERTIFICATE_BYTES} bytes")
        if not same_key(_key_of(self.chain[0]), self.key.public_key()):
            raise InputError("the first certificate in the file is not for our key")

    def check(self, name: str, *, at: int) -> None:
        """Raise `InputError` unless the lead, who expects a name, can approve this at ``at`` (Unix seconds).

        Whether the chain leads to the CA is checked only if ``authority`` is known.
        """
        check_name(name)  # it comes from a file
        if not carries_name(load_der_certificate(self.chain[0]), name):
            raise InputError(f"our certificate does not carry the name that the lead expects: {name}")
        if self.authority is None:
            return
        try:
            NameMapping(self.authority, name).check(self.chain, self.key.public_key(), at=at)
        except TrustError as error:
            raise InputError(f"our certificate: {error.detail}") from None


def read_certificates(data: bytes) -> list[x509.Certificate]:
    """Parse a file of certificates, PEM or one in DER; raises `InputError`."""
    try:
        if b"-----BEGIN" in data:
            return x509.load_pem_x509_certificates(data)
        return [x509.load_der_x509_certificate(data)]
    except ValueError:
        raise InputError("the file contains no certificate in PEM or DER") from None


def read_authority(data: bytes) -> x509.Certificate:
    """Parse the certificate of one CA, PEM or DER; raises `InputError`."""
    found = read_certificates(data)
    if len(found) != 1:
        raise InputError(f"the file contains {len(found)} certificates, expected only that of the CA")
    return found[0]


def read_own_certificate(
    data: bytes, key: ec.EllipticCurvePrivateKey, authority: bytes | None = None
) -> OwnCertificate:
    """Parse our certificate and the intermediate ones, for our key; raises `InputError`."""
    chain = tuple(one.public_bytes(Encoding.DER) for one in read_certificates(data))
    return OwnCertificate(key, chain, None if authority is None else read_authority(authority))


def read_own_key(pem: bytes, passphrase: Callable[[], str]) -> ec.EllipticCurvePrivateKey:
    """Parse a private key; its passphrase is asked for if it has one.

    Raises `PassphraseError`, or `InputError` if it is not a key for ECDSA P-256.
    """
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:  # it is encrypted
        try:
            key = load_pem_private_key(pem, passphrase().encode())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise PassphraseError("the passphrase of our own PKI's key is wrong") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("the file contains no private key in PEM") from None
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)):
        error = InputError("the key is not for ECDSA P-256, which every identity key must be")
        error.hint = (
            "generate one and have it certified: "
            "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
        )
        raise error
    return key


def _key_of(certificate: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return public_key(load_der_certificate(certificate))
    except TrustError as error:
        raise InputError(f"our certificate: {error.detail}") from None
