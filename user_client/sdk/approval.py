"""Approval: the lead answers requests for certificates, for invitations and for renewals.

Looking at the requests needs no passphrase. Exactly the requests that were looked at are signed, whatever the
analyst answers next.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.errors import InputError, InvitationError, MalformedMessageError, OdcError
from protocol.identity import Identity, key_digest
from protocol.invitation import Rejection
from protocol.limits import MAX_PENDING_ENROLMENTS
from protocol.operations import (
    ISSUE_CERTIFICATE,
    LIST_CERTIFICATE_REQUESTS,
    REJECT_CERTIFICATE_REQUEST,
)
from user_client.custody.authority import Authority
from user_client.errors import ConnectionFailedError, TlsFailedError
from user_client.sdk.certificate_requests import Issued, Waiting, check, check_request, issued_by_key
from user_client.sdk.consortium import (
    invitation_path,
    invitations,
    record,
    require_leading,
    unlock_root,
)
from user_client.sdk.session import Session

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
"""A watch looks again after the first pause, and less often while no request comes."""


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
    issued: Issued | None = None
    for row in _pending_requests(session):
        if issued is None:  # read once, and not in a look that finds nobody waiting
            issued = issued_by_key(session)
        try:
            waiting.append(check(session, row.body, issued, since=row.since))
        except OdcError as error:
            refused.append(error.detail)
    return waiting, refused


def reject(session: Session, party: str, reason: str) -> int:
    """Reject what a party asks for, with a reason that it reads; return the number of requests.

    The invitation that a request answers is withdrawn.

    Raises `InputError` if the reason is no line of text, or no request of the party waits.
    """
    require_leading(session)
    body = Rejection.body_of(reason)
    ids = [row.request_id for row in _pending_requests(session) if row.party == party]
    if not ids:
        raise InputError(f"no request of {party} waits")
    for invitation in invitations(session):  # the analyst's word withdraws no other party's
        if invitation.party == party and invitation.invitation_id in ids:
            invitation_path(session.home, invitation.invitation_id).unlink(missing_ok=True)
    for request_id in ids:
        session.connection.ask(REJECT_CERTIFICATE_REQUEST, body, invitation_id=request_id)
    return len(ids)


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
        raise unsignable(refused)
    return approved


def unsignable(refused: Sequence[str]) -> InvitationError:
    """Return the error that tells why requests cannot be signed, and what to do with them."""
    error = InvitationError("; ".join(refused))
    error.hint = "`odc consortium reject PARTY --reason TEXT` answers a request that you will not sign"
    return error


@dataclass(frozen=True)
class _Pending:
    """A request as the analyst lists it."""

    request_id: str
    party: str
    since: int
    body: bytes

    @classmethod
    def of(cls, row: dict[str, Any]) -> _Pending:
        body = base64.b64decode(row["request"])
        return cls(str(row["invitation_id"]), str(row["party"]), int(row["requested_at"]), body)


def _pending_requests(session: Session) -> Iterator[_Pending]:
    """Yield the requests at the analyst, page by page; an analyst of an earlier version has one page."""
    query = ""
    for _ in range(MAX_PENDING_ENROLMENTS):
        answer = session.connection.ask_json(LIST_CERTIFICATE_REQUESTS, query=query)
        try:
            rows = [_Pending.of(row) for row in answer["enrolments"]]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise MalformedMessageError("enrolments", "are not a list of requests") from None
        yield from rows
        if not rows or not isinstance(answer.get("next"), str):
            return
        query = urlencode({"after": answer["next"]})


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


def _issue(session: Session, waiting: Sequence[Waiting], root: Authority) -> list[Approved]:
    """Certify each key, and record each certificate before it is handed out."""
    now = session.clock()
    approved = []
    for one in waiting:
        certificate = one.earlier or root.issue(one.key, one.identity, hosts=one.hosts, now=now)
        record(session.home, certificate)
        if one.identity.role == "analyst" and one.kind == "invitation":  # the lead has compared its key
            session.home.believe_analyst(key_digest(one.key))
        approved.append(Approved(one.request_id, one.identity, certificate))
    return approved
