"""Approval: the lead answers requests for certificates, those of invitations and those of renewals.

Looking at what waits takes no passphrase; signed is what was looked at, whatever the analyst says next.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.codec import decode
from protocol.envelope import Signed, join_mac
from protocol.errors import (
    CertificateRefusedError,
    InputError,
    InvitationError,
    MalformedMessageError,
    OdcError,
    ProtocolError,
    TrustError,
)
from protocol.identity import (
    Identity,
    key_fingerprint,
    load_der_certificate,
    public_key,
    requested_key,
    same_key,
)
from protocol.invitation import Invitation
from protocol.messages import Enrolment, InvitationTicket, Renewal
from protocol.operations import ISSUE_CERTIFICATE, LIST_CERTIFICATE_REQUESTS
from protocol.own_pki import NameMapping
from user_client.custody.authority import Authority
from user_client.sdk.consortium import (
    invitation_path,
    mapping_of,
    members,
    record,
    require_leading,
    unlock_root,
)
from user_client.sdk.session import Session


@dataclass(frozen=True)
class Waiting:
    """A request that was checked: the lead may sign it."""

    request_id: str
    kind: Literal["invitation", "renewal"]
    identity: Identity
    key: ec.EllipticCurvePublicKey
    hosts: tuple[str, ...] = ()
    """Names and addresses a server will answer to."""
    since: int | None = None
    """When the analyst says it came (unix seconds)."""
    earlier: x509.Certificate | None = None
    """What was issued for this very request already, and is given out again."""
    mapping: NameMapping | None = None
    """What the party's own certificate was checked by."""

    @property
    def key_fingerprint(self) -> str:
        """What the party reads aloud to prove that the key is its own."""
        return key_fingerprint(self.key)


@dataclass(frozen=True)
class Approved:
    """A certificate that was issued, for an invitation or a renewal."""

    request_id: str
    identity: Identity
    certificate: x509.Certificate


def waiting_requests(session: Session) -> tuple[list[Waiting], list[str]]:
    """Return the requests at the analyst that may be signed, and why others may not."""
    waiting: list[Waiting] = []
    refused: list[str] = []
    for body, since in _pending_requests(session):
        try:
            waiting.append(_check(session, body, since=since))
        except OdcError as error:
            refused.append(error.detail)
    return waiting, refused


def approve_waiting(session: Session, waiting: Sequence[Waiting], root: Authority) -> list[Approved]:
    """Issue certificates for requests that were looked at, and hand them to the analyst to fetch.

    ``root`` is what `unlock_root` has opened: once for a whole sitting, since that takes half a second.
    """
    approved = _issue(session, waiting, root)
    for one in approved:
        session.connection.ask(
            ISSUE_CERTIFICATE,
            one.certificate.public_bytes(Encoding.DER),
            invitation_id=one.request_id,
        )
        invitation_path(session.home, one.request_id).unlink(missing_ok=True)
    return approved


def approve_pending(session: Session, passphrase: str) -> list[Approved]:
    """Issue certificates for all requests at the analyst that answer an invitation of ours.

    Raises
    ------
    InvitationError
        If there are requests that do not, after all others were approved; it names each.
    """
    waiting, refused = waiting_requests(session)
    approved = approve_waiting(session, waiting, unlock_root(session, passphrase)) if waiting else []
    if refused:
        raise InvitationError("; ".join(refused))
    return approved


def _pending_requests(session: Session) -> list[tuple[bytes, int]]:
    try:
        rows = session.connection.ask_json(LIST_CERTIFICATE_REQUESTS)["enrolments"]
        return [(base64.b64decode(row["request"]), int(row["requested_at"])) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise MalformedMessageError("enrolments", "are no list of requests") from None


def check_request(session: Session, request: bytes, *, hosts: Sequence[str] = ()) -> Waiting:
    """Check a request that came as a file: the analyst's, before it serves.

    Parameters
    ----------
    hosts : sequence of str
        Names and addresses the analyst answers to, beside the one in the invitations.
    """
    require_leading(session)
    for host in hosts:
        if not _is_host(host):
            raise InputError(f"'{host}' is no name or address of a machine")
    return _check(session, request, hosts)


def approve_checked(session: Session, waiting: Waiting, root: Authority) -> Approved:
    """Issue a certificate for a request that `check_request` has checked, to carry by hand."""
    (approved,) = _issue(session, [waiting], root)
    invitation_path(session.home, approved.request_id).unlink(missing_ok=True)
    return approved


def approve_request(
    session: Session, request: bytes, passphrase: str, *, hosts: Sequence[str] = ()
) -> Approved:
    """Check a request that came as a file and issue a certificate for it."""
    waiting = check_request(session, request, hosts=hosts)
    return approve_checked(session, waiting, unlock_root(session, passphrase))


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", text, re.IGNORECASE) is not None


def _issue(session: Session, waiting: Sequence[Waiting], root: Authority) -> list[Approved]:
    """Certify each key, and remember it before it is handed out."""
    now = session.clock()
    approved = []
    for one in waiting:
        certificate = one.earlier or root.issue(one.key, one.identity, hosts=one.hosts, now=now)
        record(session.home, certificate)
        approved.append(Approved(one.request_id, one.identity, certificate))
    return approved


def _check(
    session: Session, request: bytes, more_hosts: Sequence[str] = (), *, since: int | None = None
) -> Waiting:
    try:
        decode(Signed, request)
    except ProtocolError:
        return _check_enrolment(session, request, more_hosts, since)
    return _check_renewal(session, request, more_hosts, since)


def _check_enrolment(
    session: Session, request: bytes, more_hosts: Sequence[str], since: int | None
) -> Waiting:
    """Check a request against its invitation: (1) its ticket is ours, (2) its MAC is by the join
    secret, (3) the invitation has not ended, (4) its key was not revoked, (5) its certificate of its own PKI
    is the one we asked for, if we did. Role, name and address are the invitation's. A key that was certified
    for the invitation gets the same certificate again.
    """
    enrolment = decode(Enrolment, request)
    ticket = session.verify(InvitationTicket, enrolment.ticket)  # (1)
    if ticket.author != session.membership.identity:
        raise InvitationError("the request answers an invitation of somebody else")
    key = requested_key(enrolment.csr)
    issued = [one for one in members(session) if same_key(key, public_key(one.certificate))]
    invitation_id, path = (
        ticket.message.invitation_id,
        invitation_path(session.home, ticket.message.invitation_id),
    )
    if not path.exists():
        for one in issued:
            if one.state == "valid" and one.identity.name == ticket.message.party:
                return Waiting(
                    invitation_id, "invitation", one.identity, key, since=since, earlier=one.certificate
                )
        raise InvitationError(f"the invitation of {ticket.message.party} was used or withdrawn")
    invitation = Invitation.from_json(session.home.read_secret(path).decode())
    secret = bytes.fromhex(invitation.join_secret)
    expected = join_mac(secret, enrolment.ticket, enrolment.csr, enrolment.chain)
    if not hmac.compare_digest(expected, enrolment.mac):  # (2)
        raise InvitationError(f"the request for {invitation.party} does not know the join secret")
    if invitation.expires_at <= session.clock():  # (3)
        raise InvitationError(f"the invitation of {invitation.party} has expired")
    if any(one.state == "revoked" for one in issued):  # (4)
        raise InvitationError(
            f"the request for {invitation.party} is for a key that was revoked: "
            "it has to join from a new state directory"
        )
    mapping = _check_own_certificate(session, invitation.party, enrolment.chain, key)  # (5)
    identity = Identity(invitation.consortium_id, invitation.role, invitation.party)
    host = urlsplit(invitation.analyst_url).hostname
    hosts = (host, *more_hosts) if invitation.role == "analyst" and host else ()
    return Waiting(invitation_id, "invitation", identity, key, hosts, since, mapping=mapping)


def _check_own_certificate(
    session: Session, party: str, chain: Sequence[bytes], key: ec.EllipticCurvePublicKey
) -> NameMapping | None:
    """Return what a party's certificate of its own PKI was checked by.

    One that nobody asked for is refused and not passed over: its sender believes that it counts.
    """
    mapping = mapping_of(session.home, party)
    if mapping is None and chain:
        raise CertificateRefusedError(
            f"{party} comes with a certificate of its own PKI, and no CA and name were given to check it by: "
            "`odc consortium invite --ca --name`"
        )
    if mapping is None:
        return None
    if not chain:
        raise CertificateRefusedError(
            f"{party} comes without the certificate of its own PKI that its invitation asks for: "
            "it gives it with --cert to `odc join`, or to `odc renew`"
        )
    try:
        mapping.check(chain, key, at=session.clock())
    except TrustError as error:
        raise CertificateRefusedError(f"the certificate of {party}'s own PKI: {error.detail}") from None
    return mapping


def _check_renewal(session: Session, request: bytes, more_hosts: Sequence[str], since: int | None) -> Waiting:
    """Check that a member asks for its own name again: its old certificate's signature is its right to.

    The word of its own PKI, where we ask for it, has to be as fresh as in an enrolment.
    """
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
    mapping = _check_own_certificate(session, verified.author.name, verified.message.chain, key)
    return Waiting(
        verified.message.renewal_id, "renewal", verified.author, key, tuple(hosts), since, mapping=mapping
    )
