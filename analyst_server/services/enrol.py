"""Enrolment: relay requests for certificates to the lead, and the lead's certificates back.

The analyst can neither read the join secret nor forge a request: it checks the lead's ticket, or the
signature of a member that renews, so that strangers cannot fill its store, and passes everything on.
"""

from __future__ import annotations

import base64
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services.analyst import Analyst, require_lead
from analyst_server.store import Enrolled, Unit
from protocol.codec import decode
from protocol.envelope import decode_stored, verify
from protocol.errors import (
    AlreadyExistsError,
    CertificateRefusedError,
    InvitationError,
    LimitExceededError,
    NotFoundError,
)
from protocol.identity import Identity, load_certificate, public_key, requested_key, same_key
from protocol.limits import MAX_PENDING_ENROLMENTS
from protocol.messages import Enrolment, InvitationTicket, Renewal


def request(analyst: Analyst, body: bytes) -> tuple[dict[str, Any], bool]:
    """Keep a request for a certificate; return what became of it, and whether it is new.

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


def renew(analyst: Analyst, sender: Identity, body: bytes) -> tuple[dict[str, Any], bool]:
    """Keep a member's request for a new certificate of its own name, like `request`.

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


def _keep(unit: Unit, row: Enrolled) -> tuple[dict[str, Any], bool]:
    known = unit.enrolment(row.invitation_id)
    if known is not None:
        if known.request != row.request:
            raise AlreadyExistsError("this invitation was already used with another key")
        return _status(known), False
    if len(unit.enrolments(pending=True)) >= MAX_PENDING_ENROLMENTS:
        raise LimitExceededError("pending enrolments", MAX_PENDING_ENROLMENTS)
    unit.add(row)
    return _status(row), True


def status(analyst: Analyst, invitation_id: str) -> dict[str, Any]:
    """Return the state of a request and its certificate; both are public to who knows the id."""
    with analyst.records.begin() as unit:
        row = unit.enrolment(invitation_id)
        if row is None:
            raise NotFoundError("there is no such enrolment")
        return _status(row)


def pending(analyst: Analyst, sender: Identity) -> list[dict[str, Any]]:
    """Return the requests that wait for the lead."""
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
    """Keep the certificate the lead issued, if it is for the requested key and leads to the root."""
    require_lead(sender)
    certificate = load_certificate(body)
    identity = analyst.root.identify(certificate, at=analyst.clock())
    with analyst.records.begin(write=True) as unit:
        row = unit.enrolment(invitation_id)
        if row is None:
            raise NotFoundError("there is no such enrolment")
        wanted = requested_key(_csr(row))
        same_name = (identity.role, identity.name) == (row.role, row.party)
        if not (same_name and same_key(wanted, public_key(certificate))):
            raise CertificateRefusedError("the certificate is not for the key or name that was requested")
        row.certificate = certificate.public_bytes(Encoding.PEM)


def _csr(row: Enrolled) -> bytes:
    """The PKCS #10 request in what was kept; it was checked when it came."""
    if row.kind == "renewal":
        return decode_stored(Renewal, row.request).csr
    return decode(Enrolment, row.request).csr


def _status(row: Enrolled) -> dict[str, Any]:
    return {
        "invitation_id": row.invitation_id,
        "state": "issued" if row.certificate else "pending",
        "certificate": row.certificate.decode() if row.certificate else None,
    }
