"""Certificates that end: our own, renewed in time, and those the lead has taken back."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from cryptography import x509

from protocol.codec import decode
from protocol.envelope import Signed
from protocol.errors import CertificateRefusedError, NotFoundError, OdcError
from protocol.identity import certificate_request, load_certificate
from protocol.messages import Renewal
from user_client.custody.files import write_whole
from user_client.custody.home import revocations_der
from user_client.sdk.membership import check_own, poll_certificate
from user_client.sdk.session import Session
from user_client.transport import json_object

log = logging.getLogger(__name__)

RENEW_BEFORE_S: Final = 30 * 24 * 3600
"""A month: the lead's root key is offline, and its holder may be on holiday."""


def renew(
    session: Session, *, wait_s: float = 0, pause: Callable[[float], None] = time.sleep
) -> x509.Certificate | None:
    """Ask for a new certificate of our own name and key, and fetch it once the lead has approved.

    Calling again goes on with the same request.

    Returns
    -------
    Certificate or None
        None if the lead has not approved within ``wait_s`` seconds.

    Raises
    ------
    CertificateRefusedError
        If what comes back is not a certificate for our key and name, or ours has ended already.
    """
    home = session.home
    if session.certificate_ends_in_s() <= 0:
        error = CertificateRefusedError("our certificate has ended: it can sign no request any more")
        error.hint = "ask the lead institution for a new invitation and give it to `odc join`, here"
        raise error
    if not home.renewal_path.exists():
        write_whole(home.renewal_path, session.sign(_renewal(session)))
    body = home.renewal_path.read_bytes()
    renewal_id = decode(Renewal, decode(Signed, body).payload).renewal_id
    answer = json_object(session.connection.send_message("POST", "/v1/renewals", body))
    pem = poll_certificate(session.connection, answer, renewal_id, wait_s, pause)
    if pem is None:
        return None
    certificate = load_certificate(pem)
    check_own(session, home.root(), certificate, session.membership.identity)
    home.write_certificate(certificate)
    home.renewal_path.unlink()
    return certificate


def renew_in_time(session: Session) -> None:
    """Renew in the last month; what does not succeed is told and tried again by the next command."""
    if session.certificate_ends_in_s() > RENEW_BEFORE_S:
        return
    days = max(session.certificate_ends_in_s() // 86400, 0)
    if session.membership.role == "lead":
        log.warning("our certificate ends in %d days: run `odc renew`", days)
        return
    try:
        renewed = renew(session)
    except OdcError as error:
        log.warning("our certificate ends in %d days and could not be renewed: %s", days, error.detail)
        return
    if renewed is None:
        log.warning("our certificate ends in %d days; the lead has yet to approve its renewal", days)


def _renewal(session: Session) -> Renewal:
    membership = session.membership
    return Renewal(
        consortium_id=membership.consortium_id,
        renewal_id=secrets.token_hex(16),
        csr=certificate_request(session.home.key(), membership.party),
    )


def update_revocations(session: Session, file: bytes | None = None) -> int:
    """Hold to the newest revocation list, the analyst's or one that came as a file (DER or PEM).

    Returns the number of revoked certificates. Raises `CertificateRefusedError` if the list is not the
    root's, or older than the one we hold.
    """
    if file is not None:
        der = revocations_der(file)
    else:
        try:
            der = session.connection.request("GET", "/v1/revocations").content
        except NotFoundError:
            der = b""
    root = session.home.root()
    if der:
        root.adopt(der)
        session.home.write_revocations(der)
    return len(root.revocations.revoked_at) if root.revocations else 0
