"""Check a request for a certificate: an enrolment against its invitation, a renewal against its author."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.codec import decode
from protocol.envelope import Signed, join_mac
from protocol.errors import CertificateRefusedError, InputError, InvitationError, ProtocolError, TrustError
from protocol.identity import (
    Identity,
    key_digest,
    key_fingerprint,
    load_der_certificate,
    public_key,
    requested_key,
    same_key,
)
from protocol.invitation import Invitation
from protocol.messages import Enrolment, InvitationTicket, Renewal
from protocol.own_pki import NameMapping
from user_client.sdk.consortium import Member, invitation_path, mapping_of, members, require_leading
from user_client.sdk.session import Session

Issued: TypeAlias = Mapping[str, Sequence[Member]]
"""Every certificate of this root, by the digest of its key."""


@dataclass(frozen=True)
class Waiting:
    """A request that passed the checks: the lead may sign it."""

    request_id: str
    kind: Literal["invitation", "renewal"]
    identity: Identity
    key: ec.EllipticCurvePublicKey
    hosts: tuple[str, ...] = ()
    """Names and addresses of a server."""
    since: int | None = None
    """When the request came, as the analyst reports it (Unix seconds)."""
    earlier: x509.Certificate | None = None
    """The certificate that was issued for this very request before, and is handed out again."""
    mapping: NameMapping | None = None
    """The CA and name that the party's certificate of its own PKI was checked against."""

    @property
    def key_fingerprint(self) -> str:
        """The text that the party reads aloud to prove that the key is its own."""
        return key_fingerprint(self.key)


def check_request(session: Session, request: bytes, *, hosts: Sequence[str] = ()) -> Waiting:
    """Check a request that came as a file: the analyst's, before its server runs.

    Parameters
    ----------
    hosts : sequence of str
        Names and addresses of the analyst besides the one in the invitations.
    """
    require_leading(session)
    for host in hosts:
        if not _is_host(host):
            raise InputError(f"'{host}' is not the name or address of a machine")
    if request.lstrip().startswith((b"{", b"-----BEGIN")):
        error = InputError("the file is an invitation or a certificate, and no request for one")
        error.hint = "the request is the file that `odc-analyst join` has written: analyst-request.odc"
        raise error
    return check(session, request, issued_by_key(session), hosts)


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", text, re.IGNORECASE) is not None


def issued_by_key(session: Session) -> Issued:
    """Return every certificate that this root has issued, by the digest of its key."""
    issued: dict[str, list[Member]] = {}
    for one in members(session):
        issued.setdefault(key_digest(public_key(one.certificate)), []).append(one)
    return issued


def check(
    session: Session,
    request: bytes,
    issued: Issued,
    more_hosts: Sequence[str] = (),
    *,
    since: int | None = None,
) -> Waiting:
    """Check a request from the analyst, or from a file; raises `InvitationError` or `TrustError`.

    ``issued`` is from `issued_by_key`: whoever checks many requests reads the certificates once.
    """
    try:
        decode(Signed, request)
    except ProtocolError:
        return _check_enrolment(session, request, issued, more_hosts, since)
    return _check_renewal(session, request, issued, more_hosts, since)


def _check_enrolment(
    session: Session, request: bytes, all_issued: Issued, more_hosts: Sequence[str], since: int | None
) -> Waiting:
    """Check a request against its invitation.

    (1) The ticket is ours; (2) the MAC was made with the join secret; (3) the invitation has not expired;
    (4) the key was not revoked; (5) the certificate of the party's own PKI is the expected one, if we expect
    one. Role, name and address are taken from the invitation. A key that was certified for this invitation
    before gets the same certificate again.
    """
    enrolment = decode(Enrolment, request)
    ticket = session.verify(InvitationTicket, enrolment.ticket)  # (1)
    if ticket.author != session.membership.identity:
        raise InvitationError("the request answers an invitation of another party")
    key = requested_key(enrolment.csr)
    issued = all_issued.get(key_digest(key), [])
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
        raise InvitationError(f"the request for {invitation.party} was not made with its join secret")
    if invitation.expires_at <= session.clock():  # (3)
        raise InvitationError(f"the invitation of {invitation.party} has expired")
    _refuse_revoked(invitation.party, issued)  # (4)
    mapping = _check_own_certificate(session, invitation.party, enrolment.chain, key)  # (5)
    identity = Identity(invitation.consortium_id, invitation.role, invitation.party)
    host = urlsplit(invitation.analyst_url).hostname
    hosts = (host, *more_hosts) if invitation.role == "analyst" and host else ()
    return Waiting(invitation_id, "invitation", identity, key, hosts, since, mapping=mapping)


def _refuse_revoked(party: str, issued: Sequence[Member]) -> None:
    """Raise `InvitationError` if one of the certificates of a key was revoked."""
    if any(one.state == "revoked" for one in issued):
        raise InvitationError(
            f"the request for {party} is for a key that was revoked: "
            "it has to join from a new state directory"
        )


def _check_own_certificate(
    session: Session, party: str, chain: Sequence[bytes], key: ec.EllipticCurvePublicKey
) -> NameMapping | None:
    """Return the CA and name that a party's certificate of its own PKI was checked against, if there are any.

    A certificate that was not asked for is refused rather than ignored, because its sender relies on it.
    """
    mapping = mapping_of(session.home, party)
    if mapping is None and chain:
        raise CertificateRefusedError(
            f"{party} sends a certificate of its own PKI, but no CA and name were given to check it against: "
            "`odc consortium invite --ca --name`"
        )
    if mapping is None:
        return None
    if not chain:
        raise CertificateRefusedError(
            f"{party} does not send the certificate of its own PKI that its invitation asks for: "
            "it has to run `odc join` or `odc renew` with --cert"
        )
    try:
        mapping.check(chain, key, at=session.clock())
    except TrustError as error:
        raise CertificateRefusedError(f"the certificate of {party}'s own PKI: {error.detail}") from None
    return mapping


def _check_renewal(
    session: Session, request: bytes, all_issued: Issued, more_hosts: Sequence[str], since: int | None
) -> Waiting:
    """Check that a member asks for its own name and key again, in a request signed with its old certificate.

    Whoever relays requests may sign with the analyst's key: a new one has to be compared, as at the start.

    A certificate of its own PKI, where we expect one, is checked as in an enrolment.
    """
    verified = session.verify(Renewal, request)
    old = load_der_certificate(decode(Signed, request).certificate)
    names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
    if verified.author.role == "analyst":  # only the analyst runs a server
        hosts += more_hosts
    key, name = requested_key(verified.message.csr), verified.author.name
    if not same_key(key, public_key(old)):
        raise InvitationError(f"{name} asks to renew for another key than it has: that takes an invitation")
    _refuse_revoked(name, all_issued.get(key_digest(key), []))
    mapping = _check_own_certificate(session, name, verified.message.chain, key)
    return Waiting(
        verified.message.renewal_id, "renewal", verified.author, key, tuple(hosts), since, mapping=mapping
    )
