"""The handlers of what streams in: the uplink, resumable, and the sealed matrix of a public anchor.

The uplink has the shape of draft-ietf-httpbis-resumable-upload-15; docs/protocol.md says where it differs.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from analyst_server.api.access import Sender
from analyst_server.api.bodies import Body, message_response
from analyst_server.api.fields import (
    BEGUN,
    IS_COMPLETE,
    KEPT,
    LENGTH,
    LOCATION,
    NOT_STORED,
    REPR_DIGEST,
    UPLOAD_COMPLETE,
    UPLOAD_OFFSET,
    WHOLE_DIGEST,
)
from analyst_server.api.surface import CUT_OFF, Bytes, Says, TheAnalyst, created, done, serve
from analyst_server.blobs import Blobs
from analyst_server.services import anchor_matrix
from analyst_server.services.ingest import Ingest, UploadStatus
from analyst_server.services.upload_session import Append
from protocol import operations
from protocol.answers import Upload
from protocol.errors import MalformedMessageError, StorageBusyError
from protocol.limits import DEFAULT_CHUNK_BYTES

router = APIRouter()

MAX_COMPLETING: Final = 64
COME_BACK_S: Final = 5
MOST_TOGETHER_BYTES: Final = 3 * DEFAULT_CHUNK_BYTES // 2
"""What comes while a part of an upload is written is handed over once it has so many bytes."""
MOST_WRITERS: Final = 2
"""One writes about as fast as what comes can be decrypted, which one thread does for all lines."""
MOST_WAITING_WRITERS: Final = 32
"""Where writers wait for a network."""
_STANDS: Final = (KEPT, BEGUN, LENGTH, IS_COMPLETE, NOT_STORED)
_PLACE: Final = (LOCATION, *_STANDS)


async def _ingest(request: Request) -> Ingest:
    ingest: Ingest = request.app.state.ingest
    return ingest


async def _writers(request: Request) -> Executor:
    writers: Executor = request.app.state.writers
    return writers


async def _idle_timeout_s(request: Request) -> float:
    seconds: float = request.app.state.body_idle_timeout_s
    return seconds


TheIngest = Annotated[Ingest, Depends(_ingest)]
Writers = Annotated[Executor, Depends(_writers)]
IdleTimeout = Annotated[float, Depends(_idle_timeout_s)]
"""Seconds after which an upload that sends nothing is cut."""


def writers_for(blobs: Blobs) -> Executor:
    """Return the threads that check and write what arrives."""
    return ThreadPoolExecutor(most_writers(blobs), "writer")


def most_writers(blobs: Blobs) -> int:
    """Return how many uploads are checked and written at the same time.

    More threads than cores would mostly wait for Python's lock, and keep the one waiting that reads from all
    lines: on two cores, eight of them took 1.2 times as long as one.
    """
    if blobs.holds_back_bytes:
        return MOST_WAITING_WRITERS
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WRITERS, max(1, cores - 1))


@serve(router, operations.PUBLISH_ANCHOR_MATRIX, takes=Bytes("The sealed matrix", "Matrix"), says=(CUT_OFF,))
async def publish_anchor_matrix(
    analyst: TheAnalyst,
    sender: Sender,
    collaboration_id: str,
    request: Request,
    idle_timeout_s: IdleTimeout,
    writers: Writers,
) -> Response:
    """Hand in the sealed matrix of a public anchor, before the anchor itself."""
    upload = await to_thread.run_sync(anchor_matrix.begin, analyst, sender, collaboration_id)
    try:
        await write_chunks(upload.write, request, idle_timeout_s, writers)
        await to_thread.run_sync(upload.finish)
    except (TimeoutError, ClientDisconnect):
        return Response(status_code=408)
    return done()


@serve(
    router,
    operations.BEGIN_UPLINK,
    takes=Bytes("Signed(UplinkManifest)", "UplinkManifest"),
    answers=Upload,
    says=(Says(201, fields=_PLACE), Says(200, fields=_PLACE)),
)
def begin_uplink(ingest: TheIngest, sender: Sender, collaboration_id: str, body: Body) -> Response:
    """Open an upload by its signed manifest, or find the one that has this manifest."""
    status = ingest.begin(sender, collaboration_id, body)
    content: Upload = {
        "upload_id": status.upload_id,
        "offset": status.offset,
        "begun": status.begun,
        "length": status.length,
        "complete": status.complete,
    }
    answer = created(content, status.created)
    answer.headers[LOCATION.name] = operations.UPLOAD_OFFSET.url(upload_id=status.upload_id)
    answer.headers.update(_upload_headers(status))
    return answer


@serve(router, operations.UPLOAD_OFFSET, says=(Says(204, fields=_STANDS),))
def upload_offset(ingest: TheIngest, sender: Sender, upload_id: str) -> Response:
    """Ask how much of an upload is kept."""
    return Response(status_code=204, headers=_upload_headers(ingest.status(sender, upload_id)))


@serve(
    router,
    operations.APPEND,
    takes=Bytes("Bytes of the array stream from the offset on", "Array stream"),
    answers=Bytes("Signed(Receipt)", "Receipt"),
    reads=(UPLOAD_OFFSET, UPLOAD_COMPLETE, WHOLE_DIGEST, REPR_DIGEST),
    says=(Says(204, "Appended, but not complete yet.", _STANDS), CUT_OFF),
)
async def append(
    ingest: TheIngest,
    sender: Sender,
    upload_id: str,
    request: Request,
    idle_timeout_s: IdleTimeout,
    writers: Writers,
) -> Response:
    """Append at an offset. With ``Upload-Complete: ?1``, complete the upload and get the receipt."""
    offset, is_last, whole_digest = _upload_request(request)
    started = await to_thread.run_sync(ingest.append, sender, upload_id, offset)
    try:
        if started is not None:
            await _take(started, request, idle_timeout_s, writers)
    except (TimeoutError, ClientDisconnect):  # what had arrived is kept; nobody reads this answer
        return Response(status_code=408)
    if not is_last:
        status = await to_thread.run_sync(ingest.status, sender, upload_id)
        return Response(status_code=204, headers=_upload_headers(status))
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


async def _take(append: Append, request: Request, idle_timeout_s: float, writers: Executor) -> None:
    """Write what arrives and make it durable, even if the connection breaks."""
    try:
        await write_chunks(append.write, request, idle_timeout_s, writers)
    finally:
        await to_thread.run_sync(append.close)


async def write_chunks(
    write: Callable[[bytes], object], request: Request, idle_timeout_s: float, writers: Executor
) -> None:
    """Hand the body to ``write`` in another thread, part by part, while the next part arrives.

    A part is as long as a chunk, or half as long again if the one before is still being written. No more than
    these two is held of an upload.

    Raises `TimeoutError` if nothing arrives for ``idle_timeout_s``, and `ClientDisconnect`.
    """
    stream: AsyncIterator[bytes] = request.stream()
    writing, pieces, held_bytes = _Writing(write, writers), list[bytes](), 0
    try:
        while True:
            async with asyncio.timeout(idle_timeout_s):
                piece = await anext(stream, None)
            if piece is None:
                break
            pieces.append(piece)
            held_bytes += len(piece)
            if held_bytes >= (MOST_TOGETHER_BYTES if writing.is_busy else DEFAULT_CHUNK_BYTES):
                whole, pieces, held_bytes = pieces, [], 0
                await writing.hand(whole)
    finally:  # also where the line broke: what has come need not come again
        await writing.hand(pieces)
        await writing.wait()


class _Writing:
    """Writes what it is handed in other threads, in this order, and one after another."""

    def __init__(self, write: Callable[[bytes], object], writers: Executor) -> None:
        self._write, self._writers = write, writers
        self._under_way: asyncio.Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self._under_way is not None and not self._under_way.done()

    async def hand(self, pieces: list[bytes]) -> None:
        """Begin to write, once what was handed before is written; raises what that has raised."""
        await self.wait()
        write = partial(copy_context().run, _write_all, self._write, pieces)
        self._under_way = asyncio.get_running_loop().run_in_executor(self._writers, write)

    async def wait(self) -> None:
        """Wait until nothing is being written; raises what writing has raised.

        Whoever is cancelled waits as well: the thread goes on, and the next one would write beside it.
        """
        if (under_way := self._under_way) is None:
            return
        cancelled: asyncio.CancelledError | None = None
        while not under_way.done():
            try:
                await asyncio.wait([under_way])
            except asyncio.CancelledError as error:
                cancelled = error
        self._under_way = None
        failed = under_way.exception()
        if cancelled is not None:
            raise cancelled
        if failed is not None:
            raise failed


def _write_all(write: Callable[[bytes], object], pieces: list[bytes]) -> None:
    """Write what has come, and hold none of it any longer than that takes."""
    pieces.reverse()
    while pieces:
        write(pieces.pop())


def _upload_headers(status: UploadStatus) -> dict[str, str]:
    return {
        KEPT.name: str(status.offset),
        BEGUN.name: str(status.begun),
        LENGTH.name: str(status.length),
        IS_COMPLETE.name: "?1" if status.complete else "?0",
        **NOT_STORED.fixed,
    }


def _upload_request(request: Request) -> tuple[int, bool, bytes]:
    """Return offset, completeness and whole digest from the headers of an append."""
    offset, complete = (request.headers.get(each.name, "") for each in (UPLOAD_OFFSET, UPLOAD_COMPLETE))
    if not (UPLOAD_OFFSET.takes(offset) and UPLOAD_COMPLETE.takes(complete)):
        raise MalformedMessageError("append", "needs Upload-Offset: NUMBER and Upload-Complete: ?0 or ?1")
    if complete == "?0":
        return int(offset), False, b""
    given = request.headers.get(WHOLE_DIGEST.name) or request.headers.get(REPR_DIGEST.name, "")
    found = re.fullmatch(r"sha-256=:([A-Za-z0-9+/]{43}=):", given)
    if found is None:
        raise MalformedMessageError("append", "the last needs ODC-Whole-Digest: sha-256=:BASE64:")
    return int(offset), True, base64.b64decode(found[1])
