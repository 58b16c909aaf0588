"""The certificates of the consortium that the analyst knows of.

Whoever finds its own name with another key knows that the root has certified somebody in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from protocol.codec import unpack_list
from protocol.identity import TrustRoot, key_digest, load_der_certificate, public_key, same_key
from protocol.operations import LIST_CERTIFICATES
from user_client.sdk.analyst_key import believed
from user_client.sdk.consortium import Member, state_of
from user_client.sdk.session import Session


@dataclass(frozen=True)
class KnownCertificate:
    """A certificate that leads to our root.

    Attributes
    ----------
    member : Member
        Whom it names, and whether it is valid.
    is_expected : bool, optional
        In our own name, whether it is for our key; of an analyst, whether for the one that is believed. None
        for the name of another.
    """

    member: Member
    is_expected: bool | None


def list_certificates(session: Session) -> list[KnownCertificate]:
    """Return the certificates that the analyst knows of, sorted by name and age.

    Raises `CertificateRefusedError` if one does not lead to our root.
    """
    bodies: list[bytes] = []
    last = ""
    while page := unpack_list(session.connection.ask(LIST_CERTIFICATES, query=f"after={last}").content):
        bodies += page
        digest = sha256(page[-1]).hexdigest()
        if digest <= last:  # an analyst that repeats itself says nothing more
            break
        last = digest
    root = session.home.root()
    found = [_known(session, root, body) for body in dict.fromkeys(bodies)]
    return sorted(
        found, key=lambda one: (one.member.identity.name, one.member.certificate.not_valid_before_utc)
    )


def _known(session: Session, root: TrustRoot, der: bytes) -> KnownCertificate:
    certificate = load_der_certificate(der)
    state = state_of(certificate, root, session.clock())
    ended = int(certificate.not_valid_after_utc.timestamp())
    # a revoked one was of this root all the same
    identity = TrustRoot(root.certificate).identify(certificate, at=min(session.clock(), ended))
    key, is_expected = public_key(certificate), None
    if identity.name == session.membership.party:
        is_expected = same_key(key, public_key(session.home.certificate()))
    elif identity.role == "analyst" and (trusted := believed(session.home)) is not None:
        is_expected = key_digest(key) == trusted
    return KnownCertificate(Member(identity, certificate, state), is_expected)
