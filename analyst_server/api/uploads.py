"""The handlers of what streams in: the uplink, resumable, and the sealed matrix of a public anchor.

The uplink has the shape of draft-ietf-httpbis-resumable-upload.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from analyst_server.api.access import Sender
from analyst_server.api.bodies import Body, message_response
from analyst_server.api.surface import TheAnalyst, created, done, serve
from analyst_server.services import anchor_matrix
from analyst_server.services.anchor_matrix import MatrixUpload
from analyst_server.services.ingest import Ingest, UploadStatus
from analyst_server.services.upload_session import Append
from protocol import operations
from protocol.errors import MalformedMessageError, StorageBusyError
from protocol.limits import DEFAULT_CHUNK_BYTES

router = APIRouter()

MAX_COMPLETING: Final = 64
COME_BACK_S: Final = 5


async def _ingest(request: Request) -> Ingest:
    ingest: Ingest = request.app.state.ingest
    return ingest


async def _idle_timeout_s(request: Request) -> float:
    seconds: float = request.app.state.body_idle_timeout_s
    return seconds


TheIngest = Annotated[Ingest, Depends(_ingest)]
IdleTimeout = Annotated[float, Depends(_idle_timeout_s)]
"""Seconds after which an upload that sends nothing is cut."""


@serve(router, operations.PUBLISH_ANCHOR_MATRIX)
async def publish_anchor_matrix(
    analyst: TheAnalyst, sender: Sender, collaboration_id: str, request: Request, idle_timeout_s: IdleTimeout
) -> Response:
    """Hand in the sealed matrix of a public anchor, before the anchor itself."""
    upload = await to_thread.run_sync(anchor_matrix.begin, analyst, sender, collaboration_id)
    try:
        await _take_matrix(upload, request, idle_timeout_s)
    except (TimeoutError, ClientDisconnect):
        return Response(status_code=408)
    return done()


@serve(router, operations.BEGIN_UPLINK)
def begin_uplink(ingest: TheIngest, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Open an upload by its signed manifest, or find the one that has this manifest."""
    status = ingest.begin(sender, collaboration_id, body)
    content = {
        "upload_id": status.upload_id,
        "offset": status.offset,
        "begun": status.begun,
        "length": status.length,
        "complete": status.complete,
    }
    answer = created(content, status.created)
    answer.headers["location"] = operations.UPLOAD_OFFSET.url(upload_id=status.upload_id)
    answer.headers.update(_upload_headers(status))
    return answer


@serve(router, operations.UPLOAD_OFFSET)
def upload_offset(ingest: TheIngest, sender: Sender, upload_id: str) -> Response:
    """Ask how much of an upload is kept."""
    return Response(status_code=204, headers=_upload_headers(ingest.status(sender, upload_id)))


@serve(router, operations.APPEND, responses={204: {"description": "Appended, but not complete yet."}})
async def append(
    ingest: TheIngest, sender: Sender, upload_id: str, request: Request, idle_timeout_s: IdleTimeout
) -> Response:
    """Append at an offset. With ``Upload-Complete: ?1``, complete the upload and get the receipt."""
    offset, is_last, whole_digest = _upload_request(request)
    started = await to_thread.run_sync(ingest.append, sender, upload_id, offset)
    try:
        if started is not None:
            offset = await _take(started, request, idle_timeout_s)
    except (TimeoutError, ClientDisconnect):  # what had arrived is kept; nobody reads this answer
        return Response(status_code=408)
    if not is_last:
        return Response(status_code=204, headers={"upload-offset": str(offset)})
    async with _turn_to_complete(request):
        receipt = await to_thread.run_sync(ingest.complete, sender, upload_id, whole_digest)
    return message_response(receipt)


@asynccontextmanager
async def _turn_to_complete(request: Request) -> AsyncIterator[None]:
    """Count an upload that is being completed; raise `StorageBusyError` while so many are.

    Each reads its bytes again in one of few threads, which other requests wait for too.
    """
    state = request.app.state
    if state.completing >= MAX_COMPLETING:
        raise StorageBusyError(
            f"{MAX_COMPLETING} uplinks are being completed; this one is kept", retry_after_s=COME_BACK_S
        )
    state.completing += 1
    try:
        yield
    finally:
        state.completing -= 1


async def _take(append: Append, request: Request, idle_timeout_s: float) -> int:
    """Write what arrives and return how much is durable, even if the connection breaks."""
    try:
        await _write_chunks(append.write, request, idle_timeout_s)
    finally:
        durable = await to_thread.run_sync(append.close)
    return durable


async def _take_matrix(upload: MatrixUpload, request: Request, idle_timeout_s: float) -> None:
    await _write_chunks(upload.write, request, idle_timeout_s)
    await to_thread.run_sync(upload.finish)


async def _write_chunks(
    write: Callable[[bytearray], object], request: Request, idle_timeout_s: float
) -> None:
    """Hand the body to ``write`` in a thread: once for each chunk, not once for each packet.

    Raises `TimeoutError` if nothing arrives for ``idle_timeout_s``, and `ClientDisconnect`.
    """
    pieces: AsyncIterator[bytes] = request.stream()
    buffer = bytearray()
    try:
        while True:
            async with asyncio.timeout(idle_timeout_s):
                piece = await anext(pieces, None)
            if piece is None:
                break
            buffer += piece
            if len(buffer) >= DEFAULT_CHUNK_BYTES:
                whole, buffer = buffer, bytearray()
                await to_thread.run_sync(write, whole)
    finally:  # also where the line broke: what has come need not come again
        await to_thread.run_sync(write, buffer)


def _upload_headers(status: UploadStatus) -> dict[str, str]:
    return {
        "upload-offset": str(status.offset),
        "upload-begun": str(status.begun),
        "upload-length": str(status.length),
        "upload-complete": "?1" if status.complete else "?0",
        "cache-control": "no-store",
    }


def _upload_request(request: Request) -> tuple[int, bool, bytes]:
    """Return offset, completeness and whole digest from the headers of an append."""
    offset, complete = request.headers.get("upload-offset", ""), request.headers.get("upload-complete", "")
    if not re.fullmatch(r"[0-9]{1,18}", offset) or complete not in ("?0", "?1"):
        raise MalformedMessageError("append", "needs Upload-Offset: NUMBER and Upload-Complete: ?0 or ?1")
    if complete == "?0":
        return int(offset), False, b""
    found = re.fullmatch(r"sha-256=:([A-Za-z0-9+/]{43}=):", request.headers.get("repr-digest", ""))
    if found is None:
        raise MalformedMessageError("append", "the last needs Repr-Digest: sha-256=:BASE64:")
    return int(offset), True, base64.b64decode(found[1])
