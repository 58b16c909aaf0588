"""Revocation: what the lead institution has taken back, from the moment it says so."""

from __future__ import annotations

from analyst_server.services.analyst import Analyst, require_lead
from analyst_server.store import Revocations
from protocol.errors import NotFoundError
from protocol.identity import Identity, RevocationList


def publish(analyst: Analyst, sender: Identity, der: bytes) -> None:
    """Hold to a revocation list and keep it; the next request on any connection meets it.

    Raises `CertificateRefusedError` if it is not the root's, or older than the one held.
    """
    require_lead(sender)
    number = RevocationList(der, analyst.root.certificate).number
    analyst.root.adopt(der)
    with analyst.records.begin(write=True) as unit:
        unit.put_revocations(Revocations(number=number, der=der, received_at=analyst.clock()))


def newest(analyst: Analyst) -> bytes:
    """Return the revocation list (DER); raises `NotFoundError` while there is none."""
    held = analyst.root.revocations
    if held is None:
        raise NotFoundError("no certificate of this consortium was revoked yet")
    return held.der


def load(analyst: Analyst) -> None:
    """Hold to the list that was kept, when the process starts."""
    with analyst.records.begin() as unit:
        row = unit.revocations()
    if row is not None:
        analyst.root.adopt(row.der)
