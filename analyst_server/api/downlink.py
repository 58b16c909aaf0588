"""The handler of the downlink: whole, in parts, or acknowledged (RFC 9110; docs/protocol.md)."""

from __future__ import annotations

import re
from typing import Final

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from analyst_server.api.access import Sender
from analyst_server.api.conditions import tags
from analyst_server.api.fields import (
    ACCEPT_RANGES,
    CONTENT_LENGTH,
    IF_NONE_MATCH,
    IF_RANGE,
    NO_PART,
    NOT_STORED,
    PART,
    RANGE,
    TAG,
)
from analyst_server.api.surface import Bytes, Says, TheAnalyst, serve
from analyst_server.services import downlinks
from analyst_server.services.downlinks import DownlinkStream
from protocol import operations
from protocol.version import STREAM_MEDIA_TYPE

router = APIRouter()

_ABOUT: Final = (TAG, ACCEPT_RANGES, NOT_STORED)
_DOWNLINK: Final = Bytes("DownlinkManifest and arrays", "DownlinkManifest")
_SAYS: Final = (
    Says(200, fields=(*_ABOUT, CONTENT_LENGTH)),
    Says(206, "The part that Range asks for.", (*_ABOUT, CONTENT_LENGTH, PART), _DOWNLINK),
    Says(304, "Acknowledged: the caller has this version.", _ABOUT),
    Says(416, "There is no byte where Range begins.", (*_ABOUT, NO_PART), is_problem=True),
)
_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")


@serve(
    router, operations.FETCH_DOWNLINK, answers=_DOWNLINK, reads=(IF_NONE_MATCH, RANGE, IF_RANGE), says=_SAYS
)
def fetch_downlink(analyst: TheAnalyst, sender: Sender, collaboration_id: str, request: Request) -> Response:
    """Return the caller's change-of-basis matrix and the model, in parts if asked, or note their arrival."""
    return _answer(downlinks.fetch(analyst, sender, collaboration_id), request.headers)


def _answer(downlink: DownlinkStream, headers: Headers) -> Response:
    """Return the answer to a request with these headers; a condition comes before a range (13.2.2)."""
    about = {TAG.name: downlink.tag, **ACCEPT_RANGES.fixed, **NOT_STORED.fixed}
    if downlink.tag in tags(headers):
        downlink.acknowledge()
        return Response(status_code=304, headers=about)
    found = _RANGE.fullmatch(headers.get(RANGE.name, ""))
    if found is None or headers.get(IF_RANGE.name, downlink.tag) != downlink.tag:
        about[CONTENT_LENGTH.name] = str(downlink.length)
        return StreamingResponse(downlink.whole(), media_type=STREAM_MEDIA_TYPE, headers=about)
    start, last = int(found[1]), int(found[2] or downlink.length)
    end = min(last + 1, downlink.length)
    if start >= downlink.length or end <= start:
        error = {**about, NO_PART.name: f"bytes */{downlink.length}"}
        raise HTTPException(416, headers=error)
    about[PART.name] = f"bytes {start}-{end - 1}/{downlink.length}"
    about[CONTENT_LENGTH.name] = str(end - start)
    return StreamingResponse(downlink.pieces(start, end), 206, media_type=STREAM_MEDIA_TYPE, headers=about)
