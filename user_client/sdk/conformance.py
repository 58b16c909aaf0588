"""A kit that tries an analyst: right and wrong messages, each with the answer that docs/protocol.md asks for.

It changes nothing at an analyst that follows the document: whatever it sends is refused, or only asks.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec

from protocol.codec import decode, encode, unpack_list
from protocol.envelope import sign
from protocol.errors import NotFoundError, OdcError
from protocol.identity import TrustRoot, certificate_request, load_certificate
from protocol.ledger import LedgerHead, LedgerPage, check_chain
from protocol.limits import MAX_LEDGER_PAGE, MAX_MESSAGE_BYTES
from protocol.messages import Renewal
from protocol.operations import (
    CERTIFICATE_REQUEST_STATUS,
    COLLABORATION_STATUS,
    DISCOVER,
    FETCH_LEDGER,
    FETCH_REVOCATIONS,
    FETCH_TERMS,
    HEALTH,
    LIST_CERTIFICATE_REQUESTS,
    LIST_CERTIFICATES,
    LIST_COLLABORATIONS,
    ONLY_OWN,
    REQUEST_RENEWAL,
)
from protocol.terms import Terms
from protocol.version import MEDIA_TYPE
from runtime.files import read_text
from user_client.sdk import conformance_of_rounds, conformance_of_uploads
from user_client.sdk.conformance_attempts import (
    Attempt,
    SkippedError,
    WrongAnswerError,
    refusal,
    refused,
    require,
)
from user_client.sdk.session import Session
from user_client.transport import AnalystConnection, Traffic, json_object

Outcome = Literal["passed", "failed", "skipped"]
LIMITS: Final = ("message_bytes", "uplink_bytes", "min_chunk_bytes", "max_chunk_bytes", "default_chunk_bytes")
_AS_MESSAGE: Final = {"content-type": MEDIA_TYPE}
_ENROLMENTS, _RENEWALS = LIST_CERTIFICATE_REQUESTS.url(), REQUEST_RENEWAL.url()


@dataclass(frozen=True)
class Check:
    """What one check has found; ``section`` is that of docs/protocol.md."""

    what: str
    section: str
    outcome: Outcome
    detail: str = ""
    says: str = ""
    """Its words that are tried, where one sentence has them."""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def try_analyst(session: Session, url: str | None = None, collaboration_id: str | None = None) -> list[Check]:
    """Try the analyst at an address, by default our own, and return what each check has found.

    With a collaboration its terms, status and ledger are looked at as well. Raises `OdcError` if the analyst
    cannot be reached.
    """
    home, address = session.home, url or session.membership.analyst_url
    root_pem = read_text(home.root_path)
    with ExitStack() as opened:
        traffic = Traffic(home.traffic_path)
        stranger = opened.enter_context(AnalystConnection(address, root_pem, None, traffic))
        identity, password = (home.certificate_path, home.key_path), home.key_password()
        member = opened.enter_context(
            AnalystConnection(address, root_pem, identity, traffic, key_password=password)
        )
        stranger.discover()
        attempts = [*_by_strangers(stranger), *_by_a_member(session, member)]
        attempts += conformance_of_uploads.attempts(member)
        if collaboration_id is not None:
            attempts += _of_a_round(session, member, collaboration_id)
            attempts += conformance_of_rounds.attempts(session, member, collaboration_id)
        return [_made(attempt) for attempt in attempts]


def _made(attempt: Attempt) -> Check:
    def found(outcome: Outcome, detail: str = "") -> Check:
        return Check(attempt.what, attempt.section, outcome, detail, attempt.says)

    try:
        attempt.run()
    except SkippedError as reason:
        return found("skipped", str(reason))
    except WrongAnswerError as error:
        return found("failed", str(error))
    except OdcError as error:
        return found("failed", f"{error.code}: {error.detail}")
    return found("passed")


def _by_strangers(stranger: AnalystConnection) -> Iterator[Attempt]:
    def discovery() -> None:
        found = stranger.ask_json(DISCOVER)
        types = found.get("media_types")
        require(isinstance(types, list) and MEDIA_TYPE in types, f"media_types has no {MEDIA_TYPE}")
        limits = found.get("limits")
        if not isinstance(limits, dict):
            raise WrongAnswerError("limits is no object")
        missing = [name for name in LIMITS if not isinstance(limits.get(name), int)]
        require(not missing, f"limits has no {', '.join(missing)}")

    def health() -> None:
        found = json_object(stranger.request_once("GET", HEALTH.url()))
        require(found.get("status") == "ok", "it does not say that it serves")

    unknown = secrets.token_hex(16)
    garbage, other_version = b"\xc1", MEDIA_TYPE.replace("v1", "v2")
    yield Attempt("discovery names version 1 and the limits", "11", discovery)
    yield Attempt("healthz answers anybody", "11", health)
    for what, section, expected, request in [
        ("a stranger is asked for a certificate", "11", "certificate-required",
            ("GET", LIST_COLLABORATIONS.url(), None, {})),
        ("a stranger cannot read a round", "11", "certificate-required",
            ("GET", FETCH_TERMS.url(collaboration_id=unknown), None, {})),
        ("a token that nobody has made", "11", "token-refused",
            ("GET", LIST_COLLABORATIONS.url(), None, {"authorization": f"Bearer odct_{'A' * 43}"})),
        ("an enrolment that there is not", "11", "not-found",
            ("GET", CERTIFICATE_REQUEST_STATUS.url(invitation_id=unknown), None, {})),
        ("an enrolment that is no message", "2", "malformed-message",
            ("POST", _ENROLMENTS, garbage, {"content-type": MEDIA_TYPE})),
        ("an enrolment as JSON", "11", "malformed-message",
            ("POST", _ENROLMENTS, b"{}", {"content-type": "application/json"})),
        ("an enrolment in another version", "11", "unsupported-version",
            ("POST", _ENROLMENTS, garbage, {"content-type": other_version})),
    ]:  # fmt: skip
        method, path, content, headers = request
        yield Attempt(what, section, refusal(stranger, expected, method, path, content, headers))


def _by_a_member(session: Session, member: AnalystConnection) -> Iterator[Attempt]:
    key, certificate = session.home.key(), session.home.certificate()
    renewal = Renewal(
        consortium_id=session.membership.consortium_id,
        renewal_id=secrets.token_hex(16),
        csr=certificate_request(key, session.membership.party),
        chain=(),
    )
    stolen = sign(renewal, ec.generate_private_key(ec.SECP256R1()), certificate)
    head = LedgerHead(collaboration_id=secrets.token_hex(16), length=0, digest=bytes(32), at=0)

    def list_of_certificates() -> None:
        found = unpack_list(member.request_once("GET", LIST_CERTIFICATES.url()).content)
        require(bool(found), "the list is empty, without the analyst's own")
        digests = [hashlib.sha256(each).digest() for each in found]
        require(digests == sorted(digests), "it is not in the order of SHA-256")
        root = TrustRoot(session.home.root().certificate)
        for each in found:
            root.identify(load_certificate(each), at=session.clock())

    def revocations() -> None:
        try:
            found = member.request_once("GET", FETCH_REVOCATIONS.url()).content
        except NotFoundError:
            raise SkippedError("there is no list yet") from None
        TrustRoot(session.home.root().certificate).adopt(found)

    def lead_alone() -> None:
        if session.membership.role == "lead":
            raise SkippedError("this institution is the lead")
        refused(member, "not-permitted", "GET", _ENROLMENTS)

    yield Attempt("the list of certificates", "11", list_of_certificates)
    yield Attempt("the revocation list", "3", revocations)
    yield Attempt("what the lead alone may ask", "11", lead_alone)
    for what, section, expected, content in [
        ("a message signed by another key than its certificate's", "4", "bad-signature", stolen),
        ("a message of another kind", "4", "malformed-message", sign(head, key, certificate)),
        ("a message with a byte too many", "2", "malformed-message", session.sign(renewal) + b"\xc0"),
        ("a message that is no Signed", "4", "malformed-message", encode(renewal)),
        ("more bytes than a message may have", "13", "limit-exceeded", bytes(MAX_MESSAGE_BYTES + 1)),
    ]:
        yield Attempt(what, section, refusal(member, expected, "POST", _RENEWALS, content, _AS_MESSAGE))
    path = COLLABORATION_STATUS.url(collaboration_id=secrets.token_hex(16))
    yield Attempt("a collaboration that there is not", "11", refusal(member, "not-found", "GET", path))


def _of_a_round(session: Session, member: AnalystConnection, collaboration_id: str) -> Iterator[Attempt]:
    path = COLLABORATION_STATUS.url(collaboration_id=collaboration_id)

    def terms() -> None:
        signed = member.request_once("GET", FETCH_TERMS.url(collaboration_id=collaboration_id)).content
        found = session.verify(Terms, signed)
        require(found.author.role == "analyst", "the terms are not signed by an analyst")
        require(found.message.collaboration_id == collaboration_id, "they are of another collaboration")

    def status() -> None:
        found = member.request_once("GET", f"{path}?{ONLY_OWN}")
        tag = found.headers.get("etag")
        require(tag is not None, "a status without an ETag")
        again = member.request_once("GET", f"{path}?{ONLY_OWN}", headers={"if-none-match": str(tag)})
        require(again.status == 304, f"the same ETag is answered {again.status}")

    def ledger() -> None:
        page = decode(
            LedgerPage,
            member.request_once("GET", FETCH_LEDGER.url(collaboration_id=collaboration_id)).content,
        )
        head = session.verify(LedgerHead, page.head).message
        heads = check_chain(collaboration_id, page.entries)
        require(len(page.entries) == min(head.length, MAX_LEDGER_PAGE), "entries are missing")
        require(head.length >= len(heads) or head.digest == heads[head.length], "another head")

    yield Attempt("its terms are signed and are its own", "6", terms)
    yield Attempt("its status has an ETag that holds", "11", status)
    yield Attempt("its ledger holds, under a signed head", "10", ledger)
