"""The lead institution's consortium: root, invitations, certificates."""

from __future__ import annotations

import base64
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import ValidationError

from protocol.codec import decode, explain
from protocol.envelope import join_mac, sign
from protocol.errors import InputError, InvitationError, MalformedMessageError, OdcError
from protocol.identity import Identity, TrustRoot, fingerprint, load_certificate
from protocol.invitation import Invitation, is_analyst_url
from protocol.limits import MAX_NAME_CHARS
from protocol.messages import Enrolment, InvitationTicket, Role
from user_client.custody.authority import Authority
from user_client.custody.files import write_whole
from user_client.custody.home import Home, Membership
from user_client.errors import NotJoinedError
from user_client.sdk.session import Session

INVITATION_VALIDITY_S: Final = 14 * 24 * 3600


@dataclass(frozen=True)
class Approved:
    """A certificate that was issued."""

    invitation_id: str
    identity: Identity
    certificate: x509.Certificate


def create_consortium(
    session: Session, *, name: str, party: str, analyst_url: str, passphrase: str
) -> Membership:
    """Draw the root, keep it locked, and make this institution the lead.

    Raises `InputError` if this directory belongs to a consortium already.
    """
    home, now = session.home, session.clock()
    if home.is_joined():
        raise InputError(f"{home.path} belongs to a consortium already; choose another --home")
    if len(passphrase) < 8:
        raise InputError("the passphrase of the root key needs at least 8 characters")
    authority = Authority.create(name, now=now)
    root = TrustRoot(authority.certificate)
    membership = Membership(name, root.consortium_id, analyst_url, "lead", party)
    try:  # the same rules as everywhere a party's name or an address is read
        InvitationTicket(
            consortium_id=root.consortium_id,
            invitation_id=secrets.token_hex(16),
            role="lead",
            party=party,
            expires_at=now,
        )
    except ValidationError as error:
        raise InputError(explain(error)) from None
    if not is_analyst_url(analyst_url):
        raise InputError("the analyst's address must be https://HOST:PORT, with nothing behind it")
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InputError(f"the name of the consortium must be 1 to {MAX_NAME_CHARS} readable characters")
    certificate = authority.issue(home.make_key().public_key(), membership.identity, now=now)
    write_whole(home.consortium_path / "root.locked", authority.lock(passphrase))
    write_whole(home.consortium_path / "root.pem", authority.certificate.public_bytes(Encoding.PEM))
    home.write_membership(membership, certificate, authority.certificate)
    return membership


def invite(session: Session, party: str, *, role: Role = "institution") -> Invitation:
    """Make a one-time invitation and remember its secret, to recognise the answer by."""
    home, now = session.home, session.clock()
    membership = _lead(session)
    root_pem = (home.consortium_path / "root.pem").read_text()
    invitation_id = secrets.token_hex(16)
    expires_at = now + INVITATION_VALIDITY_S
    try:
        ticket = InvitationTicket(
            consortium_id=membership.consortium_id,
            invitation_id=invitation_id,
            role=role,
            party=party,
            expires_at=expires_at,
        )
    except ValidationError as error:
        raise InputError(explain(error)) from None
    invitation = Invitation(
        consortium=membership.consortium,
        consortium_id=membership.consortium_id,
        role=role,
        party=party,
        analyst_url=membership.analyst_url,
        invitation_id=invitation_id,
        join_secret=secrets.token_hex(32),
        expires_at=expires_at,
        root_fingerprint=fingerprint(load_certificate(root_pem.encode())),
        root_certificate=root_pem,
        ticket=base64.b64encode(sign(ticket, home.key(), home.certificate())).decode(),
    )
    write_whole(_invitation_path(home, invitation_id), invitation.to_json().encode())
    return invitation


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
    authority = _unlock(session, passphrase)
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
            f"/v1/enrolments/{one.invitation_id}/certificate",
            content=one.certificate.public_bytes(Encoding.DER),
        )
        _invitation_path(session.home, one.invitation_id).unlink()
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


def approve_request(session: Session, request: bytes, passphrase: str) -> Approved:
    """Issue a certificate for a request that came as a file: the analyst's, before it serves."""
    return _approve(session, _unlock(session, passphrase), request)


def _approve(session: Session, authority: Authority, request: bytes) -> Approved:
    """Check a request against its invitation: (1) its ticket is ours, (2) its MAC is by the join
    secret, (3) the invitation has not ended. Role, name and address are the invitation's.
    """
    enrolment = decode(Enrolment, request)
    ticket = session.verify(InvitationTicket, enrolment.ticket)  # (1)
    if ticket.author != session.membership.identity:
        raise InvitationError("the request answers an invitation of somebody else")
    path = _invitation_path(session.home, ticket.message.invitation_id)
    if not path.exists():
        raise InvitationError(f"the invitation of {ticket.message.party} was used or withdrawn")
    invitation = Invitation.from_json(path.read_text())
    expected = join_mac(bytes.fromhex(invitation.join_secret), enrolment.ticket, enrolment.csr)
    if not hmac.compare_digest(expected, enrolment.mac):  # (2)
        raise InvitationError(f"the request for {invitation.party} does not know the join secret")
    now = session.clock()
    if invitation.expires_at <= now:  # (3)
        raise InvitationError(f"the invitation of {invitation.party} has expired")
    identity = Identity(invitation.consortium_id, invitation.role, invitation.party)
    host = urlsplit(invitation.analyst_url).hostname
    hosts = [host] if invitation.role == "analyst" and host else []
    certificate = authority.issue_for_request(enrolment.csr, identity, hosts=hosts, now=now)
    return Approved(invitation.invitation_id, identity, certificate)


def _lead(session: Session) -> Membership:
    membership = session.membership
    if membership.role != "lead":
        raise NotJoinedError(f"{membership.party} is not the lead institution of {membership.consortium}")
    return membership


def _unlock(session: Session, passphrase: str) -> Authority:
    _lead(session)
    directory = session.home.consortium_path
    certificate = load_certificate((directory / "root.pem").read_bytes())
    return Authority.unlock((directory / "root.locked").read_bytes(), passphrase, certificate)


def _invitation_path(home: Home, invitation_id: str) -> Path:
    return home.consortium_path / "invitations" / f"{invitation_id}.json"
