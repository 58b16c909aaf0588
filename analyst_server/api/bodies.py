"""Request bodies within their limits, and answers in our media type."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from protocol.errors import LimitExceededError, MalformedMessageError, UnsupportedVersionError
from protocol.limits import MAX_BODY_S
from protocol.operations import Operation, find
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, WIRE_VERSIONS

COMPRESSED_FROM_BYTES: Final = 600
"""Smaller answers fit into a packet or two as they are."""
_VERSION: Final = re.compile(r"application/vnd\.odc\.v([0-9]{1,9})(?:\+|$)")


async def read_limited(request: Request, limit: int) -> bytes:
    """Return a body of at most ``limit`` bytes, whatever its length header says.

    Raises `LimitExceededError` if the body is longer, or takes more than `MAX_BODY_S`.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(MAX_BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise LimitExceededError("request in bytes", limit)
    except TimeoutError:
        raise LimitExceededError("request in seconds", MAX_BODY_S) from None
    return bytes(body)


def check_media_type(request: Request) -> None:
    """Raise unless the body is of the wire version that this server speaks."""
    given = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if given == MEDIA_TYPE:
        return
    found = _VERSION.match(given)
    if found is not None:
        version = int(found[1])
        who_upgrades = "the analyst" if version > max(WIRE_VERSIONS) else "the client"
        raise UnsupportedVersionError(WIRE_VERSIONS, [version], who_upgrades)
    raise MalformedMessageError("request", f"its content type must be {MEDIA_TYPE}")


async def _body(request: Request) -> bytes:
    """Read what the table says that the operation carries.

    Only messages must declare their content type: it has the wire version in it. JSON and certificates
    are checked when they are parsed.
    """
    operation: Operation = request.state.operation
    wanted = operation.body
    assert wanted is not None  # noqa: S101  # no operation without a body has a handler that takes one
    assert wanted.max_bytes is not None  # noqa: S101  # a stream is read piece by piece
    if wanted.media_type == MEDIA_TYPE:
        check_media_type(request)
    return await read_limited(request, wanted.max_bytes)


Body = Annotated[bytes, Depends(_body)]
"""The body of a request, within the limit and in the media type of its operation."""


class CompressedAnswers(GZipMiddleware):
    """Compresses answers for clients that ask for it, but not downlinks and sealed matrices.

    Terms repeat the same words for every column: with 784 columns 71,660 bytes become 2,725.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=COMPRESSED_FROM_BYTES, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        is_stream = found is not None and found[0].answer == STREAM_MEDIA_TYPE
        await (self.app if is_stream else super().__call__)(scope, receive, send)


def message_response(data: bytes) -> Response:
    """Return an answer in our media type."""
    return Response(data, media_type=MEDIA_TYPE)
