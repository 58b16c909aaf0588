"""Invitations, requests for a certificate, and the certificates that answer them."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import encode
from protocol.identity import Identity, fingerprint
from protocol.invitation import Invitation
from protocol.messages import Enrolment, InvitationTicket
from tests.harness.certificates import CONSORTIUM_ID, NOW, issue_for, shared_root
from tests.harness.world import HOSPITAL, LEAD, signed

INVITATION_ID = "1a" * 16


def invitation(**changed: Any) -> Invitation:
    root = shared_root()
    values = {
        "consortium": "Heart",
        "consortium_id": CONSORTIUM_ID,
        "role": "analyst",
        "party": "analyst",
        "analyst_url": "https://analyst:8443",
        "invitation_id": "1a" * 16,
        "join_secret": "00" * 32,
        "expires_at": NOW + 1,
        "root_fingerprint": fingerprint(root.certificate),
        "root_certificate": root.pem.decode(),
        "ticket": "AAAA",
    }
    return Invitation(**{**values, **changed})


def ticket(*, by: str = LEAD, **changed: Any) -> bytes:
    values = {
        "consortium_id": CONSORTIUM_ID,
        "invitation_id": INVITATION_ID,
        "role": "institution",
        "party": HOSPITAL,
        "expires_at": NOW + 100,
    }
    return signed(by, InvitationTicket(**{**values, **changed}))


def request(key: ec.EllipticCurvePrivateKey | None = None, **changed: Any) -> bytes:
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "anything")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return encode(Enrolment(ticket=ticket(**changed), csr=csr.public_bytes(Encoding.DER), mac=bytes(32)))


def certificate(
    key: ec.EllipticCurvePrivateKey, party: str = HOSPITAL, *, role: Any = "institution"
) -> bytes:
    names = [x509.UniformResourceIdentifier(Identity(CONSORTIUM_ID, role, party).urn)]
    return issue_for(shared_root(), key.public_key(), names).public_bytes(Encoding.PEM)
