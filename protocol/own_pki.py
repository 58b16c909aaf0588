"""Which name in a certificate of a party's own PKI stands for the party.

Such a certificate is evidence, when the consortium's root certifies a key: it is never what a signature or
a connection is believed by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from protocol.errors import CertificateRefusedError, InputError
from protocol.identity import UNREADABLE, load_der_certificate, public_key, reason_of, same_key
from protocol.limits import MAX_NAME_CHARS

_UNREADABLE: Final = (*UNREADABLE, x509.ExtensionNotFound)
_ALTERNATIVE_NAMES: Final = {
    "dns": x509.DNSName,
    "uri": x509.UniformResourceIdentifier,
    "email": x509.RFC822Name,
}


@dataclass(frozen=True)
class NameMapping:
    """What the lead has noted about a party: which CA certifies it, and under which name.

    Parameters
    ----------
    authority : Certificate
        The CA that a path has to end at; it need not be a root.
    name : str
        ``dns:``, ``uri:`` or ``email:`` and a subject alternative name, or ``subject:`` and the whole
        subject as in RFC 4514.

    Raises
    ------
    InputError
        If the certificate is no CA's, or the name is of no such form.
    """

    authority: x509.Certificate
    name: str

    def __post_init__(self) -> None:
        try:
            constraints = self.authority.extensions.get_extension_for_class(x509.BasicConstraints).value
            is_authority = constraints.ca
        except _UNREADABLE:
            is_authority = False
        if not is_authority:
            raise InputError("the certificate given for the CA is not one that may issue others")
        check_name(self.name)

    def check(self, chain: Sequence[bytes], key: ec.EllipticCurvePublicKey, *, at: int) -> None:
        """Raise `CertificateRefusedError` unless a chain certifies ``key`` for the party.

        (1) It leads from its first certificate to this CA at time ``at`` (unix seconds); (2) that
        certificate is for the key, and (3) carries the name. Revocation lists of the CA are not read.
        """
        leaf, *intermediates = map(load_der_certificate, chain)
        moment = datetime.fromtimestamp(at, UTC)
        verifier = (
            PolicyBuilder()
            .store(Store([self.authority]))
            .time(moment)
            .extension_policies(ca_policy=ExtensionPolicy.webpki_defaults_ca(), ee_policy=_named_anywhere())
            .build_client_verifier()
        )
        try:  # (1)
            verifier.verify(leaf, intermediates)
        except VerificationError as error:
            raise CertificateRefusedError(f"it does not lead to the CA: {reason_of(error)}") from None
        except _UNREADABLE:
            raise CertificateRefusedError("it cannot be read") from None
        if not same_key(public_key(leaf), key):  # (2)
            raise CertificateRefusedError("it is for another key")
        if not carries_name(leaf, self.name):  # (3)
            raise CertificateRefusedError(f"it does not carry the name {self.name}")


def _named_anywhere() -> ExtensionPolicy:
    """Return the usual rules, except that a name may be in the subject alone, as in many."""
    rules = ExtensionPolicy.webpki_defaults_ee()
    return rules.may_be_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)


def check_name(name: str) -> None:
    """Raise `InputError` unless a text can be the name of a mapping."""
    kind, _, value = name.partition(":")
    is_known = kind in _ALTERNATIVE_NAMES or (kind == "subject" and _subject(value) is not None)
    if not (is_known and value and name.isprintable() and len(name) <= MAX_NAME_CHARS):
        error = InputError(f"no name in a certificate: it has at most {MAX_NAME_CHARS} readable characters")
        error.hint = "one of dns:HOST, uri:URI, email:ADDRESS, subject:CN=NAME,O=ORGANISATION (RFC 4514)"
        raise error


def carries_name(certificate: x509.Certificate, name: str) -> bool:
    """Return whether a certificate carries the name of a mapping, exactly except for upper case in a host."""
    kind, _, value = name.partition(":")
    try:
        if kind == "subject":
            return certificate.subject == _subject(value)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE:
        return False
    found = [str(one.value) for one in names if isinstance(one, _ALTERNATIVE_NAMES[kind])]
    if kind == "dns":
        return value.lower() in (host.lower() for host in found)
    return value in found


def _subject(text: str) -> x509.Name | None:
    """Return a subject parsed as in RFC 4514; None if the text is no subject, or an empty one."""
    try:
        subject = x509.Name.from_rfc4514_string(text)
    except ValueError:
        return None
    return subject if list(subject) else None
