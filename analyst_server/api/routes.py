"""The handlers of most operations, whose bodies fit into memory: each hands a request to one use case."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from analyst_server.api import description, problems
from analyst_server.api.access import Granted, Sender, SenderCertificate
from analyst_server.api.bodies import Body, message_response
from analyst_server.api.fields import (
    AFTER_DIGEST,
    AFTER_PARTY,
    CONTENT_LENGTH,
    FOR_A_DAY,
    MOST,
    NOT_STORED,
    START,
    Field,
)
from analyst_server.api.surface import Bytes, Draft, Says, TheAnalyst, created, done, serve
from analyst_server.services import (
    anchor_matrix,
    api_tokens,
    certificates,
    end,
    exclusion,
    issued,
    prepare,
    report,
    rounds,
    scores,
    seen,
    views,
)
from analyst_server.services.checkpoints import Checkpoints
from analyst_server.services.readiness import Readiness
from analyst_server.services.report_answers import Report
from analyst_server.services.worker import Workers
from protocol import __version__, answers, operations
from protocol.answers import Discovery, Health, Status, Tokens
from protocol.codec import unpack_list
from protocol.errors import MalformedMessageError
from protocol.invitation import Rejection
from protocol.limits import DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES, MIN_CHUNK_BYTES
from protocol.operations import CRL_MEDIA_TYPE
from protocol.terms import Terms
from protocol.tokens import TokenRequest, TokenRow
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, WIRE_VERSIONS

router = APIRouter()
_REVOCATIONS: Final = Bytes("A revocation list (DER)", "Revocation list")
AFTER_REQUEST: Final = Field(
    "after", "`next` of the page before; from the first without it.", f"({certificates.PLACE.pattern})?"
)


def _party(after: str) -> str:
    """Return where a page begins; raises `MalformedMessageError` for what is no party's name."""
    if not AFTER_PARTY.takes(after):
        raise MalformedMessageError("after", "is no name of a party")
    return after


# Discovery


@serve(router, operations.DISCOVER)
async def discover(analyst: TheAnalyst) -> Discovery:
    """Return the versions and limits of this analyst."""
    return {
        "service": "odc-analyst",
        "software": f"odc {__version__}",
        "wire_versions": list(WIRE_VERSIONS),
        "media_types": [MEDIA_TYPE],
        "limits": {
            "message_bytes": MAX_MESSAGE_BYTES,
            "uplink_bytes": analyst.max_uplink_bytes,
            "min_chunk_bytes": MIN_CHUNK_BYTES,
            "max_chunk_bytes": MAX_CHUNK_BYTES,
            "default_chunk_bytes": DEFAULT_CHUNK_BYTES,
        },
    }


@serve(router, operations.DESCRIBE, answers=dict)
def describe() -> Response:
    """Return this description, from which programs can make clients and tests."""
    return Response(description.as_json(), media_type=operations.JSON)


@serve(router, operations.HEALTH)
async def health() -> Health:
    """Answer while the process serves."""
    return {"status": "ok"}


@serve(
    router,
    operations.READINESS,
    answers=answers.Readiness,
    says=(
        Says(200, fields=(NOT_STORED,)),
        Says(503, "Something does not work.", (NOT_STORED,), answers.Readiness),
    ),
)
def readiness(request: Request) -> JSONResponse:
    """Say whether database, arrays, disk and compute work, as of the last seconds; 503 if one does not."""
    workers: Workers | None = getattr(request.state, "workers", None)
    found: Readiness = request.app.state.readiness
    parts = found.look(computes=workers is not None and workers.are_alive)
    is_ready = "failing" not in parts.values()
    content = {"status": "ok" if is_ready else "failing", **parts}
    return JSONResponse(content, 200 if is_ready else 503, headers=NOT_STORED.fixed)


@serve(router, operations.DESCRIBE_PROBLEM, says=(Says(200, fields=(FOR_A_DAY,)),))
async def describe_problem(slug: str, response: Response) -> answers.ProblemType:
    """Say what the type of a problem means: the answer to its address."""
    response.headers.update(FOR_A_DAY.fixed)
    return problems.described(slug)


# Enrolment, renewal, revocation


@serve(
    router,
    operations.REQUEST_CERTIFICATE,
    takes=Bytes("Enrolment", "Enrolment"),
    answers=certificates.RequestStatus,
)
def request_certificate(analyst: TheAnalyst, body: Body, request: Request) -> Response:
    """Ask for a certificate with an invitation; the lead decides."""
    status, is_new = certificates.request(analyst, body)
    request.state.invitation_id = status["invitation_id"]  # tells the meter whose bytes these were
    return created(status, is_new)


@serve(router, operations.LIST_CERTIFICATE_REQUESTS, queries=(AFTER_REQUEST,))
def list_certificate_requests(
    analyst: TheAnalyst, sender: Sender, after: str = ""
) -> certificates.PendingRequests:
    """List the requests that wait for the lead institution: as many as fit, after those of another page."""
    return certificates.pending(analyst, sender, after)


@serve(router, operations.CERTIFICATE_REQUEST_STATUS)
def certificate_request_status(analyst: TheAnalyst, invitation_id: str) -> certificates.RequestStatus:
    """Return the state of one request, with the certificate once it is issued."""
    return certificates.status(analyst, invitation_id)


@serve(
    router,
    operations.ISSUE_CERTIFICATE,
    takes=Bytes("A certificate (DER or PEM)", "3. Identity and certificates"),
)
def issue_certificate(analyst: TheAnalyst, sender: Sender, invitation_id: str, body: Body) -> Response:
    """Hand in the certificate (DER or PEM) that the lead issued."""
    certificates.issue(analyst, sender, invitation_id, body)
    return done()


@serve(router, operations.REJECT_CERTIFICATE_REQUEST, takes=Rejection)
def reject_certificate_request(
    analyst: TheAnalyst, sender: Sender, invitation_id: str, body: Body
) -> Response:
    """Reject one request with a reason, which the party that asked reads."""
    certificates.reject(analyst, sender, invitation_id, body)
    return done()


@serve(
    router,
    operations.REQUEST_RENEWAL,
    takes=Bytes("Signed(Renewal)", "Renewal"),
    answers=certificates.RequestStatus,
)
def request_renewal(analyst: TheAnalyst, sender: Sender, body: Body) -> Response:
    """Ask for a new certificate of the caller's own name; the lead decides."""
    return created(*certificates.request_renewal(analyst, sender, body))


@serve(router, operations.PUBLISH_REVOCATIONS, takes=_REVOCATIONS)
def publish_revocations(analyst: TheAnalyst, sender: Sender, body: Body) -> Response:
    """Hand in the lead's revocation list (DER), which takes effect at once."""
    certificates.publish_revocations(analyst, sender, body)
    return done()


@serve(router, operations.FETCH_REVOCATIONS, answers=_REVOCATIONS)
def fetch_revocations(analyst: TheAnalyst) -> Response:
    """Return the newest revocation list."""
    return Response(certificates.newest_revocations(analyst), media_type=CRL_MEDIA_TYPE)


@serve(
    router,
    operations.LIST_CERTIFICATES,
    answers=Bytes("A list of certificates (DER)", "3. Identity and certificates"),
    queries=(AFTER_DIGEST,),
)
def list_certificates(analyst: TheAnalyst, sender: Sender, after: str = "") -> Response:
    """Return the certificates that this analyst knows of, as many as fit, in the order of their digests."""
    return message_response(issued.known(analyst, sender, after))


# Before the uplinks


@serve(router, operations.FETCH_TERMS, answers=Bytes("Signed(Terms)", "Terms"))
def fetch_terms(analyst: TheAnalyst, sender: Sender, collaboration_id: str) -> Response:
    """Return the terms, signed by the analyst."""
    return message_response(prepare.signed_terms(analyst, sender, collaboration_id))


@serve(router, operations.TERMS_IN_WORDS)
def terms_in_words(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> answers.TermsInWords:
    """Return the terms in plain words, as every institution signs them."""
    return prepare.terms_in_words(analyst, grant.holder, collaboration_id)


@serve(router, operations.ACCEPT_TERMS, takes=Bytes("Signed(Acceptance)", "Acceptance"))
def accept_terms(analyst: TheAnalyst, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Hand in the caller's signature under the terms."""
    prepare.accept(analyst, sender, collaboration_id, body)
    return done()


@serve(router, operations.REJECT_TERMS, takes=Rejection)
def reject_terms(analyst: TheAnalyst, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Say why the caller does not sign the terms, for all members and the operator to read."""
    prepare.reject(analyst, sender, collaboration_id, body)
    return done()


@serve(
    router,
    operations.LIST_ACCEPTANCES,
    answers=Bytes("A list of Signed(Acceptance)", "Acceptance"),
    queries=(AFTER_PARTY,),
)
def list_acceptances(analyst: TheAnalyst, sender: Sender, collaboration_id: str, after: str = "") -> Response:
    """Return signed acceptances, to whose keys the lead seals the anchor: as many as fit, after a party."""
    return message_response(prepare.acceptances_page(analyst, sender, collaboration_id, _party(after)))


@serve(
    router,
    operations.LIST_MANIFESTS,
    answers=Bytes("A list of Signed(UplinkManifest)", "UplinkManifest"),
    queries=(AFTER_PARTY,),
)
def list_manifests(analyst: TheAnalyst, sender: Sender, collaboration_id: str, after: str = "") -> Response:
    """Return signed manifests, by which members compare the ledgers they have seen: as many as fit."""
    return message_response(views.manifests_page(analyst, sender, collaboration_id, _party(after)))


@serve(router, operations.SEND_SEEN_LEDGER, takes=Bytes("Signed(SeenLedger)", "SeenLedger"))
def send_seen_ledger(analyst: TheAnalyst, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Say which ledger the caller has seen, now that it has its downlink."""
    seen.send(analyst, sender, collaboration_id, body)
    return done()


@serve(
    router,
    operations.LIST_SEEN_LEDGERS,
    answers=Bytes("A list of Signed(SeenLedger)", "SeenLedger"),
    queries=(AFTER_PARTY, MOST),
)
def list_seen_ledgers(
    analyst: TheAnalyst, sender: Sender, collaboration_id: str, after: str = "", most: str = "1024"
) -> Response:
    """Return what members have said of the ledger after their downlinks: as many as fit, or ``most``."""
    if not MOST.takes(most):
        raise MalformedMessageError("most", "is not a number")
    return message_response(seen.page(analyst, sender, collaboration_id, _party(after), int(most)))


@serve(router, operations.PUBLISH_ANCHOR, takes=Bytes("A list of Signed(SealedAnchor)", "SealedAnchor"))
def publish_anchor(analyst: TheAnalyst, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Hand in the anchor, sealed once for each member, or for some of them."""
    prepare.publish_anchor(analyst, sender, collaboration_id, unpack_list(body))
    return done()


@serve(router, operations.FETCH_ANCHOR, answers=Bytes("Signed(SealedAnchor)", "SealedAnchor"))
def fetch_anchor(analyst: TheAnalyst, sender: Sender, collaboration_id: str) -> Response:
    """Return the anchor, sealed for the caller."""
    return message_response(prepare.sealed_anchor(analyst, sender, collaboration_id))


@serve(
    router,
    operations.FETCH_ANCHOR_MATRIX,
    answers=Bytes("The sealed matrix", "Matrix"),
    says=(Says(200, fields=(CONTENT_LENGTH,)),),
)
def fetch_anchor_matrix(analyst: TheAnalyst, sender: Sender, collaboration_id: str) -> Response:
    """Return the matrix of a public anchor, sealed under the seed of the caller's anchor."""
    length, pieces = anchor_matrix.fetch(analyst, sender, collaboration_id)
    return StreamingResponse(pieces, media_type=STREAM_MEDIA_TYPE, headers={"content-length": str(length)})


# Results


@serve(router, operations.FETCH_RECEIPT, answers=Bytes("Signed(Receipt)", "Receipt"))
def fetch_receipt(analyst: TheAnalyst, sender: Sender, collaboration_id: str) -> Response:
    """Return the receipt of the caller's uplink."""
    return message_response(views.receipt(analyst, sender, collaboration_id))


@serve(router, operations.FETCH_LEDGER, answers=Bytes("LedgerPage", "LedgerPage"), queries=(START,))
def fetch_ledger(analyst: TheAnalyst, grant: Granted, collaboration_id: str, start: str = "0") -> Response:
    """Return every step from number ``start`` on, and the analyst's signature under all of them."""
    if not START.takes(start):
        raise MalformedMessageError("start", "is not the number of an entry")
    return message_response(views.ledger_page(analyst, grant.holder, collaboration_id, int(start)))


@serve(router, operations.FETCH_CHECKPOINT, answers=Bytes("A signed note", "Checkpoint"))
def fetch_checkpoint(request: Request, grant: Granted, collaboration_id: str) -> Response:
    """Return length and Merkle root of the ledger, as a signed note for others to cosign."""
    checkpoints: Checkpoints = request.app.state.checkpoints
    return Response(checkpoints.newest(grant.holder, collaboration_id), media_type=operations.NOTE_MEDIA_TYPE)


@serve(router, operations.SEND_SCORE, takes=Bytes("Signed(MemberScore)", "MemberScore"))
def send_score(analyst: TheAnalyst, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Hand in how the caller does with the collaboration's model and with its own."""
    scores.send(analyst, sender, collaboration_id, body)
    return done()


@serve(router, operations.COLLABORATION_REPORT)
def collaboration_report(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Report:
    """Return what happened and what it cost, beside the paper's formulas."""
    if grant.holder is None:
        return report.for_operator(analyst, collaboration_id)
    return report.for_member(analyst, grant.holder, collaboration_id)


# The analyst's operator: what `odc-analyst collaboration` does, for other systems


@serve(
    router,
    operations.PUBLISH_TERMS,
    takes=Draft(Terms, ("consortium_id", "collaboration_id")),
    answers=Status,
)
def publish_terms(analyst: TheAnalyst, grant: Granted, collaboration_id: str, body: Body) -> Response:
    """Publish the terms of a new collaboration, under an id that the caller chose."""
    is_new = prepare.create_once(analyst, collaboration_id, body)
    return created(views.status(analyst, grant.holder, collaboration_id), is_new)


@serve(router, operations.SEAL)
def seal(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Status:
    """Seal the round now, without the institutions that have sent nothing."""
    rounds.seal(analyst, collaboration_id)
    return views.status(analyst, grant.holder, collaboration_id)


@serve(router, operations.RESUME)
def resume(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Status:
    """Compute a failed round again from the sealed uplinks."""
    rounds.resume(analyst, collaboration_id)
    return views.status(analyst, grant.holder, collaboration_id)


@serve(router, operations.RELEASE)
def release(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Status:
    """Release a round that was held."""
    rounds.release(analyst, collaboration_id)
    return views.status(analyst, grant.holder, collaboration_id)


@serve(router, operations.EXCLUDE)
def exclude(analyst: TheAnalyst, grant: Granted, collaboration_id: str, party: str) -> Status:
    """Leave a party out of a round that is not released; a model trained with its rows is discarded."""
    exclusion.exclude(analyst, collaboration_id, party)
    return views.status(analyst, grant.holder, collaboration_id)


@serve(router, operations.CANCEL)
def cancel(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Status:
    """End a collaboration before its release, also while it is computed, and erase what was received."""
    end.cancel(analyst, collaboration_id)
    return views.status(analyst, grant.holder, collaboration_id)


@serve(router, operations.CLOSE)
def close(analyst: TheAnalyst, grant: Granted, collaboration_id: str) -> Status:
    """End a released collaboration, and erase its uplinks and downlinks."""
    end.close(analyst, collaboration_id)
    return views.status(analyst, grant.holder, collaboration_id)


# API tokens: the institution generates them itself, so no answer holds one


@serve(router, operations.CREATE_TOKEN, takes=TokenRequest, answers=TokenRow)
def create_token(analyst: TheAnalyst, sender: Sender, certificate: SenderCertificate, body: Body) -> Response:
    """Accept a token that the caller generated, by its digest."""
    row, is_new = api_tokens.create(analyst, sender, certificate, TokenRequest.from_json(body))
    return created(row.model_dump(), is_new)


@serve(router, operations.LIST_TOKENS)
def list_tokens(analyst: TheAnalyst, sender: Sender) -> Tokens:
    """List the caller's tokens: their purpose, their end, and when each was last used."""
    return {"tokens": api_tokens.listing(analyst, sender)}


@serve(router, operations.REVOKE_TOKEN)
def revoke_token(analyst: TheAnalyst, sender: Sender, token_id: str) -> Response:
    """Refuse a token from now on."""
    api_tokens.revoke(analyst, sender, token_id)
    return done()
