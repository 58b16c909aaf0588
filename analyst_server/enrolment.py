"""The analyst's own certificate: asked for with an invitation, by files, before there is a server."""

from __future__ import annotations

import logging
import secrets
import time
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from protocol.codec import encode
from protocol.envelope import sign
from protocol.errors import CertificateRefusedError, InvitationError
from protocol.identity import (
    Identity,
    TrustRoot,
    certificate_request,
    certified_name,
    key_fingerprint,
    load_certificate,
    public_key,
    same_key,
)
from protocol.invitation import Invitation
from protocol.messages import Renewal
from runtime.files import write_whole

log = logging.getLogger(__name__)

REQUEST_FILE = "analyst-request.odc"
_LOOK_S: Final = 0.1


def join(identity_dir: Path, invitation: Invitation, *, now: int) -> bytes:
    """Make the key where it is used and return the request to carry to the lead institution.

    Joining again with the same key gives the same lead a new request; the key is never replaced.

    Raises
    ------
    InvitationError
        If the invitation is for another role, or has expired.
    """
    if invitation.role != "analyst":
        raise InvitationError(f"the invitation is for {invitation.party}, not for an analyst")
    if invitation.expires_at <= now:
        raise InvitationError("the invitation has expired")
    invitation.trust_root()
    identity_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    key_path = identity_dir / "key.pem"
    if not key_path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        write_whole(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    root_path = identity_dir / "root.pem"
    if root_path.exists() and root_path.read_text() != invitation.root_certificate:
        raise InvitationError(f"{identity_dir} belongs to another consortium; choose another --data-dir")
    root_path.write_text(invitation.root_certificate)
    return encode(invitation.answer(_load(key_path)))


def renew(identity_dir: Path) -> bytes:
    """Return a request for a new certificate of the same name and key, to carry to the lead.

    Raises `CertificateRefusedError` if there is no certificate yet.
    """
    path = identity_dir / "certificate.pem"
    if not path.exists():
        raise CertificateRefusedError(f"there is no certificate in {identity_dir}; join first")
    certificate, key = load_certificate(path.read_bytes()), _load(identity_dir / "key.pem")
    identity = certified_name(certificate)
    renewal = Renewal(
        consortium_id=identity.consortium_id,
        renewal_id=secrets.token_hex(16),
        csr=certificate_request(key, identity.name),
    )
    return sign(renewal, key, certificate)


def install(identity_dir: Path, certificate_pem: bytes, *, now: int) -> Identity:
    """Check the certificate the lead issued and put it beside its key.

    Raises
    ------
    CertificateRefusedError
        If it is not for our key, not for an analyst, or does not lead to the invitation's root.
    """
    key_path = identity_dir / "key.pem"
    if not key_path.exists():
        raise InvitationError(f"there is no key in {identity_dir}; join first")
    certificate = load_certificate(certificate_pem)
    root = TrustRoot(load_certificate((identity_dir / "root.pem").read_bytes()))
    identity = root.identify(certificate, at=now)
    if identity.role != "analyst":
        raise CertificateRefusedError(f"the certificate is for {identity.role} {identity.name}")
    if not same_key(public_key(certificate), _load(key_path).public_key()):
        raise CertificateRefusedError("the certificate is not for the key of this analyst")
    # whole at once: a server may be waiting for it
    write_whole(identity_dir / "certificate.pem", certificate.public_bytes(Encoding.PEM))
    return identity


def wait_until_installed(identity_dir: Path, seconds: float) -> None:
    """Return when there is a certificate, or when time is up."""
    path, ends_at = identity_dir / "certificate.pem", time.monotonic() + seconds
    if seconds and not path.exists():
        log.info("waiting %g s for %s", seconds, path)
    while not path.exists() and time.monotonic() < ends_at:
        time.sleep(_LOOK_S)


def own_key_fingerprint(identity_dir: Path) -> str:
    """Return the fingerprint of the key that was made here, for people to compare."""
    return key_fingerprint(_load(identity_dir / "key.pem").public_key())


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateRefusedError(f"{path} is not an ECDSA key")
    return key
