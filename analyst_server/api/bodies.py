"""Request bodies under their limits, and answers in our media type."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from protocol.errors import LimitExceededError, MalformedMessageError, UnsupportedVersionError
from protocol.limits import MAX_BODY_S, MAX_ENROLMENT_BYTES, MAX_MESSAGE_BYTES
from protocol.version import MEDIA_TYPE, WIRE_VERSIONS

COMPRESSED_FROM_BYTES: Final = 600
"""Answers below this fit into a packet or two as they are."""
_FAMILY = "application/vnd.odc.v"


async def read_limited(request: Request, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes, whatever its length header says."""
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
    """Raise unless the body is of the wire version this server speaks."""
    given = request.headers.get("content-type", "").split(";")[0].strip()
    if given == MEDIA_TYPE:
        return
    version = given.removeprefix(_FAMILY).split("+")[0]
    if given.startswith(_FAMILY) and version.isdigit():
        newer = int(version) > max(WIRE_VERSIONS)
        raise UnsupportedVersionError(WIRE_VERSIONS, [int(version)], "the analyst" if newer else "the client")
    raise MalformedMessageError("request", f"its content type must be {MEDIA_TYPE}")


async def _message(request: Request) -> bytes:
    check_media_type(request)
    return await read_limited(request, MAX_MESSAGE_BYTES)


async def _enrolment(request: Request) -> bytes:
    check_media_type(request)
    return await read_limited(request, MAX_ENROLMENT_BYTES)


Body = Annotated[bytes, Depends(_message)]
"""A message in our media type, within `MAX_MESSAGE_BYTES`."""

EnrolmentBody = Annotated[bytes, Depends(_enrolment)]
"""The same from a stranger: within `MAX_ENROLMENT_BYTES`."""


class CompressedAnswers(GZipMiddleware):
    """Compresses answers for clients that ask for it, but not downlinks and sealed matrices.

    Terms repeat themselves in every column: with 784 of them 71,660 bytes become 2,725.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=COMPRESSED_FROM_BYTES, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_array = scope["type"] == "http" and scope["path"].endswith(("/downlink", "/matrix"))
        await (self.app if is_array else super().__call__)(scope, receive, send)


def message_response(data: bytes, status: int = 200) -> Response:
    return Response(data, status, media_type=MEDIA_TYPE)
