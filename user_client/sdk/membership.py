"""Joining a consortium with an invitation."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from protocol.codec import decode, encode
from protocol.errors import CertificateRefusedError, InputError, InvitationError
from protocol.identity import Identity, TrustRoot, load_certificate, public_key, same_key
from protocol.invitation import Invitation
from protocol.messages import Enrolment
from protocol.operations import CERTIFICATE_REQUEST_STATUS, REQUEST_CERTIFICATE
from runtime.files import write_whole
from user_client.custody.home import Home, Membership
from user_client.errors import NotJoinedError
from user_client.sdk.discovery import meet
from user_client.sdk.own_certificate import OwnCertificate
from user_client.sdk.session import Session
from user_client.transport import AnalystConnection, Traffic

POLL_S: Final = 1.0


def join(
    session: Session,
    invitation: Invitation | None,
    *,
    own: OwnCertificate | None = None,
    wait_s: float = 0,
    pause: Callable[[float], None] = time.sleep,
) -> Membership | None:
    """Ask for a certificate and fetch it once the lead has approved.

    The key is made here and stays here, unless ``own`` brings one that our own PKI has certified, as an
    invitation may ask. Calling again goes on with the same request; ``invitation`` and ``own``
    may then be None. A member whose certificate has ended joins again the same way, with its old key.

    Returns
    -------
    Membership or None
        None if the lead has not approved within ``wait_s`` seconds.

    Raises
    ------
    InvitationError
        If the invitation is for an analyst, has expired or was used.
    InputError
        If the invitation asks for a certificate of our own PKI and gets none, another, or the reverse; or if
        there is a key here already that is not the one of ``own``.
    CertificateRefusedError
        If what comes back is not a certificate for our key and name under the invitation's root.
    """
    home = session.home
    if session.is_joined():
        membership = session.membership
        if invitation is not None and not _is_ours(invitation, membership):
            raise InvitationError(
                f"{home.path} belongs to {membership.party} of {membership.consortium}; choose another --home"
            )
        is_asked = invitation is not None or home.invitation_path.exists()
        if session.certificate_ends_in_s() > 0 or not is_asked:
            return membership
    invitation = invitation or _under_way(home)
    if invitation.role == "analyst":
        raise InvitationError("the invitation is for an analyst: use `odc-analyst join`")
    if invitation.expires_at <= session.clock():
        raise InvitationError("the invitation has expired")
    invitation.trust_root()
    request_path = home.path / "request.odc"
    earlier = _earlier_request(request_path, invitation)
    if own is not None or earlier is None:
        _check_own_certificate(invitation, own, at=session.clock())
    if own is not None:
        home.adopt_key(own.key)
    home.write_secret(home.invitation_path, invitation.to_json().encode())
    with AnalystConnection(
        invitation.analyst_url, invitation.root_certificate, None, Traffic(home.traffic_path)
    ) as connection:
        meet(connection, invitation.analyst_url, home.analyst_path, session.clock())
        request = earlier  # a CSR is signed afresh each time; send the one we sent before
        if request is None or (own is not None and own.chain != request.chain):
            request = invitation.answer(home.make_key(), own.chain if own else ())
        body = encode(request)
        write_whole(request_path, body)
        answer = connection.ask_json(REQUEST_CERTIFICATE, body)
        pem = poll_certificate(connection, answer, invitation.invitation_id, wait_s, pause)
    if pem is None:
        return None
    membership = _install(session, invitation, load_certificate(pem))
    home.invitation_path.unlink()  # its secret has done its work
    request_path.unlink()
    home.renewal_path.unlink(missing_ok=True)  # it was signed with the certificate that has ended
    return membership


def _earlier_request(path: Path, invitation: Invitation) -> Enrolment | None:
    """Return the request that answered this invitation before, and no older one."""
    if not path.exists():
        return None
    earlier = decode(Enrolment, path.read_bytes())
    return earlier if base64.b64encode(earlier.ticket).decode() == invitation.ticket else None


def _check_own_certificate(invitation: Invitation, own: OwnCertificate | None, *, at: int) -> None:
    """Raise `InputError` if the lead, who has written down what it expects, could not approve."""
    expected = invitation.certificate_name
    if expected is None and own is not None:
        error = InputError("the invitation expects no certificate of our own PKI")
        error.hint = (
            "join without --cert and --key, or ask for an invitation that was made with --ca and --name"
        )
        raise error
    if expected is not None and own is None:
        error = InputError(f"the invitation expects the certificate of our own PKI with the name {expected}")
        error.hint = "odc join INVITATION --cert CHAIN.pem --key KEY.pem"
        raise error
    if expected is not None and own is not None:
        own.check(expected, at=at)


def _under_way(home: Home) -> Invitation:
    if not home.invitation_path.exists():
        raise NotJoinedError("there is no invitation under way; give the invitation's file")
    return Invitation.from_json(home.read_secret(home.invitation_path).decode())


def poll_certificate(
    connection: AnalystConnection,
    answer: dict[str, Any],
    request_id: str,
    wait_s: float,
    pause: Callable[[float], None],
) -> bytes | None:
    """Return the certificate (PEM), asking again for ``wait_s`` seconds if the first answer has none."""
    waited = 0.0
    while not isinstance(answer.get("certificate"), str):
        if waited >= wait_s:
            return None
        pause(POLL_S)
        waited += POLL_S
        answer = connection.ask_json(CERTIFICATE_REQUEST_STATUS, invitation_id=request_id)
    return str(answer["certificate"]).encode()


def check_own(session: Session, root: TrustRoot, certificate: x509.Certificate, identity: Identity) -> None:
    """Raise `CertificateRefusedError` unless a new certificate is for our name and our key."""
    if root.identify(certificate, at=session.clock()) != identity:
        raise CertificateRefusedError("the certificate is for another party than was asked for")
    if not same_key(public_key(certificate), session.home.key().public_key()):
        raise CertificateRefusedError("the certificate is not for the key of this institution")


def _is_ours(invitation: Invitation, membership: Membership) -> bool:
    return (invitation.consortium_id, invitation.role, invitation.party) == (
        membership.consortium_id,
        membership.role,
        membership.party,
    )


def _install(session: Session, invitation: Invitation, certificate: x509.Certificate) -> Membership:
    root = invitation.trust_root()
    membership = Membership(
        invitation.consortium,
        invitation.consortium_id,
        invitation.analyst_url,
        invitation.role,
        invitation.party,
        invitation.certificate_name,
    )
    check_own(session, root, certificate, membership.identity)
    session.home.write_membership(membership, certificate, root.certificate)
    return membership
