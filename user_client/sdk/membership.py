"""Membership: join with an invitation, renew the certificate, learn of revoked ones, manage API tokens."""

from __future__ import annotations

import base64
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from protocol.codec import decode, encode
from protocol.envelope import decode_stored
from protocol.errors import (
    CertificateRefusedError,
    InputError,
    InvitationError,
    MalformedMessageError,
    NotFoundError,
    NotPermittedError,
    OdcError,
)
from protocol.identity import (
    Identity,
    TrustRoot,
    certificate_request,
    load_certificate,
    public_key,
    same_key,
)
from protocol.invitation import Invitation
from protocol.messages import Enrolment, Renewal
from protocol.operations import (
    CERTIFICATE_REQUEST_STATUS,
    CREATE_TOKEN,
    FETCH_REVOCATIONS,
    LIST_TOKENS,
    REQUEST_CERTIFICATE,
    REQUEST_RENEWAL,
    REVOKE_TOKEN,
)
from protocol.tokens import TokenRequest, TokenRow, id_of, new_token, token_digest
from runtime.files import write_whole
from runtime.waiting import look_until
from user_client.custody.home import Home, Membership, revocations_der
from user_client.errors import NotJoinedError
from user_client.sdk.own_certificate import OwnCertificate
from user_client.sdk.session import Session, meet
from user_client.transport import AnalystConnection, Traffic

log = logging.getLogger(__name__)

RENEW_BEFORE_S: Final = 30 * 24 * 3600
"""A month: the lead's root key is offline, and the person who holds it may be on holiday."""


def join(
    session: Session,
    invitation: Invitation | None,
    *,
    own: OwnCertificate | None = None,
    wait_s: float = 0,
    pause: Callable[[float], None] = time.sleep,
    asked: Callable[[], None] = lambda: None,
) -> Membership | None:
    """Ask for a certificate and fetch it once the lead has approved.

    ``asked`` is called when the analyst has the request, before the wait: the lead can compare our key then.

    The key is generated here and stays here, unless ``own`` brings a key that our own PKI has certified,
    which an invitation may require. Calling again continues the same request; ``invitation`` and ``own`` may
    then be None. A member whose certificate has ended joins again the same way, with its old key.

    Returns
    -------
    Membership or None
        None if the lead has not approved within ``wait_s`` seconds.

    Raises
    ------
    InvitationError
        If the invitation is for an analyst, has expired or was used.
    InputError
        If the invitation requires a certificate of our own PKI and gets none or another one, or gets one that
        it does not require; or if the state directory has another key than ``own`` already.
    CertificateRefusedError
        If what comes back is not a certificate for our key and name under the invitation's root.
    NotPermittedError
        If the lead has rejected the request; the text has its reason.
    """
    home = session.home
    if session.is_joined():
        membership = session.membership
        if invitation is not None and not _is_ours(invitation, membership):
            error = InvitationError(f"{home.path} belongs to {membership.party} of {membership.consortium}")
            error.hint = "give another directory: --home, or ODC_HOME"
            raise error
        is_asked = invitation is not None or home.invitation_path.exists()
        if session.certificate_ends_in_s() > 0 or not is_asked:
            return membership
    invitation = invitation or _stored_invitation(home)
    if invitation.role == "analyst":
        raise InvitationError("the invitation is for an analyst: use `odc-analyst join`")
    if invitation.expires_at <= session.clock():
        raise InvitationError("the invitation has expired")
    invitation.trust_root()
    earlier = _earlier_request(home, invitation)
    if own is not None or earlier is None:
        _check_brought_to_join(invitation, own, at=session.clock())
    if own is not None:
        home.adopt_key(own.key)
    home.write_secret(home.invitation_path, invitation.to_json().encode())
    pem = _ask_for_certificate(session, invitation, own, earlier, wait_s, pause, asked)
    if pem is None:
        return None
    membership = _install(session, invitation, load_certificate(pem))
    home.invitation_path.unlink()  # its secret is not needed any more
    _request_path(home).unlink()
    home.renewal_path.unlink(missing_ok=True)  # it was signed with the certificate that has ended
    return membership


def _ask_for_certificate(
    session: Session,
    invitation: Invitation,
    own: OwnCertificate | None,
    earlier: Enrolment | None,
    wait_s: float,
    pause: Callable[[float], None],
    asked: Callable[[], None],
) -> bytes | None:
    """Send the request that answers an invitation; return the certificate (PEM) if it is issued in time."""
    home = session.home
    with AnalystConnection(
        invitation.analyst_url, invitation.root_certificate, None, Traffic(home.traffic_path)
    ) as connection:
        meet(connection, invitation.analyst_url, home.analyst_path, session.clock())
        request = earlier  # a new CSR would differ, so the one from before is sent again
        if request is None or (own is not None and own.chain != request.chain):
            request = invitation.answer(home.make_key(), own.chain if own else ())
        body = encode(request)
        write_whole(_request_path(home), body)
        answer = connection.ask_json(REQUEST_CERTIFICATE, body)
        asked()
        try:
            return _poll_certificate(connection, answer, invitation.invitation_id, wait_s, pause)
        except NotPermittedError as error:
            error.hint = "ask the lead institution for a new invitation: `odc consortium invite PARTY`"
            raise


def _request_path(home: Home) -> Path:
    return home.path / "request.odc"


def _earlier_request(home: Home, invitation: Invitation) -> Enrolment | None:
    """Return the request that answered this invitation before, or None."""
    path = _request_path(home)
    if not path.exists():
        return None
    earlier = decode(Enrolment, path.read_bytes())
    return earlier if base64.b64encode(earlier.ticket).decode() == invitation.ticket else None


def _check_brought_to_join(invitation: Invitation, own: OwnCertificate | None, *, at: int) -> None:
    """Raise `InputError` if the lead could not approve what we bring, by what the invitation expects."""
    expected = invitation.certificate_name
    if expected is None and own is not None:
        error = InputError("the invitation does not ask for a certificate of our own PKI")
        error.hint = "join without --cert and --key, or ask for an invitation made with --ca and --name"
        raise error
    if expected is not None and own is None:
        error = InputError(f"the invitation asks for the certificate of our own PKI with the name {expected}")
        error.hint = "odc join INVITATION --cert CHAIN.pem --key KEY.pem"
        raise error
    if expected is not None and own is not None:
        own.check(expected, at=at)


def _stored_invitation(home: Home) -> Invitation:
    if not home.invitation_path.exists():
        raise NotJoinedError("no invitation was given here before; give the invitation's file")
    return Invitation.from_json(home.read_secret(home.invitation_path).decode())


def _poll_certificate(
    connection: AnalystConnection,
    answer: dict[str, Any],
    request_id: str,
    wait_s: float,
    pause: Callable[[float], None],
) -> bytes | None:
    """Return the certificate (PEM), asking again and again for ``wait_s`` seconds while the answer has none.

    Raises `NotPermittedError` if the lead has rejected the request.
    """

    def is_answered(answer: dict[str, Any]) -> bool:
        return isinstance(answer.get("certificate"), str) or answer.get("state") == "rejected"

    unread = [answer]

    def look() -> dict[str, Any]:
        if unread:
            return unread.pop()
        return connection.ask_json(CERTIFICATE_REQUEST_STATUS, invitation_id=request_id)

    found = look_until(is_answered, look, wait_s=wait_s, pause=pause)
    if found.get("state") == "rejected":
        raise NotPermittedError(f"the lead institution has rejected our request: {found.get('reason')}")
    certificate = found.get("certificate")
    return certificate.encode(errors="replace") if isinstance(certificate, str) else None


def _check_issued(
    session: Session, root: TrustRoot, certificate: x509.Certificate, identity: Identity
) -> None:
    """Raise `CertificateRefusedError` unless a new certificate is for our name and our key."""
    if root.identify(certificate, at=session.clock()) != identity:
        raise CertificateRefusedError("the certificate is for another party than was asked for")
    if not same_key(public_key(certificate), session.home.key().public_key()):
        raise CertificateRefusedError("the certificate is not for the key of this institution")


def _is_ours(invitation: Invitation, membership: Membership) -> bool:
    return (invitation.consortium_id, invitation.role, invitation.party) == (
        membership.consortium_id,
        membership.role,
        membership.party,
    )


def _install(session: Session, invitation: Invitation, certificate: x509.Certificate) -> Membership:
    root = invitation.trust_root()
    membership = Membership(
        invitation.consortium,
        invitation.consortium_id,
        invitation.analyst_url,
        invitation.role,
        invitation.party,
        invitation.certificate_name,
    )
    _check_issued(session, root, certificate, membership.identity)
    session.home.write_membership(membership, certificate, root.certificate)
    return membership


def renew(
    session: Session,
    *,
    own: OwnCertificate | None = None,
    wait_s: float = 0,
    pause: Callable[[float], None] = time.sleep,
    forget_rejected: bool = True,
) -> x509.Certificate | None:
    """Ask for a new certificate for our name and key, and fetch it once the lead has approved.

    Calling again continues the same request; one that was rejected is made anew, with ``forget_rejected``.
    A member that joined with a certificate of its own PKI has to give the one that is valid now, so that the
    lead can check that its PKI still certifies the key.

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
    NotPermittedError
        If the lead has rejected the request; the text has its reason.
    """
    home = session.home
    if session.certificate_ends_in_s() <= 0:
        error = CertificateRefusedError("our certificate has ended: it cannot sign a request any more")
        error.hint = "ask the lead institution for a new invitation and give it to `odc join`, here"
        raise error
    was_asked = home.renewal_path.exists() and (own is None or own.chain == _stored_renewal(home).chain)
    if not was_asked:
        _check_brought_to_renew(session, own)
        write_whole(home.renewal_path, session.sign(_renewal(session, own.chain if own else ())))
    body, renewal_id = home.renewal_path.read_bytes(), _stored_renewal(home).renewal_id
    answer = session.connection.ask_json(REQUEST_RENEWAL, body)
    try:
        pem = _poll_certificate(session.connection, answer, renewal_id, wait_s, pause)
    except NotPermittedError as error:
        error.hint = "ask the lead institution; `odc renew` then makes a new request"
        if forget_rejected:
            home.renewal_path.unlink()
        raise
    if pem is None:
        return None
    certificate = load_certificate(pem)
    _check_issued(session, home.root(), certificate, session.membership.identity)
    home.write_certificate(certificate)
    home.renewal_path.unlink()
    return certificate


def renew_in_time(session: Session) -> None:
    """Renew in the last month; if that fails, log a warning, and the next command tries again."""
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
        renewed = renew(session, forget_rejected=False)  # only a person asks again
    except OdcError as error:
        log.warning("our certificate ends in %d days and could not be renewed: %s", days, error.detail)
        return
    if renewed is None:
        log.warning("our certificate ends in %d days; the lead has yet to approve its renewal", days)


def _stored_renewal(home: Home) -> Renewal:
    return decode_stored(Renewal, home.renewal_path.read_bytes())


def _check_brought_to_renew(session: Session, own: OwnCertificate | None) -> None:
    expected = session.membership.certificate_name
    if expected is None and own is not None:
        raise InputError("we joined without a certificate of our own PKI: renew without --cert too")
    if expected is not None and own is None:
        error = InputError("the lead requires a certificate from our own PKI again")
        error.hint = "give the certificate that is valid now: odc renew --cert CHAIN.pem"
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
    """Use the newest revocation list: the analyst's, or one that came as a file (DER or PEM).

    Returns the number of revoked certificates. Raises `CertificateRefusedError` if the root has not signed
    the list, if it is older than the one in the state directory, or another with its number.
    """
    if file is not None:
        der = revocations_der(file)
    else:
        try:
            der = session.connection.ask(FETCH_REVOCATIONS).content
        except NotFoundError:
            der = b""
    root = session.home.adopt_revocations(der) if der else session.home.root()
    return len(root.revocations.revoked_at) if root.revocations else 0


@dataclass(frozen=True)
class NewToken:
    """A new token, which is stored nowhere, and the analyst's record of it."""

    token: str = field(repr=False)
    row: TokenRow


def create_token(
    session: Session, *, lifetime_s: int, label: str = "", collaboration_id: str | None = None
) -> NewToken:
    """Create a token that can read status, report and ledger of all our rounds, or of one of them.

    It is valid for ``lifetime_s`` seconds, but not longer than our certificate. Raises `InputError` for a
    label that is too long or has control characters.
    """
    token = new_token()
    asked = TokenRequest.of(
        digest=token_digest(token),
        label=label,
        collaboration_id=collaboration_id,
        expires_at=session.clock() + lifetime_s,
    )
    answer = session.connection.ask_json(CREATE_TOKEN, asked.model_dump_json().encode())
    return NewToken(token, TokenRow.from_answer(answer))


def list_tokens(session: Session) -> list[TokenRow]:
    """Return the analyst's records of our tokens, which do not contain the tokens themselves."""
    rows = session.connection.ask_json(LIST_TOKENS).get("tokens")
    if not isinstance(rows, list):
        raise MalformedMessageError("answer", "lists no tokens; is this an ODC analyst?")
    return [TokenRow.from_answer(row) for row in rows]


def revoke_token(session: Session, token: str) -> None:
    """Revoke a token, given by its id or by itself; the token itself is not sent."""
    session.connection.ask(REVOKE_TOKEN, token_id=id_of(token))
