"""Certificates that end: our own, renewed in time, and those the lead has taken back."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from cryptography import x509

from protocol.envelope import decode_stored
from protocol.errors import CertificateRefusedError, InputError, NotFoundError, OdcError
from protocol.identity import certificate_request, load_certificate
from protocol.messages import Renewal
from protocol.operations import FETCH_REVOCATIONS, REQUEST_RENEWAL
from runtime.files import write_whole
from user_client.custody.home import Home, revocations_der
from user_client.sdk.membership import check_own, poll_certificate
from user_client.sdk.own_certificate import OwnCertificate
from user_client.sdk.session import Session

log = logging.getLogger(__name__)

RENEW_BEFORE_S: Final = 30 * 24 * 3600
"""A month: the lead's root key is offline, and its holder may be on holiday."""


def renew(
    session: Session,
    *,
    own: OwnCertificate | None = None,
    wait_s: float = 0,
    pause: Callable[[float], None] = time.sleep,
) -> x509.Certificate | None:
    """Ask for a new certificate of our own name and key, and fetch it once the lead has approved.

    Calling again goes on with the same request. Who joined with a certificate of its own PKI gives the
    one that holds now: whether it still stands behind the key is what the lead has to hear.

    Returns
    -------
    Certificate or None
        None if the lead has not approved within ``wait_s`` seconds.

    Raises
    ------
    CertificateRefusedError
        If what comes back is not a certificate for our key and name, or ours has ended already.
    InputError
        If the certificate of our own PKI is missing, or not the one the lead expects.
    """
    home = session.home
    if session.certificate_ends_in_s() <= 0:
        error = CertificateRefusedError("our certificate has ended: it can sign no request any more")
        error.hint = "ask the lead institution for a new invitation and give it to `odc join`, here"
        raise error
    is_asked = home.renewal_path.exists() and (own is None or own.chain == _asked(home).chain)
    if not is_asked:
        _check_own_certificate(session, own)
        write_whole(home.renewal_path, session.sign(_renewal(session, own.chain if own else ())))
    body, renewal_id = home.renewal_path.read_bytes(), _asked(home).renewal_id
    answer = session.connection.ask_json(REQUEST_RENEWAL, body)
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
    if session.membership.certificate_name is not None:
        log.warning("our certificate ends in %d days: run `odc renew --cert CHAIN.pem`", days)
        return
    try:
        renewed = renew(session)
    except OdcError as error:
        log.warning("our certificate ends in %d days and could not be renewed: %s", days, error.detail)
        return
    if renewed is None:
        log.warning("our certificate ends in %d days; the lead has yet to approve its renewal", days)


def _asked(home: Home) -> Renewal:
    return decode_stored(Renewal, home.renewal_path.read_bytes())


def _check_own_certificate(session: Session, own: OwnCertificate | None) -> None:
    expected = session.membership.certificate_name
    if expected is None and own is not None:
        raise InputError("we joined without a certificate of our own PKI, and renew without one")
    if expected is not None and own is None:
        error = InputError("the lead wants to hear from our own PKI again")
        error.hint = "give the certificate that holds now: odc renew --cert CHAIN.pem"
        raise error
    if expected is not None and own is not None:
        own.check(expected, at=session.clock())


def _renewal(session: Session, chain: tuple[bytes, ...]) -> Renewal:
    membership = session.membership
    return Renewal(
        consortium_id=membership.consortium_id,
        renewal_id=secrets.token_hex(16),
        csr=certificate_request(session.home.key(), membership.party),
        chain=chain,
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
            der = session.connection.ask(FETCH_REVOCATIONS).content
        except NotFoundError:
            der = b""
    root = session.home.root()
    if der:
        root.adopt(der)
        session.home.write_revocations(der)
    return len(root.revocations.revoked_at) if root.revocations else 0
