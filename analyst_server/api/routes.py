"""The routes of wire version 1: each takes a request apart and hands it to one use case."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from analyst_server.api.access import Manager, Sender, SenderCertificate, Viewer
from analyst_server.api.bodies import Body, EnrolmentBody, message_response, read_limited
from analyst_server.services import (
    anchor_matrix,
    collaborations,
    downlinks,
    enrol,
    ledger,
    report,
    revoke,
    rounds,
    tokens,
)
from analyst_server.services.analyst import Analyst
from analyst_server.services.anchor_matrix import MatrixUpload
from analyst_server.services.ingest import Append, Ingest, UploadStatus
from protocol import __version__
from protocol.codec import pack_list, unpack_list
from protocol.errors import MalformedMessageError
from protocol.limits import (
    DEFAULT_CHUNK_BYTES,
    MAX_CERTIFICATE_BYTES,
    MAX_CHUNK_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_REVOCATION_LIST_BYTES,
    MAX_TOKEN_REQUEST_BYTES,
    MIN_CHUNK_BYTES,
)
from protocol.tokens import TokenRequest
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, WIRE_VERSIONS

_MESSAGE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
_TOKEN_REQUEST: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": TokenRequest.model_json_schema()}},
    }
}
_DRAFT: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
}
_STREAM_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {STREAM_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
CRL_MEDIA_TYPE: Final = "application/pkix-crl"  # RFC 2585
_MESSAGE_ANSWER: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {MEDIA_TYPE: {}}}}


def discovery_routes(max_uplink_bytes: int) -> APIRouter:
    """What needs no certificate besides enrolment."""
    router = APIRouter(tags=["discovery"])

    @router.get("/.well-known/odc")
    async def discover() -> dict[str, Any]:
        """Versions and limits this analyst speaks."""
        return {
            "service": "odc-analyst",
            "software": f"odc {__version__}",
            "wire_versions": list(WIRE_VERSIONS),
            "media_types": [MEDIA_TYPE],
            "limits": {
                "message_bytes": MAX_MESSAGE_BYTES,
                "uplink_bytes": max_uplink_bytes,
                "min_chunk_bytes": MIN_CHUNK_BYTES,
                "max_chunk_bytes": MAX_CHUNK_BYTES,
                "default_chunk_bytes": DEFAULT_CHUNK_BYTES,
            },
        }

    @router.get("/healthz")
    async def health() -> dict[str, str]:
        """Answers while the process serves."""
        return {"status": "ok"}

    return router


def enrolment_routes(analyst: Analyst) -> APIRouter:
    """Asking for a certificate, and the lead's answer."""
    router = APIRouter(prefix="/v1/enrolments", tags=["enrolment"])

    @router.post("", status_code=201, openapi_extra=_MESSAGE_BODY)
    async def request_certificate(body: EnrolmentBody, request: Request) -> Response:
        """Ask for a certificate with an invitation; the lead decides."""
        status, created = await to_thread.run_sync(enrol.request, analyst, body)
        request.state.invitation_id = status["invitation_id"]  # tells the meter whose bytes these were
        return JSONResponse(status, 201 if created else 200)

    @router.get("")
    def list_requests(sender: Sender) -> dict[str, Any]:
        """The requests that wait for the lead institution."""
        return {"enrolments": enrol.pending(analyst, sender)}

    @router.get("/{invitation_id}")
    def enrolment_status(invitation_id: str) -> dict[str, Any]:
        """The state of one request, with the certificate once there is one."""
        return enrol.status(analyst, invitation_id)

    @router.put("/{invitation_id}/certificate", status_code=204)
    async def issue_certificate(invitation_id: str, sender: Sender, request: Request) -> Response:
        """Hand in the certificate (DER or PEM) the lead issued."""
        body = await read_limited(request, MAX_CERTIFICATE_BYTES)
        await to_thread.run_sync(enrol.issue, analyst, sender, invitation_id, body)
        return Response(status_code=204)

    return router


def trust_routes(analyst: Analyst) -> APIRouter:
    """Certificates that end: renewed by their holders, or taken back by the lead."""
    router = APIRouter(prefix="/v1", tags=["trust"])

    @router.post("/renewals", status_code=201, openapi_extra=_MESSAGE_BODY)
    async def request_renewal(sender: Sender, body: Body) -> Response:
        """Ask for a new certificate of the caller's own name; the lead decides."""
        status, created = await to_thread.run_sync(enrol.renew, analyst, sender, body)
        return JSONResponse(status, 201 if created else 200)

    @router.put("/revocations", status_code=204)
    async def publish_revocations(sender: Sender, request: Request) -> Response:
        """Hand in the revocation list (DER) of the lead institution; it holds from the answer on."""
        body = await read_limited(request, MAX_REVOCATION_LIST_BYTES)
        await to_thread.run_sync(revoke.publish, analyst, sender, body)
        return Response(status_code=204)

    @router.get("/revocations", responses={200: {"content": {CRL_MEDIA_TYPE: {}}}})
    def revocation_list() -> Response:
        """The newest revocation list."""
        return Response(revoke.newest(analyst), media_type=CRL_MEDIA_TYPE)

    return router


def collaboration_routes(analyst: Analyst) -> APIRouter:
    """Terms, acceptance, anchor, status."""
    router = APIRouter(prefix="/v1/collaborations", tags=["collaborations"])

    @router.get("")
    def list_collaborations(viewer: Viewer) -> dict[str, Any]:
        """The collaborations the caller may see."""
        return {"collaborations": collaborations.listing(analyst, viewer.holder, viewer.only)}

    @router.get("/{collaboration_id}")
    def collaboration_status(collaboration_id: str, viewer: Viewer) -> dict[str, Any]:
        """Where a collaboration stands, and whom it waits for."""
        return collaborations.status(analyst, viewer.holder, collaboration_id)

    @router.get("/{collaboration_id}/terms", responses=_MESSAGE_ANSWER)
    def signed_terms(collaboration_id: str, sender: Sender) -> Response:
        """The terms, signed by the analyst."""
        return message_response(collaborations.signed_terms(analyst, sender, collaboration_id))

    @router.put("/{collaboration_id}/acceptance", status_code=204, openapi_extra=_MESSAGE_BODY)
    async def accept_terms(collaboration_id: str, sender: Sender, body: Body) -> Response:
        """Hand in the caller's signature under the terms."""
        await to_thread.run_sync(collaborations.accept, analyst, sender, collaboration_id, body)
        return Response(status_code=204)

    @router.get("/{collaboration_id}/acceptances", responses=_MESSAGE_ANSWER)
    def list_acceptances(collaboration_id: str, sender: Sender) -> Response:
        """All signed acceptances, for the lead to seal the anchor to."""
        return message_response(pack_list(collaborations.acceptances(analyst, sender, collaboration_id)))

    @router.put("/{collaboration_id}/anchors", status_code=204, openapi_extra=_MESSAGE_BODY)
    async def publish_anchor(collaboration_id: str, sender: Sender, body: Body) -> Response:
        """Hand in the anchor, sealed once for each member."""
        await to_thread.run_sync(
            collaborations.publish_anchor, analyst, sender, collaboration_id, unpack_list(body)
        )
        return Response(status_code=204)

    @router.get("/{collaboration_id}/anchor", responses=_MESSAGE_ANSWER)
    def sealed_anchor(collaboration_id: str, sender: Sender) -> Response:
        """The anchor, sealed for the caller."""
        return message_response(collaborations.sealed_anchor(analyst, sender, collaboration_id))

    return router


def result_routes(analyst: Analyst) -> APIRouter:
    """What comes back: the receipt, the downlink, the report."""
    router = APIRouter(prefix="/v1/collaborations", tags=["results"])

    @router.get("/{collaboration_id}/receipt", responses=_MESSAGE_ANSWER)
    def uplink_receipt(collaboration_id: str, sender: Sender) -> Response:
        """The receipt of the caller's uplink."""
        return message_response(collaborations.receipt(analyst, sender, collaboration_id))

    @router.get("/{collaboration_id}/downlink", responses={200: {"content": {STREAM_MEDIA_TYPE: {}}}})
    def downlink(collaboration_id: str, sender: Sender) -> Response:
        """The caller's change-of-basis matrix and the model."""
        length, pieces = downlinks.fetch(analyst, sender, collaboration_id)
        headers = {"content-length": str(length)}
        return StreamingResponse(pieces, media_type=STREAM_MEDIA_TYPE, headers=headers)

    @router.get("/{collaboration_id}/ledger", responses=_MESSAGE_ANSWER)
    def ledger_page(collaboration_id: str, viewer: Viewer, start: str = "0") -> Response:
        """Every step from number ``start`` on, and the analyst's signature under all of them."""
        return message_response(ledger.page(analyst, viewer.holder, collaboration_id, _count(start)))

    @router.get(
        "/{collaboration_id}/matrix",
        name="anchor_matrix",
        responses={200: {"content": {STREAM_MEDIA_TYPE: {}}}},
    )
    def sealed_matrix(collaboration_id: str, sender: Sender) -> Response:
        """The matrix of a public anchor, sealed under the seed of the caller's anchor."""
        length, pieces = anchor_matrix.fetch(analyst, sender, collaboration_id)
        headers = {"content-length": str(length)}
        return StreamingResponse(pieces, media_type=STREAM_MEDIA_TYPE, headers=headers)

    @router.get("/{collaboration_id}/report")
    def collaboration_report(collaboration_id: str, viewer: Viewer) -> dict[str, Any]:
        """What happened and what it cost, beside the paper's formulas."""
        if viewer.holder is None:
            return report.for_operator(analyst, collaboration_id)
        return report.for_member(analyst, viewer.holder, collaboration_id)

    return router


def operator_routes(analyst: Analyst) -> APIRouter:
    """What `odc-analyst collaboration` does, for other systems of the analyst."""
    router = APIRouter(prefix="/v1/collaborations", tags=["operator"])

    @router.put("/{collaboration_id}", status_code=201, openapi_extra=_DRAFT)
    async def publish_terms(collaboration_id: str, manager: Manager, request: Request) -> Response:
        """Publish the terms of a new collaboration, under an id the caller has drawn."""
        draft = await read_limited(request, MAX_MESSAGE_BYTES)
        created = await to_thread.run_sync(collaborations.create_once, analyst, collaboration_id, draft)
        status = collaborations.status(analyst, manager.holder, collaboration_id)
        return JSONResponse(status, 201 if created else 200)

    def add(step: str, use_case: Callable[[Analyst, str], None], says: str) -> None:
        @router.post(f"/{{collaboration_id}}/{step}", name=step, description=says)
        def take(collaboration_id: str, manager: Manager) -> dict[str, Any]:
            use_case(analyst, collaboration_id)
            return collaborations.status(analyst, manager.holder, collaboration_id)

    add("seal", rounds.seal, "Seal now, without the institutions that have sent nothing.")
    add("resume", rounds.resume, "Take a failed round up again from what was sealed.")
    add("release", rounds.release, "Release a round that was held.")
    add(
        "cancel",
        collaborations.cancel,
        "Give a collaboration up before its release, and erase what was received of it.",
    )
    add("close", collaborations.close, "End a released collaboration, and erase its uplinks and downlinks.")
    return router


def token_routes(analyst: Analyst) -> APIRouter:
    """An institution's API tokens. It draws them itself: no answer holds one."""
    router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

    @router.post("", status_code=201, openapi_extra=_TOKEN_REQUEST)
    async def make_token(sender: Sender, certificate: SenderCertificate, request: Request) -> Response:
        """Let a token in that the caller has drawn, by its digest."""
        asked = TokenRequest.from_json(await read_limited(request, MAX_TOKEN_REQUEST_BYTES))
        row, created = await to_thread.run_sync(tokens.create, analyst, sender, certificate, asked)
        return JSONResponse(row.model_dump(), 201 if created else 200)

    @router.get("")
    def list_tokens(sender: Sender) -> dict[str, Any]:
        """The caller's tokens: where they are for, until when, and when each was last used."""
        return {"tokens": [row.model_dump() for row in tokens.listing(analyst, sender)]}

    @router.delete("/{token_id}", status_code=204)
    def revoke_token(token_id: str, sender: Sender) -> Response:
        """Refuse a token from now on."""
        tokens.revoke(analyst, sender, token_id)
        return Response(status_code=204)

    return router


def uplink_routes(analyst: Analyst, body_idle_timeout_s: float) -> APIRouter:
    """The resumable upload, in the shape of draft-ietf-httpbis-resumable-upload."""
    router = APIRouter(tags=["uplink"])
    ingest = Ingest(analyst)

    @router.put("/v1/collaborations/{collaboration_id}/matrix", status_code=204, openapi_extra=_STREAM_BODY)
    async def publish_matrix(collaboration_id: str, sender: Sender, request: Request) -> Response:
        """Hand in the sealed matrix of a public anchor, before the anchor itself."""
        upload = await to_thread.run_sync(anchor_matrix.begin, analyst, sender, collaboration_id)
        try:
            await _take_matrix(upload, request, body_idle_timeout_s)
        except (TimeoutError, ClientDisconnect):
            return Response(status_code=408)
        return Response(status_code=204)

    @router.post(
        "/v1/collaborations/{collaboration_id}/uplinks", status_code=201, openapi_extra=_MESSAGE_BODY
    )
    async def begin_uplink(collaboration_id: str, sender: Sender, body: Body) -> Response:
        """Open an upload by its signed manifest, or find the one that has this manifest."""
        status = await to_thread.run_sync(ingest.begin, sender, collaboration_id, body)
        content = {
            "upload_id": status.upload_id,
            "offset": status.offset,
            "length": status.length,
            "complete": status.complete,
        }
        headers = {"location": f"/v1/uploads/{status.upload_id}", **_upload_headers(status)}
        return JSONResponse(content, 201 if status.created else 200, headers=headers)

    @router.head("/v1/uploads/{upload_id}", status_code=204)
    def upload_offset(upload_id: str, sender: Sender) -> Response:
        """Ask where an upload stands."""
        return Response(status_code=204, headers=_upload_headers(ingest.status(sender, upload_id)))

    @router.patch("/v1/uploads/{upload_id}", responses={200: {"content": {MEDIA_TYPE: {}}}, 204: {}})
    async def append(upload_id: str, sender: Sender, request: Request) -> Response:
        """Append at an offset; with ``Upload-Complete: ?1``, complete and get the receipt."""
        offset, is_last, whole_digest = _upload_request(request)
        started = await to_thread.run_sync(ingest.append, sender, upload_id, offset)
        try:
            if started is not None:
                offset = await _take(started, request, body_idle_timeout_s)
        except (TimeoutError, ClientDisconnect):  # what had arrived is kept; nobody reads this answer
            return Response(status_code=408)
        if not is_last:
            return Response(status_code=204, headers={"upload-offset": str(offset)})
        receipt = await to_thread.run_sync(ingest.complete, sender, upload_id, whole_digest)
        return message_response(receipt)

    return router


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise MalformedMessageError("start", "is not a number of an entry")
    return int(text)


async def _take(append: Append, request: Request, idle_timeout_s: float) -> int:
    """Keep what arrives; when the line breaks, what was whole by then is durable all the same."""
    pieces: AsyncIterator[bytes] = request.stream()
    buffer = bytearray()
    try:
        while True:
            async with asyncio.timeout(idle_timeout_s):
                piece = await anext(pieces, None)
            if piece is None:
                break
            buffer += piece
            if len(buffer) >= DEFAULT_CHUNK_BYTES:  # one hop to a thread per chunk, not per packet
                await to_thread.run_sync(append.write, bytes(buffer))
                buffer.clear()
        await to_thread.run_sync(append.write, bytes(buffer))
    finally:
        durable = await to_thread.run_sync(append.close)
    return durable


async def _take_matrix(upload: MatrixUpload, request: Request, idle_timeout_s: float) -> None:
    pieces: AsyncIterator[bytes] = request.stream()
    buffer = bytearray()
    while True:
        async with asyncio.timeout(idle_timeout_s):
            piece = await anext(pieces, None)
        if piece is None:
            break
        buffer += piece
        if len(buffer) >= DEFAULT_CHUNK_BYTES:
            await to_thread.run_sync(upload.write, bytes(buffer))
            buffer.clear()
    await to_thread.run_sync(upload.write, bytes(buffer))
    await to_thread.run_sync(upload.finish)


def _upload_headers(status: UploadStatus) -> dict[str, str]:
    return {
        "upload-offset": str(status.offset),
        "upload-length": str(status.length),
        "upload-complete": "?1" if status.complete else "?0",
        "cache-control": "no-store",
    }


def _upload_request(request: Request) -> tuple[int, bool, bytes]:
    """Read offset, completeness and whole digest from the headers of an append."""
    offset, complete = request.headers.get("upload-offset", ""), request.headers.get("upload-complete", "")
    if not re.fullmatch(r"[0-9]{1,18}", offset) or complete not in ("?0", "?1"):
        raise MalformedMessageError("append", "needs Upload-Offset: NUMBER and Upload-Complete: ?0 or ?1")
    if complete == "?0":
        return int(offset), False, b""
    found = re.fullmatch(r"sha-256=:([A-Za-z0-9+/]{43}=):", request.headers.get("repr-digest", ""))
    if found is None:
        raise MalformedMessageError("append", "the last needs Repr-Digest: sha-256=:BASE64:")
    return int(offset), True, base64.b64decode(found[1])
