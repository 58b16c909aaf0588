"""Approval: the lead answers requests for certificates, those of invitations and those of renewals."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import decode
from protocol.envelope import Signed, join_mac
from protocol.errors import InputError, InvitationError, MalformedMessageError, OdcError, ProtocolError
from protocol.identity import Identity, load_der_certificate, public_key, requested_key, same_key
from protocol.invitation import Invitation
from protocol.messages import Enrolment, InvitationTicket, Renewal
from user_client.custody.authority import Authority
from user_client.sdk.consortium import invitation_path, members, record, unlock_root
from user_client.sdk.session import Session


@dataclass(frozen=True)
class Approved:
    """A certificate that was issued, for an invitation or a renewal."""

    request_id: str
    identity: Identity
    certificate: x509.Certificate


def approve_pending(session: Session, passphrase: str) -> list[Approved]:
    """Issue certificates for all requests at the analyst that answer an invitation of ours.

    Raises
    ------
    InvitationError
        If there are requests that do not, after all others were approved; it names each.
    """
    bodies = _pending_requests(session)
    if not bodies:
        return []
    authority = unlock_root(session, passphrase)
    approved: list[Approved] = []
    refused: list[str] = []
    for body in bodies:
        try:
            one = _approve(session, authority, body)
        except OdcError as error:
            refused.append(error.detail)
            continue
        session.connection.request(
            "PUT",
            f"/v1/enrolments/{one.request_id}/certificate",
            content=one.certificate.public_bytes(Encoding.DER),
        )
        invitation_path(session.home, one.request_id).unlink(missing_ok=True)
        approved.append(one)
    if refused:
        raise InvitationError("; ".join(refused))
    return approved


def _pending_requests(session: Session) -> list[bytes]:
    try:
        rows = session.connection.get_json("/v1/enrolments")["enrolments"]
        return [base64.b64decode(row["request"]) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise MalformedMessageError("enrolments", "are no list of requests") from None


def approve_request(
    session: Session, request: bytes, passphrase: str, *, hosts: Sequence[str] = ()
) -> Approved:
    """Issue a certificate for a request that came as a file: the analyst's, before it serves.

    Parameters
    ----------
    hosts : sequence of str
        Names and addresses the analyst answers to, beside the one in the invitations.
    """
    for host in hosts:
        if not _is_host(host):
            raise InputError(f"'{host}' is no name or address of a machine")
    approved = _approve(session, unlock_root(session, passphrase), request, hosts)
    invitation_path(session.home, approved.request_id).unlink(missing_ok=True)
    return approved


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", text, re.IGNORECASE) is not None


def _approve(
    session: Session, authority: Authority, request: bytes, more_hosts: Sequence[str] = ()
) -> Approved:
    try:
        decode(Signed, request)
    except ProtocolError:
        approved = _approve_enrolment(session, authority, request, more_hosts)
    else:
        approved = _approve_renewal(session, authority, request, more_hosts)
    record(session.home, approved.certificate)
    return approved


def _approve_enrolment(
    session: Session, authority: Authority, request: bytes, more_hosts: Sequence[str]
) -> Approved:
    """Check a request against its invitation: (1) its ticket is ours, (2) its MAC is by the join
    secret, (3) the invitation has not ended, (4) its key was not revoked. Role, name and address are the
    invitation's. A key that was certified for the invitation gets the same certificate again.
    """
    enrolment = decode(Enrolment, request)
    ticket = session.verify(InvitationTicket, enrolment.ticket)  # (1)
    if ticket.author != session.membership.identity:
        raise InvitationError("the request answers an invitation of somebody else")
    key = requested_key(enrolment.csr)
    earlier = [one for one in members(session) if same_key(key, public_key(one.certificate))]
    path = invitation_path(session.home, ticket.message.invitation_id)
    if not path.exists():
        for one in earlier:
            if one.state == "valid" and one.identity.name == ticket.message.party:
                return Approved(ticket.message.invitation_id, one.identity, one.certificate)
        raise InvitationError(f"the invitation of {ticket.message.party} was used or withdrawn")
    invitation = Invitation.from_json(session.home.read_secret(path).decode())
    expected = join_mac(bytes.fromhex(invitation.join_secret), enrolment.ticket, enrolment.csr)
    if not hmac.compare_digest(expected, enrolment.mac):  # (2)
        raise InvitationError(f"the request for {invitation.party} does not know the join secret")
    now = session.clock()
    if invitation.expires_at <= now:  # (3)
        raise InvitationError(f"the invitation of {invitation.party} has expired")
    if any(one.state == "revoked" for one in earlier):  # (4)
        raise InvitationError(
            f"the request for {invitation.party} is for a key that was revoked: "
            "it has to join from a new state directory"
        )
    identity = Identity(invitation.consortium_id, invitation.role, invitation.party)
    host = urlsplit(invitation.analyst_url).hostname
    hosts = [host, *more_hosts] if invitation.role == "analyst" and host else []
    return Approved(invitation.invitation_id, identity, authority.issue(key, identity, hosts=hosts, now=now))


def _approve_renewal(
    session: Session, authority: Authority, request: bytes, more_hosts: Sequence[str]
) -> Approved:
    """Certify a member's key again: the signature by its old certificate is its right to ask."""
    verified = session.verify(Renewal, request)
    old = load_der_certificate(decode(Signed, request).certificate)
    names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
    if verified.author.role == "analyst":  # nobody else serves
        hosts += more_hosts
    key = requested_key(verified.message.csr)
    certificate = authority.issue(key, verified.author, hosts=hosts, now=session.clock())
    return Approved(verified.message.renewal_id, verified.author, certificate)
