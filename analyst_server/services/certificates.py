"""Certificates of the consortium: requests go to the lead, certificates and revocations come from it.

The analyst can neither read the join secret nor forge a request. It checks the lead's ticket, or the
signature of the member that renews, so that strangers cannot fill its store, and passes everything on.
A party has one request without a certificate at most, so that no member can fill it either.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator
from typing import Final, Literal

from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services.acts import note
from analyst_server.services.analyst import Analyst, require_lead
from analyst_server.store import Enrolled, EnrolledState, Revocations, Unit
from protocol.answers import Answer
from protocol.codec import decode
from protocol.envelope import Signed, decode_stored, verify
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    InvitationError,
    LimitExceededError,
    MalformedMessageError,
    NotFoundError,
    OdcError,
)
from protocol.identity import (
    Identity,
    RevocationList,
    load_certificate,
    load_der_certificate,
    public_key,
    requested_key,
    same_key,
)
from protocol.invitation import Rejection
from protocol.limits import MAX_MESSAGE_BYTES, MAX_PENDING_ENROLMENTS
from protocol.messages import Enrolment, InvitationTicket, Renewal

log = logging.getLogger(__name__)

MOST_OF_A_PAGE: Final = 1024
"""Requests of one page; those with the longest chains fill it before."""
_FROM_THE_START: Final = (-1, "")
_REQUESTS: Final = "requests for certificates"
"""Whoever changes these is alone with them: they have a limit, and a party has one without an answer."""
PLACE: Final = re.compile("([0-9]{1,12})-([0-9a-f]{32})")
"""Where a page of requests has ended."""


class RequestStatus(Answer):
    """What became of a request for a certificate."""

    invitation_id: str
    state: Literal["pending", "issued", "rejected"]
    certificate: str | None
    """PEM, once the lead has issued it."""
    reason: str | None
    """Why the lead has rejected it."""


class PendingRequest(Answer):
    """A request that waits for the lead."""

    invitation_id: str
    role: str
    party: str
    state: Literal["pending"]
    kind: str
    """``enrolment`` or ``renewal``."""
    requested_at: int
    request: str
    """The message as it was received, in base64."""


class PendingRequests(Answer):
    """A page of the requests that wait for the lead, oldest first."""

    enrolments: list[PendingRequest]
    next: str | None
    """Where the next page begins; None after the last."""


def request(analyst: Analyst, body: bytes) -> tuple[RequestStatus, bool]:
    """Keep a newcomer's request for a certificate; return its status, and whether it is new.

    Raises
    ------
    InvitationError
        If the ticket is not the lead's, or has expired.
    CertificateRefusedError
        If the request is not signed by a P-256 key.
    AlreadyExistsError
        If the invitation was used with another key.
    """
    now = analyst.clock()
    enrolment = decode(Enrolment, body)
    ticket = verify(InvitationTicket, enrolment.ticket, analyst.root, at=now)
    if ticket.author.role != "lead" or ticket.message.consortium_id != analyst.root.consortium_id:
        raise InvitationError("the invitation was not made by the lead institution")
    if ticket.message.expires_at <= now:
        raise InvitationError("the invitation has expired")
    requested_key(enrolment.csr)
    row = Enrolled(
        invitation_id=ticket.message.invitation_id,
        kind="enrolment",
        role=ticket.message.role,
        party=ticket.message.party,
        request=body,
        certificate=None,
        created_at=now,
    )
    with analyst.records.begin(write=True) as unit:
        return _keep(unit, row)


def request_renewal(analyst: Analyst, sender: Identity, body: bytes) -> tuple[RequestStatus, bool]:
    """Keep a member's request for a new certificate of its own name; return the same as `request`.

    Raises
    ------
    NotPermittedError
        If another member signed it.
    CertificateRefusedError
        If the request is not signed by a P-256 key.
    AlreadyExistsError
        If its id was used before.
    """
    renewal = analyst.verify_from(sender, Renewal, body).message
    requested_key(renewal.csr)
    row = Enrolled(
        invitation_id=renewal.renewal_id,
        kind="renewal",
        role=sender.role,
        party=sender.name,
        request=body,
        certificate=None,
        created_at=analyst.clock(),
    )
    with analyst.records.begin(write=True) as unit:
        return _keep(unit, row)


def _keep(unit: Unit, row: Enrolled) -> tuple[RequestStatus, bool]:
    """Keep a request in the place of one of the same party that has no certificate."""
    unit.alone_with(_REQUESTS)
    known = unit.enrolment(row.invitation_id)
    if known is not None:
        if known.request != row.request:
            error = AlreadyExistsError("this invitation was already used with another key")
            error.hint = (
                "if it was not you, somebody else has it: telephone the lead institution, which rejects that"
                " request and invites again"
            )
            raise error
        return _status(known), False
    unit.forget_unissued(row.role, row.party)
    if unit.count_pending() >= MAX_PENDING_ENROLMENTS:
        raise LimitExceededError("pending enrolments", MAX_PENDING_ENROLMENTS)
    unit.add(row)
    return _status(row), True


def status(analyst: Analyst, invitation_id: str) -> RequestStatus:
    """Return the status of a request, which anybody who knows its id may see.

    Raises `NotFoundError`.
    """
    with analyst.records.begin() as unit:
        return _status(_find(unit, invitation_id))


def pending(analyst: Analyst, sender: Identity, after: str = "") -> PendingRequests:
    """Return the requests that wait for the lead, as many as fit, from where another page ended on.

    Raises `NotPermittedError` for any other sender, `MalformedMessageError` if ``after`` is no such place.
    """
    require_lead(sender)
    found = PLACE.fullmatch(after)
    if after and found is None:
        raise MalformedMessageError("after", "is not where a page has ended")
    place = (int(found[1]), found[2]) if found else _FROM_THE_START
    with analyst.records.begin() as unit:
        waiting = unit.open_enrolments(place, MOST_OF_A_PAGE + 1)
        page = list(_as_fit(waiting[:MOST_OF_A_PAGE]))
        requests = unit.requests_of([one.invitation_id for one in page])
    rows = [_pending(one, requests[one.invitation_id]) for one in page if one.invitation_id in requests]
    is_last = len(page) == len(waiting)
    return {
        "enrolments": rows,
        "next": None if is_last else f"{page[-1].created_at}-{page[-1].invitation_id}",
    }


def _as_fit(waiting: list[EnrolledState]) -> Iterator[EnrolledState]:
    """Yield requests until a message would be full; at least one."""
    size = 0
    for number, one in enumerate(waiting):
        size += one.request_bytes
        if number and size > MAX_MESSAGE_BYTES:
            return
        yield one


def _pending(state: EnrolledState, request: bytes) -> PendingRequest:
    return {
        "invitation_id": state.invitation_id,
        "role": state.role,
        "party": state.party,
        "state": "pending",
        "kind": state.kind,
        "requested_at": state.created_at,
        "request": base64.b64encode(request).decode(),
    }


def issue(analyst: Analyst, sender: Identity, invitation_id: str, body: bytes) -> None:
    """Keep the certificate that the lead issued for a request.

    Raises
    ------
    NotPermittedError
        If the sender is not the lead.
    CertificateRefusedError
        If the certificate does not lead to the root, or is for another key or name than was requested.
    """
    require_lead(sender)
    certificate = load_certificate(body)
    identity = analyst.root.identify(certificate, at=analyst.clock())
    with analyst.records.begin(write=True) as unit:
        unit.alone_with(_REQUESTS)
        row = _find(unit, invitation_id)
        wanted = requested_key(_csr(row))
        same_name = (identity.role, identity.name) == (row.role, row.party)
        if not (same_name and same_key(wanted, public_key(certificate))):
            raise CertificateRefusedError("the certificate is not for the key or name that was requested")
        row.certificate, row.rejected = certificate.public_bytes(Encoding.PEM), None
        note(unit, "issue certificate", analyst.clock(), row.party)


def reject(analyst: Analyst, sender: Identity, invitation_id: str, body: bytes) -> None:
    """Answer a request with the reason why the lead issues no certificate; another reason replaces it.

    Raises
    ------
    NotPermittedError
        If the sender is not the lead.
    AlreadyExistsError
        If a certificate was issued for the request.
    """
    require_lead(sender)
    reason = Rejection.from_json(body).reason
    with analyst.records.begin(write=True) as unit:
        unit.alone_with(_REQUESTS)
        row = _find(unit, invitation_id)
        if row.certificate is not None:
            error = AlreadyExistsError("a certificate was issued for this request")
            error.hint = "to take it back: `odc consortium revoke PARTY`"
            raise error
        row.rejected = reason
        note(unit, "reject request", analyst.clock(), row.party)


def publish_revocations(analyst: Analyst, sender: Identity, der: bytes) -> None:
    """Use a new revocation list from the next request on, and keep it.

    Requests for renewal that a revoked certificate has signed are deleted.

    Raises
    ------
    NotPermittedError
        If the sender is not the lead.
    CertificateRefusedError
        If the list is not signed by the root, is older than the one in use, or another with its number.
    """
    require_lead(sender)
    root = analyst.root
    published = RevocationList(der, root.certificate)
    try:
        with analyst.records.begin(write=True) as unit:
            unit.alone_with(_REQUESTS)
            kept = unit.keep_revocations(
                Revocations(number=published.number, der=der, received_at=analyst.clock())
            )
            published.check_after(RevocationList(kept.der, root.certificate))
            note(unit, "revoke certificates", analyst.clock(), f"list {published.number}")
            revoked = [
                (role, party)
                for role, party, request in unit.open_renewals()
                if _signer(request) in published.revoked_at
            ]
            for role, party in revoked:
                unit.forget_unissued(role, party)
    finally:
        load_revocations(analyst)  # also where another process has kept a newer one


def _signer(request: bytes) -> int:
    """Return the serial number of the certificate that has signed a request for renewal."""
    return load_der_certificate(decode(Signed, request).certificate).serial_number


def newest_revocations(analyst: Analyst) -> bytes:
    """Return the revocation list in use (DER); raises `NotFoundError` until there is one."""
    held = analyst.root.revocations
    if held is None:
        raise NotFoundError("no certificate of this consortium was revoked yet")
    return held.der


def follow_revocations(analyst: Analyst) -> None:
    """Use the revocation list that another process of the analyst may have taken."""
    try:
        load_revocations(analyst)
    except OdcError as error:
        log.warning("revocations of other processes are not seen now: %s", error.detail)


def load_revocations(analyst: Analyst) -> None:
    """Use the newest revocation list that was kept, if there is one."""
    with analyst.records.begin() as unit:
        row = unit.revocations()
    held = analyst.root.revocations
    if row is not None and (held is None or row.number > held.number):
        analyst.root.adopt_unless_newer(row.der)


def _find(unit: Unit, invitation_id: str) -> Enrolled:
    row = unit.enrolment(invitation_id)
    if row is None:
        raise NotFoundError("there is no such request, or a newer one of the same party has replaced it")
    return row


def _csr(row: Enrolled) -> bytes:
    """Return the PKCS #10 request of a message that was checked when it was received."""
    if row.kind == "renewal":
        return decode_stored(Renewal, row.request).csr
    return decode(Enrolment, row.request).csr


def _status(row: Enrolled) -> RequestStatus:
    return {
        "invitation_id": row.invitation_id,
        "state": "issued" if row.certificate else "rejected" if row.rejected else "pending",
        "certificate": row.certificate.decode() if row.certificate else None,
        "reason": row.rejected,
    }
