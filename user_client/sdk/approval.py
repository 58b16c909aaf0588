"""Approval: the lead answers requests for certificates, for invitations and for renewals.

Looking at the requests needs no passphrase. Exactly the requests that were looked at are signed, whatever the
analyst answers next.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal
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
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.sdk.consortium import (
    invitation_path,
    invitations,
    mapping_of,
    members,
    record,
    require_leading,
    unlock_root,
)
from user_client.sdk.session import Session

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
"""A watch looks again after the first pause, and less often while no request comes."""


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
    """When the request came, by the analyst's word (Unix seconds)."""
    earlier: x509.Certificate | None = None
    """The certificate that was issued for this very request before, and is handed out again."""
    mapping: NameMapping | None = None
    """The CA and name that the party's certificate of its own PKI was checked against."""

    @property
    def key_fingerprint(self) -> str:
        """The text that the party reads aloud to prove that the key is its own."""
        return key_fingerprint(self.key)


@dataclass(frozen=True)
class Approved:
    """A certificate that was issued, for an invitation or a renewal."""

    request_id: str
    identity: Identity
    certificate: x509.Certificate


@dataclass(frozen=True)
class RequestSigned:
    """During a watch: a request was signed."""

    request: Waiting


@dataclass(frozen=True)
class RequestRefused:
    """A request cannot be signed; each reason is reported once."""

    reason: str


@dataclass(frozen=True)
class AnalystUnreachable:
    """During a watch: the analyst does not answer, and the watch goes on. Reported once until it is back."""

    reason: str


ApprovalEvent = RequestSigned | RequestRefused | AnalystUnreachable


class Approval:
    """Approves requests at the analyst, for chosen parties or all, with a root key that is unlocked once.

    Parameters
    ----------
    passphrase : callable
        Returns the passphrase of the root key; called when the first certificate is signed.
    parties : collection of str
        Sign for these parties only; empty for all.
    report : callable
        Called with `RequestSigned`, `RequestRefused` or `AnalystUnreachable` as it happens.
    """

    def __init__(
        self,
        session: Session,
        passphrase: Callable[[], str],
        *,
        parties: Collection[str] = (),
        report: Callable[[ApprovalEvent], None] = lambda _event: None,
    ) -> None:
        self._session, self._passphrase, self._parties = session, passphrase, parties
        self._report = report
        self.refused: list[str] = []
        """Why requests cannot be signed, each reason once."""

    @cached_property
    def _root(self) -> Authority:
        return unlock_root(self._session, self._passphrase())

    def waiting(self) -> list[Waiting]:
        """Return the requests at the analyst that may be signed; report why others may not."""
        waiting, refused = waiting_requests(self._session)
        for reason in refused:
            if reason not in self.refused:
                self.refused.append(reason)
                self._report(RequestRefused(reason))
        return [one for one in waiting if self._is_chosen(one.identity.name)]

    def approve(self, waiting: Sequence[Waiting]) -> list[Approved]:
        """Issue certificates for requests that were looked at, and hand them to the analyst."""
        return approve_waiting(self._session, waiting, self._root) if waiting else []

    def approve_file(self, waiting: Waiting) -> Approved:
        """Issue a certificate for a request that came as a file, to carry by hand."""
        return approve_checked(self._session, waiting, self._root)

    def watch(
        self,
        seconds: float,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> list[Approved]:
        """Approve requests as they come, until all who are invited have joined or the time is up.

        Neither a request that cannot be signed nor an analyst that does not answer yet ends the watch.

        Raises
        ------
        PassphraseError
            At once, if the passphrase is wrong.
        ConnectionFailedError
            If the analyst does not answer when the time is up.
        """
        _ = self._root  # now, while the person who knows the passphrase is still there
        approved: list[Approved] = []
        end, pause_s, is_reported = clock() + seconds, FIRST_PAUSE_S, False
        while True:
            try:
                signed, is_reported = self._approve_now(), False
            except TlsFailedError:
                raise  # waiting does not help
            except ConnectionFailedError as error:
                if clock() >= end:
                    raise
                if not is_reported:
                    self._report(AnalystUnreachable(error.detail))
                signed, is_reported = [], True
            approved += signed
            if not self._is_awaited() or clock() >= end:
                return approved
            pause_s = FIRST_PAUSE_S if signed else pause_s
            pause(pause_s)
            pause_s = min(1.25 * pause_s, LONGEST_PAUSE_S)

    def _approve_now(self) -> list[Approved]:
        waiting = self.waiting()
        approved = self.approve(waiting)
        for one in waiting:
            self._report(RequestSigned(one))
        return approved

    def _is_awaited(self) -> bool:
        """Return whether an institution can still answer one of our invitations."""
        now = self._session.clock()
        return any(
            one.role == "institution" and one.expires_at > now and self._is_chosen(one.party)
            for one in invitations(self._session)
        )

    def _is_chosen(self, party: str) -> bool:
        return not self._parties or party in self._parties


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
    """Issue certificates for requests that were looked at, and hand them to the analyst.

    ``root`` comes from `unlock_root`, which takes half a second.
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
    """Issue certificates for all requests at the analyst that answer one of our invitations.

    Raises
    ------
    InvitationError
        If there are other requests; it names each. Those that can be approved have been approved by then.
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
        raise MalformedMessageError("enrolments", "are not a list of requests") from None


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
    """Certify each key, and record each certificate before it is handed out."""
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
    """Check a request against its invitation.

    (1) The ticket is ours; (2) the MAC was made with the join secret; (3) the invitation has not expired;
    (4) the key was not revoked; (5) the certificate of the party's own PKI is the expected one, if we expect
    one. Role, name and address are taken from the invitation. A key that was certified for this invitation
    before gets the same certificate again.
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
        raise InvitationError(f"the request for {invitation.party} was not made with its join secret")
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


def _check_renewal(session: Session, request: bytes, more_hosts: Sequence[str], since: int | None) -> Waiting:
    """Check that a member asks for its own name again: the request is signed with its old certificate.

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
    key = requested_key(verified.message.csr)
    mapping = _check_own_certificate(session, verified.author.name, verified.message.chain, key)
    return Waiting(
        verified.message.renewal_id, "renewal", verified.author, key, tuple(hosts), since, mapping=mapping
    )
