"""The certificates that the analyst knows of, for every member to look for its own name among them."""

from __future__ import annotations

import re
from hashlib import sha256

from cryptography.hazmat.primitives.serialization import Encoding

from analyst_server.services.analyst import Analyst
from analyst_server.store import Unit
from protocol.codec import decode, pack_list, pack_lists
from protocol.envelope import Signed
from protocol.errors import MalformedMessageError
from protocol.identity import Identity, load_certificate


def known(analyst: Analyst, viewer: Identity, after: str) -> bytes:
    """Return a list of certificates (DER), in the order of their SHA-256, from the first after ``after`` on.

    They are the analyst's own, those that the lead has issued through it, and those with which the terms of
    the viewer's collaborations were accepted, wherever they come from.

    Raises `MalformedMessageError` if ``after`` is no digest in hexadecimal.
    """
    if re.fullmatch("([0-9a-f]{2})*", after) is None:
        raise MalformedMessageError("certificates", "after is a digest in hexadecimal")
    last = bytes.fromhex(after)
    own = analyst.certificate.public_bytes(Encoding.DER)
    with analyst.records.begin() as unit:
        found = {sha256(der).digest(): der for der in {own, *_issued(unit), *_accepted_with(unit, viewer)}}
    return next(pack_lists(der for digest, der in sorted(found.items()) if digest > last), pack_list([]))


def _issued(unit: Unit) -> set[bytes]:
    return {load_certificate(pem).public_bytes(Encoding.DER) for pem in unit.issued_certificates()}


def _accepted_with(unit: Unit, viewer: Identity) -> set[bytes]:
    return {decode(Signed, body).certificate for body in unit.acceptances_with(viewer.name)}
