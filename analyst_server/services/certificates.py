"""Certificates of the consortium: requests go to the lead, certificates and revocations come from it.

The analyst can neither read the join secret nor forge a request. It checks the lead's ticket, or the
signature of the member that renews, so that strangers cannot fill its store, and passes everything on.
"""

from __future__ import annotations

import base64
from typing import Literal, TypedDict

from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services.analyst import Analyst, require_lead
from analyst_server.store import Enrolled, Revocations, Unit
from protocol.codec import decode
from protocol.envelope import decode_stored, verify
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    InvitationError,
    LimitExceededError,
    NotFoundError,
)
from protocol.identity import (
    Identity,
    RevocationList,
    load_certificate,
    public_key,
    requested_key,
    same_key,
)
from protocol.limits import MAX_PENDING_ENROLMENTS
from protocol.messages import Enrolment, InvitationTicket, Renewal


class RequestStatus(TypedDict):
    """What became of a request for a certificate."""

    invitation_id: str
    state: Literal["pending", "issued"]
    certificate: str | None
    """PEM, once the lead has issued it."""


class PendingRequest(TypedDict):
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
    known = unit.enrolment(row.invitation_id)
    if known is not None:
        if known.request != row.request:
            raise AlreadyExistsError("this invitation was already used with another key")
        return _status(known), False
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


def pending(analyst: Analyst, sender: Identity) -> list[PendingRequest]:
    """Return the requests that wait for the lead; raises `NotPermittedError` for any other sender."""
    require_lead(sender)
    with analyst.records.begin() as unit:
        return [
            {
                "invitation_id": row.invitation_id,
                "role": row.role,
                "party": row.party,
                "state": "pending",
                "kind": row.kind,
                "requested_at": row.created_at,
                "request": base64.b64encode(row.request).decode(),
            }
            for row in unit.enrolments(pending=True)
        ]


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
        row = _find(unit, invitation_id)
        wanted = requested_key(_csr(row))
        same_name = (identity.role, identity.name) == (row.role, row.party)
        if not (same_name and same_key(wanted, public_key(certificate))):
            raise CertificateRefusedError("the certificate is not for the key or name that was requested")
        row.certificate = certificate.public_bytes(Encoding.PEM)


def publish_revocations(analyst: Analyst, sender: Identity, der: bytes) -> None:
    """Use a new revocation list from the next request on, and keep it.

    Raises
    ------
    NotPermittedError
        If the sender is not the lead.
    CertificateRefusedError
        If the list is not signed by the root, or is older than the one in use.
    """
    require_lead(sender)
    number = RevocationList(der, analyst.root.certificate).number
    analyst.root.adopt(der)
    with analyst.records.begin(write=True) as unit:
        unit.put_revocations(Revocations(number=number, der=der, received_at=analyst.clock()))


def newest_revocations(analyst: Analyst) -> bytes:
    """Return the revocation list in use (DER); raises `NotFoundError` until there is one."""
    held = analyst.root.revocations
    if held is None:
        raise NotFoundError("no certificate of this consortium was revoked yet")
    return held.der


def load_revocations(analyst: Analyst) -> None:
    """Use the revocation list that was kept, if there is one; called when the process starts."""
    with analyst.records.begin() as unit:
        row = unit.revocations()
    if row is not None:
        analyst.root.adopt(row.der)


def _find(unit: Unit, invitation_id: str) -> Enrolled:
    row = unit.enrolment(invitation_id)
    if row is None:
        raise NotFoundError("there is no such enrolment")
    return row


def _csr(row: Enrolled) -> bytes:
    """Return the PKCS #10 request of a message that was checked when it was received."""
    if row.kind == "renewal":
        return decode_stored(Renewal, row.request).csr
    return decode(Enrolment, row.request).csr


def _status(row: Enrolled) -> RequestStatus:
    return {
        "invitation_id": row.invitation_id,
        "state": "issued" if row.certificate else "pending",
        "certificate": row.certificate.decode() if row.certificate else None,
    }
