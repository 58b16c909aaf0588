"""Request bodies within their limits, and answers in our media type."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Annotated, Final

from anyio import to_thread
from cryptography.hazmat.primitives.serialization import Encoding
from fastapi import Depends, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocol.coding import Coding
from protocol.errors import LimitExceededError, MalformedMessageError, UnsupportedVersionError
from protocol.identity import load_certificate
from protocol.limits import MAX_BODY_S
from protocol.operations import Operation, find
from protocol.version import MEDIA_TYPE, STREAM_MEDIA_TYPE, WIRE_VERSIONS

COMPRESSED_FROM_BYTES: Final = 600
"""Smaller answers fit into a packet or two as they are: gzip has to begin with nothing."""
PACKED_FROM_BYTES: Final = 100
"""From here on the analyst's own coding can save more than the line that names it."""
_IN_A_THREAD_FROM_BYTES: Final = 128 * 2**10
_CODING: Final = "content-encoding"
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
    body = await read_limited(request, wanted.max_bytes)
    coding = request.headers.get(_CODING, "identity").strip().lower()
    return body if coding == "identity" else _unpacked(request, coding, body, wanted.max_bytes)


def _unpacked(request: Request, coding: str, body: bytes, limit: int) -> bytes:
    """Return a body that the caller has packed by the coding of its certificate; within the same limit."""
    pem: bytes | None = request.state.certificate
    own = Coding.of(load_certificate(pem).public_bytes(Encoding.DER)) if pem else None
    if own is None or own.name != coding:
        raise MalformedMessageError("request", "its content coding is not that of the caller's certificate")
    return own.unpack(body, limit)


Body = Annotated[bytes, Depends(_body)]
"""The body of a request, within the limit and in the media type of its operation."""


class CompressedAnswers(GZipMiddleware):
    """Compresses answers for clients that ask for it, but not downlinks and sealed matrices.

    Terms repeat the same words for every column: with 784 columns 71,660 bytes become 2,725. Whoever knows
    the analyst's certificate can ask for its own coding, by which a status of 420 bytes becomes 90.
    """

    def __init__(self, app: ASGIApp, coding: Coding) -> None:
        super().__init__(app, minimum_size=COMPRESSED_FROM_BYTES, compresslevel=6)
        self._coding = coding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await super().__call__(scope, receive, send)
        elif found[0].answer == STREAM_MEDIA_TYPE:
            await self.app(scope, receive, send)
        elif self._coding.name in _named(Headers(scope=scope).get("accept-encoding", "")):
            await self.app(scope, receive, _Packer(send, self._coding))
        else:
            await super().__call__(scope, receive, send)


def _named(codings: str) -> set[str]:
    """Return the codings that a client has named."""
    return {one.partition(";")[0].strip().lower() for one in codings.split(",")}


class _Packer:
    """Sends one answer, packed if it is whole, and shorter for it."""

    def __init__(self, send: Send, coding: Coding) -> None:
        self._send, self._coding = send, coding
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is None:  # the rest of a body that is sent as it comes
            await self._send(message)
            return
        start, self._start = self._start, None
        headers, body = MutableHeaders(raw=start["headers"]), message.get("body", b"")
        is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        is_problem = start["status"] >= HTTPStatus.BAD_REQUEST  # which the access log reads as it goes by
        if is_whole and not is_problem and len(body) >= PACKED_FROM_BYTES and _CODING not in headers:
            if headers.get("cache-control") != "no-store":
                headers.add_vary_header("Accept-Encoding")
            packed = await self._packed(body)
            if len(packed) + self._coding.header_bytes < len(body):
                headers[_CODING], headers["content-length"] = self._coding.name, str(len(packed))
                message = {**message, "body": packed}
        await self._send(start)
        await self._send(message)

    async def _packed(self, body: bytes) -> bytes:
        if len(body) < _IN_A_THREAD_FROM_BYTES:
            return self._coding.pack(body)
        return await to_thread.run_sync(self._coding.pack, body)


def message_response(data: bytes) -> Response:
    """Return an answer in our media type."""
    return Response(data, media_type=MEDIA_TYPE)
